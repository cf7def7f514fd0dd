//! Many jobs, at once and in sequence, leave the processes, descriptors and memory of the daemons unchanged.

use crate::across::{ring, settled};
use crate::members::Members;
use crate::process::Process;
use crate::run::sample;

/// How much a daemon's memory may grow.
const GROWTH_KIB: u64 = 1024;
/// Chord links that a ring of four may open during a test.
const CHORDS: usize = 2;
/// Number of jobs after which all one-time allocations have happened.
const WARM_UP: usize = 20;

/// Runs `jobs` once as a warm-up, then many times; checks that the daemons did not grow meanwhile.
fn check_that_daemons_do_not_grow(ring: &Members, jobs: impl Fn(usize)) {
    jobs(WARM_UP);
    ring.only_daemons_are_left();
    let daemons: Vec<Process> = ring.indices().iter().map(|&i| ring.process(i)).collect();
    let before = settled(&daemons);
    jobs(sample(100, 5_000));
    ring.only_daemons_are_left();
    for ((daemon, before), now) in daemons.iter().zip(before).zip(settled(&daemons)) {
        let (now_open, open) = (now.0, before.0);
        assert!(now_open <= open + CHORDS, "{now_open} descriptors, before {open}: {daemon}");
        assert_eq!(daemon.zombies(), 0, "zombies of {daemon}");
        let grown = now.1.saturating_sub(before.1);
        assert!(grown <= GROWTH_KIB, "grown by {grown} KiB from {} KiB: {daemon}", before.1);
    }
}

#[test]
fn daemons_do_not_grow_over_many_jobs_in_sequence() {
    let ring = ring();
    check_that_daemons_do_not_grow(&ring, |count| {
        for number in 0..count {
            let from = number % 4 + 1;
            let run = match number % 5 {
                0 => ring.mpirun(from, &["-n", "8", &ring.suite.program("t-pmi"), "fences", "2"]),
                1 => ring.mpirun(from, &["-l", "-n", "6", "echo", "x"]),
                2 => ring.mpirun(from, &["-rr", "-s", "all", "-n", "4", "cat"]).input("text\n"),
                _ => ring.mpirun(from, &["-n", "8", "true"]),
            };
            run.output().code(0).quiet();
        }
    });
}

#[test]
fn fifty_simultaneous_jobs_succeed_and_daemons_do_not_grow() {
    let ring = ring();
    let helper = ring.suite.program("t-pmi");
    check_that_daemons_do_not_grow(&ring, |count| {
        for _ in 0..count.div_ceil(100) {
            let arguments = ["-n", "8", &helper, "put-fence-get-all", "2"];
            let start = |at: usize| ring.mpirun(at % 4 + 1, &arguments).deadline(180).start();
            let jobs: Vec<_> = (0..sample(50, 100)).map(start).collect();
            for job in jobs {
                let output = job.wait();
                output.code(0).quiet();
                assert_eq!(output.out().matches("pmi ok ").count(), 8, "{output}");
            }
        }
    });
}

#[test]
fn six_hundred_ranks_on_four_hosts_run_as_one_job() {
    let ring = ring();
    let arguments =
        ["-ppn", "150", "-n", "600", &ring.suite.program("t-pmi"), "put-fence-get-all", "1"];
    let output = ring.mpirun(1, &arguments).deadline(180).output();
    output.code(0).quiet();
    assert_eq!(output.out().matches("pmi ok ").count(), 600, "{output}");
    ring.only_daemons_are_left();
}
