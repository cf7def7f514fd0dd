//! `mpirun -pty -on-crash gdb`: crash tracing of ranks that run on terminals.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;

use super::{caught, crash_report, crasher};
use crate::process;
use crate::pty::{INTERRUPT, Terminal};
use crate::run::wait_until;
use crate::suite::{Suite, skip};

const PROMPT: &str = "(mpigdb) ";

#[test]
fn the_terminal_of_a_rank_works_before_its_crash_is_reported() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    // A question without a newline, an answer, and the size of the terminal: then the crash.
    let script =
        format!("printf 'name? '; read name; echo \"hello $name\"; stty size; exec {program} segv");
    let run = caught(&suite, "1").args(["-pty", "sh", "-c", &script]);
    let mut job = run.env("COLUMNS", "93").env("LINES", "27").input_pipe().start();
    wait_until("the question", || job.stdout() == "name? ");
    job.stdin().write_all(b"you\n").expect("a pipe");
    let output = job.wait();
    output.code(139).prints("name? hello you\n27 93\n");
    let places = crash_report(&output);
    assert_eq!(places[0], "positions of ranks at SIGSEGV:");
    assert!(places[1].starts_with("  0: main at crasher.c:"), "{places:?}");
    suite.only_the_daemon_is_left();
}

#[test]
fn the_debugger_opens_at_a_crashed_rank_on_a_terminal() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let mut terminal = Terminal::with_shell(&suite, "");
    let script = format!("test -t 0 && echo on a terminal; exec {program} segv 1");
    terminal.enter(&format!("$MPIRUN -pty -on-crash gdb -n 2 sh -c '{script}'"));
    terminal.shows("on a terminal\n");
    terminal.shows("mpirun: rank 1 of host ");
    terminal.shows("the debugger opens there");
    terminal.shows(PROMPT);
    terminal.enter("bt");
    terminal.shows("in broken");
    terminal.shows(PROMPT);
    terminal.enter("q");
    terminal.shows("rank 1: killed by signal 11");
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 139);
    terminal.leave();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_traced_rank_on_a_terminal_keeps_exit_codes_signals_and_job_control() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    caught(&suite, "3").args(["-pty", "sh", "-c", "exit 7"]).output().code(7);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGUSR1, 138)] {
        let job = caught(&suite, "1").args(["-pty", &program, "wait"]).start();
        job.shows("waiting");
        job.send(signal);
        job.wait().code(code);
    }
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter(&format!("$MPIRUN -pty -on-crash gdb {program} wait"));
    terminal.shows("waiting");
    terminal.press("\x1a");
    terminal.shows("Stopped");
    terminal.shows_prompt();
    terminal.enter("fg");
    terminal.shows("fg\n");
    wait_until("it continues", || !suite.running("mpirun")[0].is_stopped());
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    terminal.leave();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_program_that_the_kernel_cannot_execute_gives_126_with_the_errno() {
    let _ = crasher!();
    let suite = Suite::new();
    let file = suite.path("work/broken");
    std::fs::write(&file, "\x7fELF\0\0\0\0\0\0\0\0\n").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    for words in [&["-pty"][..], &["-on-crash", "gdb"], &["-pty", "-on-crash", "gdb"]] {
        let output = suite.mpirun(words).args(["-n", "1", "./broken"]).output();
        output.code(126).says(&["rank 0 cannot execute ./broken (exec): Exec format error"]);
    }
    suite.gone(&[]);
}

#[test]
fn a_killed_shim_leaves_no_process_of_its_rank() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    // A background process in a separate session, which must also end with the shim.
    let script = format!("setsid {program} wait & exec {program} wait");
    for words in [&["-pty"][..], &["-on-crash", "gdb"], &["-pty", "-on-crash", "gdb"]] {
        let run =
            suite.mpirun(words).args(["-n", "1", "-on-failure", "continue", "sh", "-c", &script]);
        let job = run.start();
        wait_until("both processes", || suite.running("crasher").len() == 2);
        let shims = suite.processes().into_iter().filter(|process| process.name == "mpdshim");
        let shims: Vec<i32> = shims.map(|shim| shim.pid).collect();
        assert_eq!(shims.len(), 1);
        process::send(shims[0], Signal::SIGKILL);
        job.wait().code(137);
        assert!(suite.running("crasher").is_empty());
        suite.no_job_is_left();
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_background_process_outlives_a_traced_program() {
    let _ = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    // Rank 0 exits, and then a process that it has started writes a line; rank 1 waits for this line.
    let script = "case $PMI_RANK in \
                  0) (while kill -0 $$ 2> /dev/null; do sleep 0.01; done; echo later; : > done) & ;; \
                  *) until test -e done; do sleep 0.01; done;; esac";
    let output = caught(&suite, "2").args(["sh", "-c", script]).output();
    output.code(0).prints("later\n");
    suite.only_the_daemon_is_left();
}
