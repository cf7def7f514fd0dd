//! Many jobs in sequence leave processes, descriptors and memory of a daemon unchanged.

use crate::process::Process;
use crate::run::{comes_true, sample};
use crate::suite::Suite;

/// How much the daemon's memory may grow.
const GROWTH_KIB: u64 = 1024;
/// Number of jobs after which all one-time allocations have happened.
const WARM_UP: usize = 20;

#[test]
fn a_daemon_does_not_grow_over_many_jobs_in_sequence() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let job = |number: usize| {
        let output = match number % 4 {
            0 => suite.ranks(2, "t-pmi", &["put-fence-get-all", "2"]).output(),
            1 => suite.mpirun(["-l", "-n", "3", "echo", "x"]).output(),
            _ => suite.mpirun(["-n", "1", "true"]).output(),
        };
        output.code(0).quiet();
    };
    (0..WARM_UP).for_each(job);
    settle(&daemon, None);
    let (memory, descriptors) = (daemon.resident_kib(), daemon.descriptors());
    (0..sample(250, 10_000)).for_each(job);
    settle(&daemon, Some(descriptors));
    assert_eq!(suite.daemon().pid, daemon.pid);
    let grown = daemon.resident_kib().saturating_sub(memory);
    assert!(grown <= GROWTH_KIB, "the daemon has grown by {grown} KiB from {memory} KiB");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_daemon_does_not_grow_over_many_failing_jobs() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let job = |number: usize| {
        match number % 3 {
            0 => suite.mpirun(["-n", "2", "./no-such-program"]).output(),
            1 => suite.ranks(2, "t-exit-with", &["1", "sig9", "sleep"]).output(),
            _ => suite.ranks(2, "t-pmi", &["abort", "0", "3"]).output(),
        }
        .failed();
    };
    (0..WARM_UP).for_each(job);
    settle(&daemon, None);
    let (memory, descriptors) = (daemon.resident_kib(), daemon.descriptors());
    (0..sample(100, 3_000)).for_each(job);
    settle(&daemon, Some(descriptors));
    let grown = daemon.resident_kib().saturating_sub(memory);
    assert!(grown <= GROWTH_KIB, "the daemon has grown by {grown} KiB from {memory} KiB");
    suite.only_the_daemon_is_left();
}

/// Waits until the last job's descriptors are closed and the daemon has no zombie.
fn settle(daemon: &Process, descriptors: Option<usize>) {
    let settled = comes_true(std::time::Duration::from_secs(10), || {
        daemon.zombies() == 0 && descriptors.is_none_or(|count| daemon.descriptors() <= count)
    });
    let (zombies, now) = (daemon.zombies(), daemon.descriptors());
    assert!(settled, "{zombies} zombies, {now} descriptors, at most {descriptors:?} expected");
}
