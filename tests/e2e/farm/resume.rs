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

#[test]
fn recorded_failures_count_when_a_farm_continues() {
    let suite = Suite::new();
    let arguments = ["--joblog", "log", "--resume"];
    let input = "true\nfalse\nexit 7\n";
    suite.farm(arguments, input).output().code(2).quiet();
    let output = suite.farm(arguments, &format!("{input}true\n")).output();
    output.code(2).prints("").says(&["3 tasks are in the job log", "2 of them failed"]);
    check_each_once(&suite.log(), 4);
    suite.no_job_is_left();
}

#[test]
fn a_command_with_a_newline_is_known_again() {
    let suite = Suite::new();
    let run = || {
        let arguments = ["--joblog", "log", "--resume", "--", "sh", "-c", "echo $1\necho b", "sh"];
        suite.farm(arguments, "a\n").output()
    };
    run().code(0).quiet().prints("a\nb\n");
    run().code(0).prints("").says(&["1 tasks are in the job log"]);
    suite.no_job_is_left();
}

#[test]
fn a_job_log_that_is_no_regular_file_is_written_and_never_read() {
    let suite = Suite::new();
    let full = suite.farm(["--joblog", "/dev/full"], "true\n").output();
    full.code(125).says(&["/dev/full", "No space left"]).brief();
    let script = "echo true | $FARM --joblog >(cat > copy) && \
                  until [ $(wc -l < copy) = 2 ]; do sleep 0.01; done && cut -f 1 copy";
    let output = suite.bash(script).env("FARM", suite.program("mpdfarm")).deadline(60).output();
    output.code(0).quiet().prints("Seq\n1\n");
    let script = "echo true | $FARM --joblog /dev/stderr 2>&1 | cut -f 1";
    let output = suite.bash(script).env("FARM", suite.program("mpdfarm")).deadline(60).output();
    output.code(0).prints("Seq\n1\n");
    nix::unistd::mkfifo(&suite.path("work/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let output = suite.farm(["--joblog", "pipe"], "true\n").output();
    output.code(125).says(&["pipe", "no process reads it"]).brief();
    let output = suite.farm(["--joblog", "pipe", "--resume"], "true\n").output();
    output.code(125).says(&["pipe", "no regular file"]).brief();
    suite.no_job_is_left();
}

#[test]
fn a_job_log_whose_reader_waits_holds_up_results_and_not_signals() {
    let suite = Suite::new();
    nix::unistd::mkfifo(&suite.path("work/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let mut options = fs::File::options();
    let reader = options.read(true).write(true).open(suite.path("work/pipe")).expect("a pipe");
    let long = "x".repeat(100_000);
    let input = lines(40, |number| format!("echo {number} >> ran; : {long}"));
    let mut farm = suite.farm(["-j", "1", "--joblog", "pipe"], &input).start();
    wait_until("tasks have run", || runs(&suite, 5) == 1);
    // A second signal does not wait for the reader.
    wait_until("the farm ends", || {
        farm.send(Signal::SIGINT);
        farm.has_ended()
    });
    farm.wait().code(130);
    drop(reader);
    suite.no_job_is_left();
}
