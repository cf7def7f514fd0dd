//! Many schedules of the whole suite, and the smallest one that fails.
//!
//! `MPD_SIM_WHOLE=N` runs N schedules, `MPD_SIM_FROM=SEED` begins there. `MPD_SIM_SEED=SEED` replays one: if it fails, what is not
//! needed for the failure is left out, and the rest is printed with its trace.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::schedule::{Outcome, Schedule};
use super::suite::Suite;
use crate::sweep::number;

const SCHEDULES: u64 = 500;
/// Number of violations printed in full.
const SHOWN: usize = 10;

/// Runs a schedule. An assertion that fails within a process is a violation like others.
fn run(schedule: &Schedule, records: bool) -> Outcome {
    let mut suite = Suite::new(schedule, records);
    let ended = catch_unwind(AssertUnwindSafe(|| schedule.run(&mut suite)));
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Outcome {
            violations: vec![format!("panicked: {}", text.unwrap_or_default())],
            fingerprint: suite.world.trace.fingerprint,
            lines: std::mem::take(&mut suite.world.trace.lines),
            counts: [0; 4],
        }
    })
}

fn run_all(from: u64, count: u64) -> Vec<(u64, Outcome)> {
    let workers = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |worker: u64| {
        let seeds = (from..from + count).filter(move |seed| seed % workers == worker);
        seeds.map(|seed| (seed, run(&Schedule::random(seed), false))).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|n| scope.spawn(move || run(n))).collect();
        started.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

#[test]
fn every_console_ends_as_the_facts_say_and_nothing_is_left_on_any_host() {
    let from = number("MPD_SIM_FROM").unwrap_or(1);
    let count = number("MPD_SIM_WHOLE").unwrap_or(SCHEDULES);
    let outcomes = run_all(from, count);
    let sum = |kind: usize| outcomes.iter().map(|(_, outcome)| outcome.counts[kind]).sum::<u64>();
    let bad: Vec<_> = outcomes.iter().filter(|(_, it)| !it.violations.is_empty()).collect();
    println!(
        "{count} schedules from {from}, {} with violations; {} jobs, {} ended with 0, {} without trouble; {} ranks",
        bad.len(),
        sum(0),
        sum(1),
        sum(2),
        sum(3)
    );
    for (seed, outcome) in bad.iter().take(SHOWN) {
        println!("seed {seed} : {}", outcome.violations.join("; "));
    }
    assert!(
        bad.is_empty(),
        "{} of {count} schedules; scripts/replay --whole SEED shows one",
        bad.len()
    );
    assert!(sum(1) * 3 > sum(0) && sum(3) > sum(0), "hardly a job has run");
}

#[test]
fn a_seed_of_the_whole_suite_determines_its_trace() {
    for seed in 1..4 {
        let [one, two] = [(); 2].map(|()| run(&Schedule::random(seed), true));
        assert_eq!((one.fingerprint, &one.lines), (two.fingerprint, &two.lines), "seed {seed}");
        assert_ne!(one.fingerprint, run(&Schedule::random(seed + 3), false).fingerprint);
    }
}

/// The schedule without the operations that the failure does not need.
fn shrunk(schedule: &Schedule) -> Schedule {
    let fails = |schedule: &Schedule| !run(schedule, false).violations.is_empty();
    let mut smallest = schedule.clone();
    let mut at = smallest.operations.len();
    while at > 0 {
        at -= 1;
        let mut smaller = smallest.clone();
        smaller.operations.remove(at);
        if fails(&smaller) {
            smallest = smaller;
        }
    }
    smallest
}

#[test]
#[ignore = "prints the trace of MPD_SIM_SEED; run by scripts/replay"]
fn replay() {
    let seed = number("MPD_SIM_SEED").expect("MPD_SIM_SEED names the schedule");
    let mut schedule = Schedule::random(seed);
    let fails = !run(&schedule, false).violations.is_empty();
    if fails {
        schedule = shrunk(&schedule);
    }
    let outcome = run(&schedule, true);
    println!("{} hosts", schedule.hosts);
    schedule.jobs.iter().enumerate().for_each(|(job, plan)| println!("job {job}: {plan:?}"));
    schedule.operations.iter().for_each(|(at, it)| println!("{:>10.3} {it:?}", *at as f64 / 1e6));
    outcome.lines.iter().for_each(|line| println!("{line}"));
    assert!(outcome.violations.is_empty(), "{}", outcome.violations.join("\n"));
}
