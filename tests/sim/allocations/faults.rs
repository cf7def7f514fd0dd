//! A random schedule: hosts with slots, owners with requests, and faults.

use mpd_alloc::data::{AllocRequest, Hardness, Pattern};
use mpd_tests::random::Random;

use super::world::{Event, SECOND, World, name};

/// Everything goes right from this time on.
pub(super) const CALM: u64 = 40 * SECOND;

pub(super) fn schedule(seed: u64) -> World {
    let mut dice = Random::new(seed);
    let hosts = 1 + dice.below(5);
    let slots: Vec<u32> = (0..hosts).map(|_| 1 + below(&mut dice, 4)).collect();
    let owners = 2 + dice.below(9);
    let mut world = World::new(dice, &slots);
    (0..owners).for_each(|_| add_owner(&mut world, &slots));
    (0..world.dice.below(5)).for_each(|_| add_fault(&mut world, hosts));
    // The end of all faults.
    world.at(CALM, Event::Divide(0));
    (0..hosts).for_each(|host| world.at(CALM, Event::Start(host)));
    world.at(CALM, Event::Calm);
    world
}

fn below(dice: &mut Random, limit: u32) -> u32 {
    u32::try_from(dice.below(limit as usize)).expect("a small number")
}

fn time(dice: &mut Random, until: u64) -> u64 {
    dice.below(usize::try_from(until).expect("a time")) as u64
}

fn add_owner(world: &mut World, slots: &[u32]) {
    let dice = &mut world.dice;
    let width = if dice.one_in(4) { 2 } else { 1 };
    // The number of processes of the request for which each host has slots.
    let slots: Vec<u32> = slots.iter().map(|slots| slots / width).collect();
    let total: u32 = slots.iter().sum();
    let host = dice.below(slots.len());
    let other = dice.below(slots.len());
    let (hosts, most): (Vec<String>, u32) = match dice.below(8) {
        0 => (vec![name(other).to_string()], slots[other]),
        1 => (vec![format!("^{}", name(other))], total - slots[other]),
        2 => (vec![name(other).to_string(), "*".into()], total.min(2 * slots[other].min(1))),
        _ => (Vec::new(), total),
    };
    let beyond = if dice.one_in(8) { 3 } else { 0 };
    let count = 1 + below(dice, most + 1 + beyond);
    let hardness = match dice.below(4) {
        0 => Hardness::Soft,
        1 if count >= 2 => Hardness::Values(format!("1:{count}:2")),
        _ => Hardness::Hard,
    };
    let is_possible = match hardness {
        Hardness::Hard => count <= most,
        Hardness::Soft | Hardness::Values(_) => most > 0,
    };
    let limit_s = dice.one_in(3).then(|| 1 + below(dice, 20));
    let hosts: Vec<Pattern> = hosts.iter().map(|text| text.parse().expect("a pattern")).collect();
    let request = AllocRequest {
        count,
        width,
        hardness,
        hosts,
        arch: Vec::new(),
        limit_s,
        uid: 1000,
        since_us: 0,
    };
    let begins = time(dice, 35 * SECOND);
    let longest = if dice.one_in(4) { 60 * SECOND } else { 6 * SECOND };
    let holds_for = time(dice, longest);
    let ends = dice.one_in(5).then(|| begins + time(dice, 20 * SECOND));
    let is_cancelled = dice.one_in(2);
    let gives_back = dice.one_in(3).then(|| begins + time(dice, 20 * SECOND));
    let owner = world.owners.len();
    world.add_owner(host, request, (begins, holds_for, is_possible));
    if let Some(at) = gives_back {
        world.at(at, Event::Keep(owner));
    }
    if let Some(ends) = ends {
        world.at(ends, if is_cancelled { Event::Cancel(owner) } else { Event::End(owner) });
    }
}

fn add_fault(world: &mut World, hosts: usize) {
    let at = SECOND + time(&mut world.dice, 34 * SECOND);
    let host = world.dice.below(hosts);
    let lasts = time(&mut world.dice, 20 * SECOND);
    match world.dice.below(6) {
        0..=2 => {
            // Often the dispenser.
            let host = if world.dice.one_in(2) { 0 } else { host };
            world.at(at, Event::KillDaemon(host));
            world.at(at + lasts, Event::Start(host));
        }
        3 => {
            world.at(at, Event::KillHost(host));
            world.at(at + lasts, Event::Start(host));
        }
        _ => {
            let groups = world.dice.bits();
            world.at(at, Event::Divide(groups));
            world.at(at + lasts, Event::Divide(0));
        }
    }
}
