//! Many schedules, a few of hundreds of daemons, and the proof that the seed determines everything.
//!
//! `MPD_SIM_SCHEDULES=N` runs N schedules, `MPD_SIM_FROM=SEED` begins there, `MPD_SIM_MEMBERS=M` or
//! `MPD_SIM_MEMBERS=FROM-TO` bounds the number of hosts, `MPD_SIM_SEED=SEED` replays one with its trace.

use std::ops::RangeInclusive;
use std::thread;

use mpd_ring::Ring;

use crate::recordings::{are_as_in_the_tree, replays};
use crate::schedule::{self, Outcome};

const SCHEDULES: u64 = 1000;
/// Number of violations printed in full.
const SHOWN: usize = 10;

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// `N` or `FROM-TO`.
fn members() -> Option<RangeInclusive<usize>> {
    let text = std::env::var("MPD_SIM_MEMBERS").ok()?;
    let number = |text: &str| text.parse::<usize>().expect("MPD_SIM_MEMBERS is N or FROM-TO");
    let (from, to) = text.split_once('-').unwrap_or((&text, &text));
    Some(number(from)..=number(to))
}

/// An assertion that fails within a daemon is a violation like others.
fn outcome(seed: u64) -> Outcome {
    let run = || schedule::run(seed, members(), false);
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Outcome::panicked(text.unwrap_or_default())
    })
}

/// Runs the seeds on all processors.
fn run_all(from: u64, count: u64) -> Vec<(u64, Outcome)> {
    let workers = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |worker: u64| {
        let seeds = (from..from + count).filter(move |seed| seed % workers == worker);
        seeds.map(|seed| (seed, outcome(seed))).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|n| scope.spawn(move || run(n))).collect();
        started.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

#[test]
fn the_ring_is_whole_again_after_random_faults() {
    let from = number("MPD_SIM_FROM").unwrap_or(1);
    let count = number("MPD_SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let outcomes = run_all(from, count);
    let mut settled: Vec<u64> = outcomes.iter().map(|(_, outcome)| outcome.settled).collect();
    settled.sort_unstable();
    let at = |part: f64| settled[((settled.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    let bad: Vec<_> = outcomes.iter().filter(|(_, o)| !o.violations.is_empty()).collect();
    let mut replies = [0; 6];
    for (_, outcome) in &outcomes {
        (0..6).for_each(|kind| replies[kind] += outcome.replies[kind]);
    }
    println!(
        "{count} schedules from {from}, {} with violations; lists settled after median {:.1} s, \
         p99 {:.1} s, worst {:.1} s; scatters whole {} partial or refused {}, laps home {} lost {}; \
         names published {} not {}",
        bad.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        replies[0],
        replies[1],
        replies[2],
        replies[3],
        replies[4],
        replies[5],
    );
    for (seed, outcome) in bad.iter().take(SHOWN) {
        println!("seed {seed} ({:?}): {}", outcome.shape, outcome.violations.join("; "));
    }
    assert!(bad.is_empty(), "{} of {count} schedules; scripts/replay SEED shows one", bad.len());
}

#[test]
fn a_seed_of_a_simulated_ring_determines_its_trace() {
    for seed in 1000..1006 {
        let one = schedule::run(seed, None, true);
        let two = schedule::run(seed, None, true);
        assert_eq!(one.fingerprint, two.fingerprint, "seed {seed}");
        assert_eq!(one.lines, two.lines, "seed {seed}");
        assert_ne!(one.fingerprint, schedule::run(seed + 3, None, false).fingerprint);
    }
}

#[test]
fn every_daemon_of_a_simulated_ring_replays_from_its_recording() {
    let mut steps = 0;
    for seed in 1..=12 {
        let outcome = schedule::run(seed, None, true);
        assert!(outcome.recordings.len() >= 2, "seed {seed}");
        steps += outcome.recordings.iter().map(|one| replays::<Ring>(one)).sum::<u64>();
    }
    assert!(steps > 5_000, "{steps} steps");
}

#[test]
fn the_ring_has_the_outputs_of_the_recordings_in_the_tree() {
    are_as_in_the_tree::<Ring>("ring.txt", || {
        let outcomes = [3, 4].map(|seed| schedule::run(seed, Some(2..=3), true));
        outcomes.into_iter().flat_map(|outcome| outcome.recordings).collect()
    });
}

#[test]
#[ignore = "prints the trace of MPD_SIM_SEED; run by scripts/replay"]
fn replay() {
    let seed = number("MPD_SIM_SEED").expect("MPD_SIM_SEED names the schedule");
    let outcome = schedule::run(seed, members(), true);
    for line in &outcome.lines {
        println!("{line}");
    }
    println!("seed {seed} ({:?}): fingerprint {:016x}", outcome.shape, outcome.fingerprint);
    assert!(outcome.violations.is_empty(), "{}", outcome.violations.join("\n"));
}
