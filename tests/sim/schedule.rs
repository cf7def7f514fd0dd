//! One random schedule: daemons start, a minute of faults, calm in one of three network shapes, then the checks.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use mpd_ring::Input;
use mpd_wire::{Newcomer, Record};

use crate::checks;
use crate::recordings::Memory;
use crate::world::{Happening, MS, SECOND, Start, World};

const CHAOS_FROM: u64 = 6 * SECOND;
const CHAOS_UNTIL: u64 = 61 * SECOND;
/// 30 s and twice the time until a daemon is declared dead.
const CALM: u64 = 40 * SECOND;

/// The network after the faults have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Healed,
    Halves,
    PairCut,
}

/// The result of a schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    /// From the calm to the last change of any list, in microseconds.
    pub(crate) settled: u64,
    pub(crate) fingerprint: u64,
    pub(crate) lines: Vec<String>,
    /// The recording of each daemon, if lines are kept.
    pub(crate) recordings: Vec<Vec<u8>>,
    pub(crate) replies: [u64; 6],
    pub(crate) shape: Shape,
}

impl Outcome {
    /// For a schedule that panicked.
    pub(crate) fn panicked(text: String) -> Self {
        Self {
            violations: vec![format!("panicked: {text}")],
            settled: 0,
            fingerprint: 0,
            lines: Vec::new(),
            recordings: Vec::new(),
            replies: [0; 6],
            shape: Shape::Healed,
        }
    }
}

/// Runs the schedule of `seed`; `members` bounds the number of hosts, else 2 to 16.
pub(crate) fn run(seed: u64, members: Option<RangeInclusive<usize>>, record: bool) -> Outcome {
    let shape = match seed % 3 {
        0 => Shape::Healed,
        1 => Shape::Halves,
        _ => Shape::PairCut,
    };
    let members = members.unwrap_or(2..=16);
    // Two hosts that cannot reach each other need two others between them.
    let least = if shape == Shape::PairCut { 5.max(*members.start()) } else { *members.start() };
    let span = members.end().saturating_sub(least) as u64 + 1;
    let size = least + usize::try_from(seed / 3 % span).expect("a number of hosts");
    let mut world = World::new(seed, size);
    world.watch.sparse = size > 64;
    world.trace.records = record;
    let booted = world.random.below(2) == 0;
    // Without a host file no daemon finds hosts that have all moved.
    let moves = booted && world.random.below(3) == 0;
    if moves {
        (0..size).for_each(|host| world.readdress(host));
    }
    if booted && world.random.below(2) == 0 {
        boot_together(&mut world);
    } else {
        for host in 0..size {
            world.boot(host, &first_start(host, size, booted));
            // At most half of the time before the chaos.
            let pause = world.random.below(300.min(3000 / size)) as u64 * MS;
            world.pass(pause);
        }
    }
    world.run(CHAOS_FROM);
    while world.now < CHAOS_UNTIL {
        let pause = 100 * MS + world.random.below(3000) as u64 * MS;
        world.pass(pause);
        fault(&mut world, booted, moves);
    }
    let groups = calm(&mut world, shape, booted);
    let from = world.now;
    world.pass(CALM);
    let mut violations = std::mem::take(&mut world.watch.violations);
    for group in groups {
        let running: BTreeSet<usize> = world.running().intersection(&group).copied().collect();
        violations.extend(checks::after_calm(&world, &running));
    }
    if world.now - world.watch.changed < 5 * SECOND {
        violations.push("lists still change".to_owned());
    }
    Outcome {
        violations,
        settled: world.watch.changed.saturating_sub(from),
        fingerprint: world.trace.fingerprint,
        lines: world.trace.lines,
        recordings: world.trace.recordings.iter().map(Memory::bytes).collect(),
        replies: world.watch.replies,
        shape,
    }
}

/// From a host file, or by hand through the first.
fn first_start(host: usize, size: usize, booted: bool) -> Start {
    let seeds = (0..size).collect();
    if booted {
        Start { ordinal: Some(host as u64), seeds, ..Start::default() }
    } else {
        let entry = if host == 0 { Vec::new() } else { vec![0, host - 1] };
        Start { entry, seeds, ..Start::default() }
    }
}

/// All daemons start at about the same time and wait. The first one gets their records and makes the list, in two
/// waves; the others get it in any order. A few daemons are lost before they get it.
fn boot_together(world: &mut World) {
    let size = world.hosts.len();
    world.boot(0, &first_start(0, size, true));
    for host in 1..size {
        world.boot(host, &Start { waits: true, ..first_start(host, size, true) });
        let pause = world.random.below(40.min(400 / size)) as u64 * MS;
        world.pass(pause);
    }
    let mut first = Vec::new();
    let mut second = Vec::new();
    for host in 1..size {
        if world.random.one_in(4) { &mut second } else { &mut first }.push(host);
    }
    let mut list: Vec<Record> = world.ring(0).records().cloned().collect();
    for wave in [first, second] {
        let newcomer = |&host: &usize| Newcomer {
            name: world.hosts[host].name.clone(),
            instance: world.hosts[host].instance,
            ordinal: Some(host as u64),
            ncpus: 1,
            addresses: vec![world.hosts[host].address.clone()],
        };
        let newcomers = wave.iter().map(newcomer).collect();
        let records = world.ring(0).records_of(newcomers);
        world.watch.agreed(&records);
        list.extend(records.iter().cloned());
        world.input(0, Input::Introduce(records));
        let mut waiting = wave;
        while !waiting.is_empty() {
            let chosen = world.random.below(waiting.len());
            let host = waiting.swap_remove(chosen);
            let pause = world.random.below(60.min(600 / size)) as u64 * MS;
            world.pass(pause);
            if world.random.one_in(16) {
                world.kill(host);
            } else {
                world.input(host, Input::Introduce(list.clone()));
            }
        }
    }
}

/// A daemon returns by itself: from the host file, or through another daemon.
fn restart(world: &mut World, host: usize, booted: bool) {
    let size = world.hosts.len();
    let mut start = first_start(host, size, booted);
    if !booted {
        start.entry = vec![world.random.below(size), world.random.below(size)];
        start.entry.retain(|&entry| entry != host);
    }
    world.boot(host, &start);
}

fn fault(world: &mut World, booted: bool, moves: bool) {
    let size = world.hosts.len();
    let host = world.random.below(size);
    let other = world.random.below(size);
    match world.random.below(24) {
        0 => world.power_off(host),
        1 => {
            // In a large ring, up to half at once.
            let rack = 1 + world.random.below(4.max(size / 2));
            (0..rack).for_each(|next| world.power_off((host + next) % size));
        }
        2 | 3 => world.kill(host),
        4..=6 => {
            // At most as many return at once as may have been lost.
            for next in 0..=world.random.below(size.div_ceil(32)) {
                let host = (host + next) % size;
                world.power_on(host);
                restart(world, host, booted);
            }
        }
        7 => {
            world.set_reach(host, other, false);
            if world.random.below(2) == 0 {
                world.set_reach(other, host, false);
            }
        }
        8 => split(world).into_iter().for_each(drop),
        9 => heal(world),
        10 => world.freeze(host),
        11 => (0..size).for_each(|host| world.thaw(host)),
        12 => {
            let connection = world.connections.keys().nth(other).copied();
            connection.into_iter().for_each(|id| world.reset(id));
        }
        13 => world.hosts[host].clog = world.random.below(1500) as u64 * MS,
        14 => world.hosts.iter_mut().for_each(|machine| machine.clog = 0),
        15 => {
            world.scatter(host, b"faults");
        }
        16 => {
            // Few enough to return in the calm time, in a ring of any size.
            let laps = 1 + u32::try_from(other % 4).expect("a small number");
            world.lap(host, laps, true);
        }
        17 => world.input(host, Input::Leave),
        // Few names, so that several daemons publish the same name.
        18..=20 => drop(world.publish(host, &format!("name {}", other % 4))),
        21 => take_back(world),
        22 => swizzle(world),
        _ if moves => move_away(world, host),
        _ => world.input(host, Input::Drain(other.is_multiple_of(2))),
    }
}

/// A name is unpublished, or its job ends.
fn take_back(world: &mut World) {
    let published = world.watch.names.claims.len().max(1);
    let chosen = world.random.below(published);
    let claim = world.watch.names.claims.iter().nth(chosen);
    let Some((host, claim)) = claim.map(|((host, _), claim)| (*host, claim.clone())) else {
        return;
    };
    if world.random.below(2) == 0 {
        world.unpublish(host, &claim.name, claim.job);
    } else {
        world.input(host, Input::JobOver(claim.job));
    }
}

/// Hosts are delayed one after the other, and are released in another order.
fn swizzle(world: &mut World) {
    for host in 0..world.hosts.len() {
        if world.random.below(2) == 0 {
            let extra = world.random.below(4000) as u64 * MS;
            let from = world.now + world.random.below(3000) as u64 * MS;
            let until = from + world.random.below(6000) as u64 * MS;
            world.push(from, Happening::Clog { host, extra });
            world.push(until, Happening::Clog { host, extra: 0 });
        }
    }
}

/// A host has another address from now on; its daemon may have restarted meanwhile, and may still use the old one.
fn move_away(world: &mut World, host: usize) {
    let old = world.hosts[host].address.clone();
    if world.random.below(2) == 0 {
        return world.readdress(host);
    }
    world.power_off(host);
    world.readdress(host);
    world.power_on(host);
    let mut start = first_start(host, world.hosts.len(), true);
    start.address = (world.random.below(2) == 0).then_some(old);
    world.boot(host, &start);
    world.learn(host);
}

/// Cuts the hosts in two.
fn split(world: &mut World) -> [BTreeSet<usize>; 2] {
    let size = world.hosts.len();
    let (one, two): (Vec<usize>, Vec<usize>) = (0..size).partition(|_| world.random.below(2) == 0);
    for &a in &one {
        for &b in &two {
            world.set_reach(a, b, false);
            world.set_reach(b, a, false);
        }
    }
    [one.into_iter().collect(), two.into_iter().collect()]
}

pub(crate) fn heal(world: &mut World) {
    for row in &mut world.reach {
        row.fill(true);
    }
    world.kick();
}

/// Ends the faults; returns the remaining groups.
fn calm(world: &mut World, shape: Shape, booted: bool) -> Vec<BTreeSet<usize>> {
    let size = world.hosts.len();
    // Delays that were planned for later are dropped.
    world.pass(10 * SECOND);
    heal(world);
    for host in 0..size {
        world.hosts[host].clog = 0;
        world.power_on(host);
        world.thaw(host);
    }
    let all = || vec![(0..size).collect()];
    match shape {
        Shape::Healed => all(),
        Shape::Halves => split(world).into(),
        Shape::PairCut => {
            (0..size).for_each(|host| restart(world, host, booted));
            let one = world.random.below(size);
            let two = (one + 1 + world.random.below(size - 1)) % size;
            world.set_reach(one, two, false);
            if world.random.below(2) == 0 {
                world.set_reach(two, one, false);
            }
            all()
        }
    }
}
