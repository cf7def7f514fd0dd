//! The system calls of a whole job of one rank in all processes of the suite, from the start of `mpirun` to its end, counted
//! by strace. A count does not depend on the load of the machine. The smallest of several runs is decisive, because a
//! process may wake up for each of two messages or once for both. Calls of the rank count until it executes its program.

use std::collections::BTreeSet;
use std::fs;

use mpd_tests::surroundings::{setting, skip, tell};

use crate::suite::Suite;

const RUNS: usize = 15;

/// What each rank executes.
const PROGRAM: &str = "/bin/true";

/// Limits of a standing daemon's and of a private job. With a daemon, some of them may belong to the next manager, which is
/// requested at the end of the job.
const WITH_A_DAEMON: usize = 300;
const WITHOUT_A_DAEMON: usize = 480;

/// The system calls from each start of `mpirun` until its end, in a trace that strace has written. Those of the shell
/// that starts it do not count, nor those of a rank's program, nor does `F_GETFD`: a build with assertions makes it before
/// each close.
fn counts(trace: &str) -> Vec<usize> {
    let shell = trace.split(' ').next().unwrap_or_default();
    let program = format!("execve(\"{PROGRAM}\"");
    let mut foreign = BTreeSet::new();
    let mut counts = Vec::new();
    let mut current: Option<(&str, usize)> = None;
    for line in trace.lines() {
        let Some((pid, event)) = line.split_once(' ') else { continue };
        let event = event.trim_start();
        if event.starts_with("execve(") && event.contains("/mpirun\"") && current.is_none() {
            current = Some((pid, 0));
        }
        let Some((mpirun, count)) = &mut current else { continue };
        if event.starts_with("+++") && pid == *mpirun {
            counts.push(*count);
            current = None;
            continue;
        }
        if event.starts_with("+++") {
            // Its number may be used again.
            foreign.remove(pid);
        }
        // Each object that others have left in /dev/shm costs a look.
        let is_due_to_others = event.contains("F_GETFD") || event.contains("\"/dev/shm/");
        let is_call = !event.starts_with(['+', '-', '<']) && !is_due_to_others;
        if is_call && pid != shell && !foreign.contains(pid) {
            *count += 1;
        }
        if event.starts_with(&program) {
            foreign.insert(pid);
        }
    }
    counts
}

/// Runs a script of a shell under strace, and returns the smallest number of system calls of its jobs.
fn smallest(suite: &Suite, strace: &str, script: &str) -> usize {
    let run = suite.command(strace).args(["-f", "-o", "trace", "bash", "-c", script]);
    // With further directories of libraries, the loader makes more calls.
    run.without_env("LD_LIBRARY_PATH").deadline(120).output().code(0);
    let trace = fs::read_to_string(suite.path("work/trace")).expect("a trace");
    let counts = counts(&trace);
    assert_eq!(counts.len(), RUNS, "{counts:?}");
    tell(&format!("system calls of {RUNS} jobs: {counts:?}"));
    counts.into_iter().min().expect("several runs")
}

#[test]
fn a_job_of_one_rank_takes_few_system_calls_with_a_standing_daemon() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let (mpd, mpirun) = (suite.program("mpd"), suite.program("mpirun"));
    let exit = suite.program("mpdallexit");
    let job = format!("{mpirun} -np 1 {PROGRAM} || exit 1");
    // Each job finds a manager in waiting.
    let waits = "until grep -qsx mpdwait $(sed 's|[0-9][0-9]*|/proc/&/comm|g' $children) /dev/null; do :; done";
    let script = format!(
        "MPD_WAITING=1 {mpd} --daemon || exit 2; pid=$({mpd} --status); pid=${{pid#*pid\\\":}}; pid=${{pid%%,*}}; \
         children=/proc/$pid/task/$pid/children; for i in {{1..{RUNS}}}; do {waits}; {job}; done; {exit}"
    );
    let count = smallest(&suite, &strace, &script);
    assert!(count <= WITH_A_DAEMON, "{count} system calls");
}

#[test]
fn a_job_of_one_rank_takes_few_system_calls_without_a_daemon() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let mpirun = suite.program("mpirun");
    let script = format!("for i in {{1..{RUNS}}}; do {mpirun} -np 1 {PROGRAM} || exit 1; done");
    let count = smallest(&suite, &strace, &script);
    assert!(count <= WITHOUT_A_DAEMON, "{count} system calls");
}

/// The signals for which a program sets a handler, in a trace of strace. Fails if it sets one after its first child or
/// thread.
fn handled(trace: &str, program: &str) -> BTreeSet<String> {
    let executes = |line: &&str| line.contains("execve(") && line.contains(program);
    let start = trace.lines().find(executes).expect("it is executed");
    let pid = start.split(' ').next().unwrap_or_default();
    let mut signals = BTreeSet::new();
    let mut has_child = false;
    for line in trace.lines().skip_while(|line| *line != start) {
        let Some((_, call)) = line.split_once(' ').filter(|(maker, _)| *maker == pid) else {
            continue;
        };
        let call = call.trim_start();
        has_child |= ["clone(", "clone3(", "vfork(", "fork("].iter().any(|it| call.starts_with(it));
        if let Some((signal, action)) =
            call.strip_prefix("rt_sigaction(").and_then(|rest| rest.split_once(", "))
            && action.starts_with("{sa_handler=0x")
        {
            assert!(!has_child, "a handler after the first child: {line}");
            signals.insert(signal.to_owned());
        }
    }
    assert!(has_child, "it starts a process");
    signals
}

#[test]
fn handlers_are_set_before_the_first_child_and_never_for_an_ignored_signal() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let (mpirun, pty) = (suite.program("mpirun"), suite.program("pty"));
    let traced = |script: &str, program: &str| {
        let calls = "trace=rt_sigaction,execve,clone,clone3,vfork,fork";
        let run = suite.command(&strace).args(["-f", "-o", "trace", "-e", calls]);
        let script = format!("{script}; exit $?");
        run.args(["bash", "-c", &script]).deadline(120).output().code(0);
        handled(&fs::read_to_string(suite.path("work/trace")).expect("a trace"), program)
    };
    let job = format!("{mpirun} -n 1 {PROGRAM}");
    let usual = traced(&job, "/mpirun\"");
    for signal in ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGCONT"] {
        assert!(usual.contains(signal), "{signal}: {usual:?}");
    }
    let nohup = traced(&format!("trap '' HUP USR1; {job}"), "/mpirun\"");
    let ignored = ["SIGHUP", "SIGUSR1"].map(str::to_owned);
    assert_eq!(nohup, usual.difference(&BTreeSet::from(ignored)).cloned().collect());
    let wrapper = traced(&format!("trap '' HUP; {pty} {PROGRAM}"), "/pty\"");
    assert!(wrapper.contains("SIGTERM") && !wrapper.contains("SIGHUP"), "{wrapper:?}");
}

#[test]
fn calls_are_counted_from_the_start_of_mpirun_to_its_end_without_those_of_shell_and_program() {
    let trace = "7 execve(\"/bin/bash\", [\"bash\"]) = 0\n\
                 8 execve(\"/a/mpd\", [\"mpd\"]) = 0\n\
                 9 execve(\"/a/mpirun\", [\"mpirun\"]) = 0\n\
                 7 wait4(-1,  <unfinished ...>\n\
                 8 read(3,  <unfinished ...>\n\
                 9 close(3) = 0\n\
                 8 <... read resumed>\"x\", 1) = 1\n\
                 8 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                 6 setpgid(0, 0) = 0\n\
                 6 execve(\"/bin/true\", [\"true\"]) = 0\n\
                 6 brk(NULL) = 0\n\
                 6 +++ exited with 0 +++\n\
                 6 getpid() = 6\n\
                 9 exit_group(0) = ?\n\
                 9 +++ exited with 0 +++\n\
                 8 close(4) = 0\n";
    assert_eq!(counts(trace), [7]);
}
