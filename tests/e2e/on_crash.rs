//! `mpirun -on-crash gdb`: where ranks were that crash, and nothing else is different, unless a user sits there.

use nix::sys::signal::Signal;

use crate::mpi::libraries;
use crate::process::Process;
use crate::run::{Output, Run, wait_until};
use crate::suite::{Suite, skip};
use mpd_tests::surroundings::setting;

/// The program that crashes, or nothing where there is no debugger.
fn crasher() -> Option<String> {
    setting("MPD_TEST_GDB")?;
    Some(format!("{}/crasher", setting("MPD_TEST_DEBUG_DIR")?))
}

macro_rules! crasher {
    () => {
        match crasher() {
            Some(program) => program,
            None => return skip("no gdb, or no program to debug"),
        }
    };
}

// Behind the macro, which it uses.
mod opened;

fn caught(suite: &Suite, ranks: &str) -> Run {
    suite.mpirun(["-n", ranks, "-on-crash", "gdb"]).deadline(120)
}

/// What is told of crashes, without our name.
fn told(output: &Output) -> Vec<String> {
    let lines = output.err();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("mpirun: "));
    lines.map(str::to_owned).take_while(|line| !line.starts_with("host ")).collect()
}

#[test]
fn the_place_of_a_crash_is_told_and_the_exit_code_is_that_of_the_signal() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let output = caught(&suite, "3").args([&program, "segv", "1"]).output();
    let told_of = told(output.code(139));
    assert_eq!(told_of[0], "where ranks were when SIGSEGV came:");
    assert!(told_of[1].starts_with("  1: main at crasher.c:"), "{told_of:?}");
    assert!(told_of[2].starts_with("    1: broken at crasher.c:"), "{told_of:?}");
    let output = caught(&suite, "3").args([&program, "abort", "2"]).output();
    let told_of = told(output.code(134));
    assert_eq!(told_of[0], "where ranks were when SIGABRT came:");
    assert!(told_of[1].starts_with("  2: main at crasher.c:"), "{told_of:?}");
    suite.only_the_daemon_is_left();
}

#[test]
fn all_threads_of_a_rank_that_crashes_are_told() {
    let program = crasher!();
    let suite = Suite::new();
    let output = caught(&suite, "1").args([&program, "threads"]).output();
    let text = told(output.code(139)).join("\n");
    assert!(text.contains("0: broken at crasher.c:") && text.contains("0: sleeper at"), "{text}");
    suite.gone(&[]);
}

#[test]
fn the_thread_that_crashed_is_told_of_however_many_there_are() {
    let program = crasher!();
    let suite = Suite::new();
    let output = caught(&suite, "1").args([&program, "last"]).output();
    let text = told(output.code(139)).join("\n");
    assert!(text.contains("0: broken at crasher.c:"), "{text}");
    suite.gone(&[]);
}

#[test]
fn threads_that_crash_together_are_one_crash() {
    let program = crasher!();
    let suite = Suite::new();
    for _ in 0..5 {
        let output = caught(&suite, "1").args([&program, "together"]).output();
        let text = told(output.code(139)).join("\n");
        assert!(text.contains("0: broken at crasher.c:"), "{text}");
    }
    suite.gone(&[]);
}

#[test]
fn a_crash_below_a_script_is_told_and_the_scripts_code_counts() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let script = format!("{program} segv; echo \"ended with $?\"; exit 5");
    let output = caught(&suite, "1").args(["sh", "-c", &script]).output();
    output.code(5).prints("ended with 139\n");
    assert!(told(&output).join("\n").contains("0: broken at crasher.c:"), "{}", output.err());
    suite.only_the_daemon_is_left();
}

#[test]
fn who_handles_a_crash_or_has_none_is_left_alone() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    caught(&suite, "1").args([&program, "handled"]).output().code(7).quiet();
    caught(&suite, "1").args([&program, "fork"]).output().code(4).quiet();
    for _ in 0..10 {
        caught(&suite, "4").args(["true"]).output().code(0).quiet();
    }
    let output = caught(&suite, "1").args(["cat"]).input("one\ntwo\n").output();
    output.code(0).quiet().prints("one\ntwo\n");
    suite.only_the_daemon_is_left();
}

#[test]
fn signals_reach_the_program_and_stop_it() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGUSR1, 138)] {
        let job = caught(&suite, "1").args([&program, "wait"]).start();
        job.shows("waiting");
        job.send(signal);
        job.wait().code(code);
    }
    let job = caught(&suite, "1").args([&program, "wait"]).start();
    job.shows("waiting");
    job.send(Signal::SIGTSTP);
    // Of the watched ones that is another letter.
    let is_stopped = || {
        let ranks = suite.running("crasher");
        let state = |rank: &Process| std::fs::read_to_string(format!("/proc/{}/stat", rank.pid));
        !ranks.is_empty() && ranks.iter().all(|rank| state(rank).is_ok_and(|s| s.contains(") t ")))
    };
    wait_until("it is stopped", is_stopped);
    let mpirun = || Process::read(job.pid()).is_some_and(|mpirun| mpirun.is_stopped());
    wait_until("mpirun has stopped itself", mpirun);
    job.send(Signal::SIGCONT);
    wait_until("it goes on", || !is_stopped());
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.only_the_daemon_is_left();
}

#[test]
fn mpi_programs_run_and_crash_as_without() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    let suite = Suite::new();
    suite.start_daemon();
    for library in libraries() {
        let run = |program: &str, words: &[&str]| {
            let run = library.dress(caught(&suite, "3")).arg(library.program(program));
            run.args(words).output()
        };
        run("hello", &[]).code(0);
        let output = run("stuck", &["crash"]);
        output.code(139);
        let text = told(&output).join("\n");
        assert!(text.contains("1: broken"), "{}: {}", library.name, output.err());
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_debugger_that_is_not_there_is_told_before_anything_runs() {
    let suite = Suite::new();
    let words = ["-gdb-path", "/no/such/gdb", "true"];
    let output = caught(&suite, "1").args(words).output();
    output.code(125).says(&["/no/such/gdb"]).brief();
    suite.gone(&[]);
}
