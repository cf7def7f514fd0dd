//! One random schedule: daemons of a host file start, 40 s of requests and faults, calm, and then the checks.

use std::collections::BTreeSet;

use mpd_alloc::data::{AllocRequest, Hardness, Strings};
use mpd_alloc::exchange::{self, Ask};
use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, NameOperation, RingRequest};
use mpd_wire::names::Hold;
use mpd_wire::{ConsoleId, DaemonName, JobId};

use crate::checks;
use crate::process::{Process, SLOTS};
use crate::schedule::heal;
use crate::world::{MS, SECOND, Start, World};

const CHAOS_FROM: u64 = 6 * SECOND;
const CHAOS_UNTIL: u64 = 46 * SECOND;
const CALM: u64 = 40 * SECOND;

/// The result of a schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) fingerprint: u64,
    pub(crate) lines: Vec<String>,
    /// Last answers to consoles, answers about names, and grants of slots.
    pub(crate) counts: [u64; 3],
}

/// Runs the schedule of `seed`, with 2 to 4 hosts.
pub(crate) fn run(seed: u64, record: bool) -> Outcome {
    let size = 2 + usize::try_from(seed % 3).expect("a small number");
    let mut world = World::new(seed, size);
    world.has_nodes = true;
    world.trace.records = record;
    for host in 0..size {
        boot(&mut world, host);
        let pause = world.random.below(300) as u64 * MS;
        world.pass(pause);
    }
    world.run(CHAOS_FROM);
    while world.now < CHAOS_UNTIL {
        let pause = 50 * MS + world.random.below(900) as u64 * MS;
        world.pass(pause);
        if world.random.one_in(4) {
            fault(&mut world);
        } else {
            request(&mut world);
        }
        world.check_bounds();
    }
    calm(&mut world);
    world.pass(CALM);
    world.check_bounds();
    let all: BTreeSet<usize> = (0..size).collect();
    let mut violations = checks::one_ring(&world, &all);
    violations.extend(after_calm(&mut world));
    violations.splice(0..0, std::mem::take(&mut world.watch.violations));
    let mut counts = world.counts;
    for host in 0..size {
        let of = world.process(host).map_or([0; 3], |process| process.counts);
        (0..3).for_each(|kind| counts[kind] += of[kind]);
    }
    Outcome { violations, fingerprint: world.trace.fingerprint, lines: world.trace.lines, counts }
}

fn boot(world: &mut World, host: usize) {
    let seeds = (0..world.hosts.len()).collect();
    world.boot(host, &Start { ordinal: Some(host as u64), seeds, ..Start::default() });
}

fn fault(world: &mut World) {
    let size = world.hosts.len();
    let (host, other) = (world.random.below(size), world.random.below(size));
    match world.random.below(10) {
        // One host at a time is without power.
        0 if world.hosts.iter().all(|host| host.powered) => world.power_off(host),
        1 => world.kill(host),
        0 | 2..=4 => {
            for host in 0..size {
                world.power_on(host);
                boot(world, host);
            }
        }
        5 => {
            world.set_reach(host, other, false);
            if world.random.below(2) == 0 {
                world.set_reach(other, host, false);
            }
        }
        6 | 7 => heal(world),
        8 => {
            let connection = world.connections.keys().nth(other).copied();
            connection.into_iter().for_each(|id| world.reset(id));
        }
        _ => world.hosts[host].clog = world.random.below(1000) as u64 * MS,
    }
}

/// A console or a manager asks, or a console ends.
fn request(world: &mut World) {
    let size = world.hosts.len();
    let (host, other) = (world.random.below(size), world.random.below(size));
    let kind = world.random.below(18);
    let number = world.random.below(3) as u64;
    let name = world.hosts[other].name.clone();
    let flag = number == 0;
    let text = format!("name {number}");
    let operation = match kind {
        0 => Some(NameOperation::Publish {
            name: text,
            value: format!("port of {name}"),
            key: None,
            hold: Hold::Job,
        }),
        1 => Some(NameOperation::Lookup { name: text, key: None }),
        2 => Some(NameOperation::Unpublish { name: text, key: None }),
        _ => None,
    };
    if let Some(operation) = operation {
        return act(world, host, |process, now| process.ask_name(now, operation));
    }
    let (request, is_open) = match kind {
        3 => (RingRequest::Describe, false),
        4 => (RingRequest::Census, false),
        5 => (RingRequest::Jobs, false),
        6 => (RingRequest::Top, false),
        7 => (RingRequest::Names, false),
        8 => (RingRequest::Lap { laps: 1 + u32::from(flag), trace: true }, false),
        9 => (RingRequest::Drain { members: vec![name], draining: flag }, false),
        10 => {
            let job = JobRef::Id(JobId::new(1 + number % 2, name.as_str()).expect("a job"));
            (RingRequest::Job { job, order: JobOrder::Kill }, false)
        }
        11 => (slots(&Ask::List), false),
        12 if !world.random.one_in(4) => (RingRequest::Census, false),
        12 => (RingRequest::Exit { member: flag.then_some(name) }, false),
        13 => {
            let live = world.hosts.iter().map(|host| host.name.clone());
            let members = live.filter(|member| *member != world.hosts[host].name).collect();
            return act(world, host, |process, _| process.launch(members));
        }
        16 => return act(world, host, Process::lose_manager),
        14 | 15 => (allocate(1 + u32::from(flag)), true),
        _ => {
            let Some(process) = world.process(host) else { return };
            let mut consoles = process.consoles.keys().copied();
            let Some(console) = consoles.nth(other) else { return };
            return act(world, host, |process, now| process.close(now, console));
        }
    };
    act(world, host, |process, now| {
        process.ask(now, request, is_open);
    });
}

fn slots(ask: &Ask) -> RingRequest {
    RingRequest::Slots(exchange::encode(ask))
}

pub(crate) fn allocate(count: u32) -> RingRequest {
    let request = AllocRequest {
        count,
        hardness: Hardness::Hard,
        hosts: Vec::new(),
        arch: Vec::new(),
        width: 1,
        limit_s: None,
        uid: 0,
        since_us: 0,
    };
    slots(&Ask::Allocate { request: Box::new(request), strings: Strings::default() })
}

/// The process of `host` acts, if there is one.
fn act(world: &mut World, host: usize, acts: impl FnOnce(&mut Process, mpd_sansio::Time)) {
    let now = world.time();
    let Some(process) = world.process(host) else { return };
    acts(process, now);
    world.perform(host);
}

/// Ends the faults: every host has power, a daemon and the whole network. No console holds slots any more.
fn calm(world: &mut World) {
    heal(world);
    world.hosts.iter_mut().for_each(|host| host.clog = 0);
    // Daemons that were ordered to leave end.
    world.pass(15 * SECOND);
    for host in 0..world.hosts.len() {
        world.power_on(host);
        boot(world, host);
        close_all(world, host);
    }
}

fn close_all(world: &mut World, host: usize) {
    let Some(process) = world.process(host) else { return };
    let consoles: Vec<ConsoleId> = process.consoles.keys().copied().collect();
    for console in consoles {
        act(world, host, |process, now| process.close(now, console));
    }
}

/// What a daemon has answered to a console after its request.
fn ask(world: &mut World, host: usize, request: RingRequest) -> Vec<ConsoleReply> {
    let now = world.time();
    let Some(process) = world.process(host) else { return Vec::new() };
    let console = process.ask(now, request, true);
    world.perform(host);
    world.pass(15 * SECOND);
    let console = world.process(host).and_then(|process| process.consoles.get_mut(&console));
    console.map(|console| std::mem::take(&mut console.replies)).unwrap_or_default()
}

/// In a calm ring, every member answers a census and lists its jobs, and a request gets all slots.
pub(crate) fn after_calm(world: &mut World) -> Vec<String> {
    let size = world.hosts.len();
    let mut violations = Vec::new();
    for host in 0..size {
        let jobs = world.process(host).map_or_else(Vec::new, |process| process.after_calm());
        violations.extend(jobs.into_iter().map(|text| format!("h{host}: {text}")));
    }
    let host = world.random.below(size);
    for drained in 0..size {
        let members = vec![world.hosts[drained].name.clone()];
        ask(world, host, RingRequest::Drain { members, draining: false });
    }
    match &ask(world, host, RingRequest::Census)[..] {
        [ConsoleReply::Census { members, missing, .. }]
            if members.len() == size && missing.is_empty() => {}
        other => violations.push(format!("the census of h{host} has {other:?}")),
    }
    match &ask(world, host, RingRequest::Jobs)[..] {
        [ConsoleReply::Jobs { missing, .. }] if missing.is_empty() => {}
        other => violations.push(format!("the list of jobs of h{host} has {other:?}")),
    }
    let all = SLOTS * u32::try_from(size).expect("few hosts");
    ask(world, host, allocate(all));
    let process = world.process(host);
    let holds = |process: &mut Process| -> u32 {
        process.consoles.values().flat_map(|console| console.slots.values()).sum()
    };
    let held = process.map_or(0, holds);
    if held != all {
        violations.push(format!("a request of h{host} holds {held} of {all} slots"));
    }
    violations
}

impl World {
    /// Notes requests that are not answered in time.
    fn check_bounds(&mut self) {
        let now = self.now;
        for host in 0..self.hosts.len() {
            if let Some(process) = self.process(host) {
                process.check_bounds(now);
            }
            self.take_violations(host);
        }
        for host in 0..self.hosts.len() {
            let launched = self.process(host).map(|process| process.take_launched(now));
            for (job, members) in launched.into_iter().flatten() {
                let has_none = |member: &&DaemonName| {
                    !self.started.contains(&((*member).clone(), job.clone()))
                };
                if let Some(member) = members.iter().find(has_none) {
                    let text = format!("{job} has no manager on {member} and does not know it");
                    self.watch.violations.push(text);
                }
            }
        }
    }
}
