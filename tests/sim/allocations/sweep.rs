//! Many random schedules of requests and faults.
//!
//! `MPD_SIM_ALLOCATIONS=N` runs N schedules, `MPD_SIM_FROM=SEED` begins there, `MPD_SIM_SEED=SEED` replays one with its
//! trace.

use std::panic::AssertUnwindSafe;
use std::thread;

use super::faults::{CALM, schedule};
use super::world::{Event, SECOND, World};
use crate::sweep::number;

const SCHEDULES: u64 = 2000;

/// All slots without an owner are free this long after the last fault.
const RECOVERY: u64 = 30 * SECOND;
/// More time than all owners together need.
const PATIENCE: u64 = 900 * SECOND;

#[test]
fn no_slot_is_held_twice_or_lost_and_every_request_ends() {
    let from = number("MPD_SIM_FROM").unwrap_or(1);
    let count = number("MPD_SIM_ALLOCATIONS").unwrap_or(SCHEDULES);
    let workers = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |worker: u64| {
        let seeds = (from..from + count).filter(move |seed| seed % workers == worker);
        let outcome = |seed| (seed, std::panic::catch_unwind(|| run(schedule(seed))));
        let mut bad = Vec::new();
        let (mut steps, mut grants) = (0, 0);
        for (seed, outcome) in seeds.map(outcome) {
            match outcome {
                Ok(world) => {
                    steps += world.steps;
                    grants += world.grants;
                }
                Err(_) => bad.push(seed),
            }
        }
        (steps, grants, bad)
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|n| scope.spawn(move || run(n))).collect();
        started.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let steps: u64 = outcomes.iter().map(|(steps, ..)| steps).sum();
    let grants: u64 = outcomes.iter().map(|(_, grants, _)| grants).sum();
    let bad: Vec<u64> = outcomes.into_iter().flat_map(|(.., bad)| bad).collect();
    println!("{count} schedules from {from}: {steps} events, {grants} grants; bad: {bad:?}");
    assert!(bad.is_empty(), "scripts/replay --alloc {} shows one", bad[0]);
    assert!(grants >= count, "hardly a request was granted");
}

#[test]
fn a_seed_of_simulated_allocations_determines_its_trace() {
    let trace = |seed| {
        let mut world = schedule(seed);
        world.lines = Some(Vec::new());
        run(world).lines
    };
    for seed in 1..6 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
        assert_ne!(trace(seed), trace(seed + 5));
    }
}

#[test]
#[ignore = "prints the trace of MPD_SIM_SEED; run by scripts/replay"]
fn replay() {
    let mut world = schedule(number("MPD_SIM_SEED").expect("MPD_SIM_SEED names the schedule"));
    world.lines = Some(Vec::new());
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| finish(&mut world)));
    for line in world.lines.take().unwrap_or_default() {
        println!("{line}");
    }
    assert!(ended.is_ok(), "the schedule above violates an invariant");
}

fn run(mut world: World) -> World {
    finish(&mut world);
    world
}

/// Runs the schedule to its end and checks every invariant.
fn finish(world: &mut World) {
    world.run_until(CALM + RECOVERY);
    // A message may be on its way.
    let lost = world.lost_slots();
    world.run_until(CALM + RECOVERY + SECOND);
    let lost: Vec<_> = lost.intersection(&world.lost_slots()).cloned().collect();
    assert!(lost.is_empty(), "slots are lost: {lost:?}");
    for owner in 0..world.owners.len() {
        if !world.owners[owner].is_possible {
            world.at(world.now, Event::End(owner));
        }
    }
    let end = world.now + PATIENCE;
    while world.owners.iter().any(|owner| !owner.is_over) && world.now < end {
        world.run_until(world.now + SECOND);
    }
    let waiting = world.owners.iter().enumerate().filter(|(_, owner)| !owner.is_over);
    let waiting: Vec<_> = waiting.map(|(owner, of)| (owner, of.grants, &of.why)).collect();
    assert!(waiting.is_empty(), "these requests do not end: {waiting:?}");
    world.run_until(world.now + RECOVERY);
    for (number, host) in world.hosts.iter().enumerate() {
        let machine = host.daemon.as_ref().expect("all live").machine();
        assert_eq!(machine.slots(), (host.slots, 0), "h{}", number + 1);
        assert_eq!(machine.entries().count(), 0, "h{}", number + 1);
        assert_eq!(machine.poll_timeout(), None, "h{} has nothing to do", number + 1);
    }
}
