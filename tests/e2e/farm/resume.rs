//! A farm continues after a kill: recorded tasks do not run twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use nix::sys::signal::Signal;

use super::{check_each_once, lines, recorded};
use crate::run::wait_until;
use crate::suite::Suite;

const TASKS: usize = 400;

fn input() -> String {
    lines(TASKS, |number| format!("sleep 0.01; echo {number} >> ran"))
}

/// How often a task has run to its end.
fn runs(suite: &Suite, id: u64) -> usize {
    let ran = fs::read_to_string(suite.path("work/ran")).unwrap_or_default();
    ran.lines().filter(|line| *line == id.to_string()).count()
}

#[test]
fn after_kill_9_no_recorded_task_runs_twice_and_every_task_ends_once() {
    let suite = Suite::new();
    let arguments = ["-j", "4", "--joblog", "log", "--resume"];
    let mut known: BTreeMap<u64, usize> = BTreeMap::new();
    for round in 1..=3 {
        let farm = suite.farm(arguments, &input()).start();
        let enough = || suite.log().exists() && recorded(&suite.log()).len() >= round * 60;
        wait_until("some tasks are recorded", enough);
        farm.send(Signal::SIGKILL);
        farm.wait().ended_by(Signal::SIGKILL);
        suite.no_job_is_left();
        for id in recorded(&suite.log()).into_keys() {
            let times = runs(&suite, id);
            assert_eq!(
                *known.entry(id).or_insert(times),
                times,
                "task {id} was recorded and ran again"
            );
        }
    }
    let before = recorded(&suite.log());
    assert!(before.len() < TASKS, "the kills came too late");
    // The end of a line that was being written.
    let mut log = fs::File::options().append(true).open(suite.log()).expect("a job log");
    log.write_all(b"399\th\t17").expect("a job log");
    let output = suite.farm(arguments, &input()).output();
    output.code(0).prints("").says(&["in the job log"]);
    check_each_once(&suite.log(), TASKS as u64);
    for (id, times) in known {
        assert_eq!(runs(&suite, id), times, "task {id} was recorded and ran again");
    }
    suite.no_job_is_left();
}

#[test]
fn another_input_than_that_of_the_job_log_is_refused() {
    let suite = Suite::new();
    suite.farm(["--joblog", "log"], "true\ntrue\n").output().code(0).quiet();
    let output = suite.farm(["--joblog", "log", "--resume"], "true\nfalse\n").output();
    output.code(125).says(&["task 2", "--resume"]);
    fs::write(suite.path("work/letter"), "Dear Sir\n").expect("a file");
    let output = suite.farm(["--joblog", "letter", "--resume"], "true\n").output();
    output.code(125).says(&["letter", "not that of a job log"]).brief();
    assert_eq!(fs::read_to_string(suite.path("work/letter")).expect("a file"), "Dear Sir\n");
    suite.no_job_is_left();
}
