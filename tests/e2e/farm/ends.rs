//! Failures, time limits, repetitions, and early ends.

use std::fs;

use nix::sys::signal::Signal;

use super::{check_each_once, lines, recorded};
use crate::run::wait_until;
use crate::suite::Suite;

#[test]
fn the_exit_code_is_the_number_of_failures_up_to_101() {
    let suite = Suite::new();
    for (failures, code) in [(0, 0), (3, 3), (100, 100), (130, 101)] {
        let input =
            lines(140, |number| if number <= failures { "false" } else { "true" }.to_owned());
        suite.farm(["-j", "4"], &input).output().code(code).quiet().prints("");
    }
    suite.farm(["--no-such-option"], "").output().code(125);
    suite.no_job_is_left();
}

#[test]
fn a_task_over_its_time_limit_is_killed_with_its_descendants() {
    let suite = Suite::new();
    let input = "sleep 100 & sleep 100\ntrap '' TERM; while :; do sleep 0.1; done\ntrue\n";
    let output = suite.farm(["-j", "3", "--timeout", "1", "--joblog", "log"], input).output();
    output.code(2).quiet();
    let text = fs::read_to_string(suite.log()).expect("a job log");
    let mut ends: Vec<(&str, &str, &str)> = Vec::new();
    for line in text.lines().skip(1) {
        let row: Vec<&str> = line.split('\t').collect();
        ends.push((row[0], row[6], row[7]));
    }
    ends.sort_unstable();
    assert_eq!(ends, [("1", "-1", "15"), ("2", "-1", "9"), ("3", "0", "0")]);
    suite.no_job_is_left();
}

#[test]
fn a_task_that_fails_is_repeated_and_only_its_last_end_counts() {
    let suite = Suite::new();
    let line =
        |number| format!("echo {number} >> ran{number}; echo x; test $(wc -l < ran{number}) -ge 3");
    let input = lines(5, line);
    let output = suite.farm(["--retry", "2", "--joblog", "log"], &input).output();
    output.code(0).quiet().prints(&"x\n".repeat(5));
    check_each_once(&suite.log(), 5);
    let output = suite.farm(["--retry", "3"], "echo >> tries; false\n").output();
    output.code(1).quiet();
    assert_eq!(fs::read_to_string(suite.path("work/tries")).expect("a file"), "\n".repeat(4));
    suite.no_job_is_left();
}

#[test]
fn a_halt_ends_the_farm_early() {
    let suite = Suite::new();
    let input = format!(
        "sleep 0.2; exit 7\nsleep 60; echo never\n{}",
        lines(50, |_| "echo late; sleep 0.1".to_owned())
    );
    let output =
        suite.farm(["-j", "2", "--halt", "now,fail=1", "--joblog", "log"], &input).output();
    output.code(7).quiet().prints("");
    assert_eq!(
        recorded(&suite.log()).into_iter().collect::<Vec<_>>(),
        [(1, 1)],
        "what was killed is not recorded"
    );
    let input = format!(
        "exit 9\nsleep 0.3; echo ended\n{}",
        lines(50, |_| "echo late; sleep 0.1".to_owned())
    );
    let output = suite.farm(["-j", "2", "--halt", "soon,fail=1"], &input).output();
    let out = output.code(9).quiet().out();
    assert!(out.contains("ended\n") && out.matches("late").count() < 50, "{out}");
    suite.no_job_is_left();
}

#[test]
fn an_interrupt_ends_all_tasks() {
    let suite = Suite::new();
    let input = lines(9, |number| format!("touch began{number}; sleep 100"));
    let farm = suite.farm(["-j", "2", "--joblog", "log"], &input).start();
    wait_until("two tasks run", || {
        [1, 2].iter().all(|n| suite.path(format!("work/began{n}")).exists())
    });
    farm.send(Signal::SIGINT);
    farm.wait().code(130).quiet();
    assert!(recorded(&suite.log()).is_empty());
    assert!(!suite.path("work/began3").exists());
    suite.no_job_is_left();
}

#[test]
fn a_second_interrupt_does_not_wait_for_tasks_that_ignore_the_first() {
    let suite = Suite::new();
    let input = "trap '' TERM INT; touch began; while :; do sleep 1; done\n";
    let farm = suite.farm(["-j", "1"], input).start();
    wait_until("the task runs", || suite.path("work/began").exists());
    farm.send(Signal::SIGINT);
    // Signals of one kind do not queue, so the second one is another kind.
    farm.send(Signal::SIGTERM);
    farm.wait().code(130);
    suite.no_job_is_left();
}

#[test]
fn what_a_task_leaves_in_its_process_group_is_killed_at_its_end() {
    let suite = Suite::new();
    let input = "sleep 1000 & echo $! > left\nwhile [ -e /proc/$(cat left) ]; do sleep 0.01; done; echo gone\n";
    suite.farm(["-j", "1"], input).output().code(0).quiet().prints("gone\n");
    suite.no_job_is_left();
}

#[test]
fn a_reader_that_goes_ends_the_farm() {
    let suite = Suite::new();
    let script = "seq 100000 | sed 's/^/echo /' | $FARM | head -n 1; echo ${PIPESTATUS[2]}";
    let output = suite.bash(script).env("FARM", suite.program("mpdfarm")).output();
    let out = output.code(0).out();
    assert!(out.ends_with("\n141\n"), "{output}");
    suite.no_job_is_left();
}

#[test]
fn a_task_that_kills_its_worker_in_its_first_moment_runs_once_without_retries() {
    let suite = Suite::new();
    let input = "echo >> tries; kill -9 $PPID\necho second\n";
    let output = suite.farm(["-j", "1", "--joblog", "log"], input).output();
    output.code(1).prints("second\n").says(&["task 1 was lost"]);
    assert_eq!(fs::read_to_string(suite.path("work/tries")).expect("a file"), "\n");
    check_each_once_of(&recorded(&suite.log()), &[2]);
    suite.no_job_is_left();
}

#[test]
fn a_line_that_can_be_no_command_fails_alone() {
    let suite = Suite::new();
    let long = "x".repeat(300_000);
    let input = format!("echo 1\n: {long}\necho 3\necho \0\necho 5\n: {long}");
    let output = suite.farm(["-j", "1", "-k", "--joblog", "log"], &input).output();
    output.code(3).prints("1\n3\n5\n").says(&["line 2 is longer", "line 4 has a NUL", "task 6"]);
    check_each_once_of(&recorded(&suite.log()), &[1, 3, 5]);
    suite.no_job_is_left();
}

/// Checks that the job log has these tasks, each once.
fn check_each_once_of(log: &std::collections::BTreeMap<u64, usize>, ids: &[u64]) {
    let expected: Vec<(u64, usize)> = ids.iter().map(|id| (*id, 1)).collect();
    assert_eq!(log.iter().map(|(id, count)| (*id, *count)).collect::<Vec<_>>(), expected);
}
