//! `mpirun -on-crash gdb`: the places of crashed ranks. Everything else stays the same, unless a user can debug.

use nix::sys::signal::Signal;

use crate::mpi::libraries;
use crate::process::Process;
use crate::run::{Output, Run, wait_until};
use crate::suite::{Suite, skip};
use mpd_tests::surroundings::setting;

/// The program that crashes, or `None` if gdb is not installed.
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

// After the macro, which they use.
mod opened;
mod terminal;

fn caught(suite: &Suite, ranks: &str) -> Run {
    suite.mpirun(["-n", ranks, "-on-crash", "gdb"]).deadline(120)
}

/// The lines about crashes, without the program name `mpirun`.
fn crash_report(output: &Output) -> Vec<String> {
    let lines = output.err();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("mpirun: "));
    lines.map(str::to_owned).take_while(|line| !line.starts_with("host ")).collect()
}

#[test]
fn on_crash_reports_the_place_of_a_crash_and_keeps_its_exit_code() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let output = caught(&suite, "3").args([&program, "segv", "1"]).output();
    let places = crash_report(output.code(139));
    assert_eq!(places[0], "positions of ranks at SIGSEGV:");
    assert!(places[1].starts_with("  1: main at crasher.c:"), "{places:?}");
    assert!(places[2].starts_with("    1: broken at crasher.c:"), "{places:?}");
    let output = caught(&suite, "3").args([&program, "abort", "2"]).output();
    let places = crash_report(output.code(134));
    assert_eq!(places[0], "positions of ranks at SIGABRT:");
    assert!(places[1].starts_with("  2: main at crasher.c:"), "{places:?}");
    suite.only_the_daemon_is_left();
}

#[test]
fn on_crash_reports_all_threads_of_a_crashed_rank() {
    let program = crasher!();
    let suite = Suite::new();
    let output = caught(&suite, "1").args([&program, "threads"]).output();
    let text = crash_report(output.code(139)).join("\n");
    assert!(text.contains("0: broken at crasher.c:") && text.contains("0: sleeper at"), "{text}");
    suite.gone(&[]);
}

#[test]
fn threads_that_crash_together_are_reported_as_one_crash() {
    let program = crasher!();
    let suite = Suite::new();
    for _ in 0..5 {
        let output = caught(&suite, "1").args([&program, "together"]).output();
        let text = crash_report(output.code(139)).join("\n");
        assert!(text.contains("0: broken at crasher.c:"), "{text}");
    }
    suite.gone(&[]);
}

#[test]
fn a_crash_below_a_script_is_reported_and_keeps_the_scripts_code() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let script = format!("{program} segv; echo \"ended with $?\"; exit 5");
    let output = caught(&suite, "1").args(["sh", "-c", &script]).output();
    output.code(5).prints("ended with 139\n");
    assert!(
        crash_report(&output).join("\n").contains("0: broken at crasher.c:"),
        "{}",
        output.err()
    );
    suite.only_the_daemon_is_left();
}

#[test]
fn programs_with_a_handler_or_without_a_crash_run_unchanged() {
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
fn signals_reach_a_traced_program_and_stop_it() {
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
    // The kernel shows stopped traced processes with another letter.
    let is_stopped = || {
        let ranks = suite.running("crasher");
        let state = |rank: &Process| std::fs::read_to_string(format!("/proc/{}/stat", rank.pid));
        !ranks.is_empty() && ranks.iter().all(|rank| state(rank).is_ok_and(|s| s.contains(") t ")))
    };
    wait_until("it is stopped", is_stopped);
    let mpirun = || Process::read(job.pid()).is_some_and(|mpirun| mpirun.is_stopped());
    wait_until("mpirun has stopped itself", mpirun);
    job.send(Signal::SIGCONT);
    wait_until("it continues", || !is_stopped());
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.only_the_daemon_is_left();
}

#[test]
fn mpi_programs_run_and_crash_with_the_same_exit_codes() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    let suite = Suite::new();
    suite.start_daemon();
    for library in libraries() {
        let run = |program: &str, arguments: &[&str]| {
            let run = library.dress(caught(&suite, "3")).arg(library.program(program));
            run.args(arguments).output()
        };
        run("hello", &[]).code(0);
        let output = run("stuck", &["crash"]);
        output.code(139);
        let text = crash_report(&output).join("\n");
        assert!(text.contains("1: broken"), "{}: {}", library.name, output.err());
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_missing_debugger_is_reported_before_any_rank_runs() {
    let suite = Suite::new();
    let arguments = ["-gdb-path", "/no/such/gdb", "true"];
    let output = caught(&suite, "1").args(arguments).output();
    output.code(125).says(&["/no/such/gdb"]).brief();
    suite.gone(&[]);
}
