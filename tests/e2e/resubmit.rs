//! A daemon that is killed in the first milliseconds of an `mpirun`: the job runs once, started by any daemon.

use std::fs;
use std::thread;
use std::time::Duration;

use mpd_tests::random::Random;
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Output, sample, wait_until};
use crate::suite::Suite;

const ROUNDS: usize = 40;
const FULL_ROUNDS: usize = 300;

/// Longer than `mpirun` takes until its job has started.
const FIRST_MOMENTS: usize = 20_000;

/// Each rank writes its number into the file and to its output.
const RANK: &str = "echo $PMI_RANK >>$0; echo $PMI_RANK";

/// The ranks of an ended job ran once each.
fn each_rank_ran_once(output: &Output, file: &std::path::Path, what: &str) {
    output.code(0).quiet();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let ran = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(sorted(&ran), ["0", "1", "2"], "{what}: ranks that ran; {output}");
    assert_eq!(sorted(&output.out()), ["0", "1", "2"], "{what}: ranks with output");
}

fn kill_the_daemon(daemon: &Process) {
    process::send(daemon.pid, Signal::SIGKILL);
    wait_until("the daemon is dead", || Process::is_gone(daemon.pid));
}

#[test]
fn a_daemon_killed_while_a_job_starts_does_not_affect_the_job() {
    let suite = Suite::new();
    let mut random = Random::new(9);
    for round in 0..sample(ROUNDS, FULL_ROUNDS) {
        let daemon = suite.start_daemon();
        let file = suite.path(format!("work/ran.{round}"));
        let moment = Duration::from_micros(random.below(FIRST_MOMENTS) as u64);
        let arguments = ["-n", "3", "sh", "-c", RANK, &file.display().to_string()];
        let job = suite.mpirun(arguments).start();
        thread::sleep(moment);
        kill_the_daemon(&daemon);
        let what = format!("round {round}, daemon killed after {moment:?}");
        if round % 2 == 0 {
            suite.start_daemon();
        }
        let output = job.wait();
        each_rank_ran_once(&output, &file, &what);
        if round % 2 == 0 {
            suite.only_the_daemon_is_left();
            kill_the_daemon(&suite.daemon());
        } else {
            suite.gone(&[]);
        }
    }
    // The new daemon removes the files of the last one.
    suite.start_daemon();
    suite.only_the_daemon_is_left();
}
