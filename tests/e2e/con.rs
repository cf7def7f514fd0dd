//! `mpdcon`: sessions in scripts and on a terminal.

use std::fs;
use std::io::Write;

use crate::members::Members;
use crate::pty::{END_OF_FILE, INTERRUPT, Terminal};
use crate::run::wait_until;
use crate::suite::Suite;

#[test]
fn a_script_controls_ring_jobs_and_slots() {
    let ring = Members::new().option(&["--slots", "2"]).with(2);
    let mut console = ring.tool(1, "mpdcon", &[]).input_pipe().start();
    let mut stdin = console.stdin();
    let mut enter = |lines: &str| stdin.write_all(lines.as_bytes()).expect("mpdcon reads");
    enter("# a session\n\nhosts\nalias two spawn -n 2 -l\ntwo echo 'a  b'\nslots\n");
    console.shows("d1\nd2\n").shows("0: a  b\n").shows("1: a  b\n").shows("SLOTS");
    enter(
        "spawn -n 2 -l -a long sh -c 'trap \"echo told; exit 3\" USR1; echo ready; while :; do sleep 0.1; done' &\n",
    );
    console.shows("0: ready").shows("1: ready");
    enter("ps\nsig USR1 -a long\n");
    console.shows("'long' of").shows(": told");
    enter("alloc -n 1 sh -c 'echo $MPD_ALLOC'\nqueue\nnames\ndrain d2\nconf\n");
    console.shows("a1@d1").shows("draining");
    enter("frob\nadd\n!exit 4\nversion\n");
    console.shows("mpdcon ");
    enter("mstat d2\nid\nspawn -n 1 -a lasts sh -c 'echo lasts; sleep 600' &\n");
    console.shows("d2").shows("\"name\":\"d1\"").shows("lasts\n");
    enter("reset\n");
    console.shows("lasts");
    wait_until("no job", || ring.suite.running("sleep").is_empty());
    enter("delete d2\nhosts\n");
    drop(stdin);
    let output = console.wait();
    output
        .code(0)
        .says(&["mpdcon: line 15: unknown command 'frob'", "mpdcon: line 16: 'add' needs a host"]);
    assert!(output.out().ends_with("\nd1\n"), "{}", output.out());
    ring.forget(2);
    ring.only_daemons_are_left();
}

#[test]
fn the_exit_code_is_that_of_the_last_command() {
    let ring = Members::of(1);
    let ran = |words: &[&str]| ring.tool(1, "mpdcon", words).output();
    ran(&["-c", "spawn -n 1 false", "-c", "spawn -n 1 echo more"]).code(0).prints("more\n");
    ran(&["-e", "-c", "spawn -n 1 sh -c 'exit 7'", "-c", "spawn -n 1 echo more"])
        .code(7)
        .prints("");
    ran(&["-c", "frob"]).code(2).says(&["unknown command 'frob'"]).brief();
    ran(&["-c", "spawn 'x"]).code(2).says(&["a quotation mark is not closed"]).brief();
    ran(&["-c", "quit", "-c", "hosts"]).code(0).prints("").quiet();
    ran(&["/no/such/file"]).code(1).says(&["cannot open /no/such/file"]).brief();
    let file = ring.suite.path("script");
    fs::write(&file, "hosts\nquit\nhosts\n").expect("a script");
    ran(&[&file.display().to_string()]).code(0).prints("d1\n");
    fs::write(&file, b"hosts\n\xff\n").expect("a script");
    ran(&[&file.display().to_string()]).code(1).says(&["script, line 2: not UTF-8"]);
    let elsewhere = ["--rundir", "/nowhere", "-c", "hosts"];
    ran(&elsewhere).code(1).says(&["mpdtrace: ", "no daemon"]).brief();
    ring.only_daemons_are_left();
}

#[test]
fn the_prompt_completes_words_and_remembers_lines() {
    let suite = Suite::new();
    suite.start_daemon();
    let home = suite.new_directory("console");
    fs::write(format!("{home}/.mpdconrc"), "alias three spawn -n 3 -l\n").expect("a start file");
    let mut terminal = Terminal::with_shell(&suite, &home);
    let begin = "PATH=${MPIRUN%/*}:$PATH HOME=$D TERM=xterm mpdcon";
    terminal.enter(begin);
    terminal.shows("mpdcon> ");
    terminal.press("th\t");
    terminal.shows("three ");
    terminal.enter("echo hi");
    terminal.shows("2: hi");
    terminal.shows("mpdcon> ");
    terminal.press("no such");
    terminal.press(INTERRUPT);
    terminal.shows("mpdcon> ");
    terminal.enter("spawn -n 2 sleep 60");
    wait_until("two ranks", || suite.running("sleep").len() == 2);
    terminal.press(INTERRUPT);
    terminal.shows("mpdcon> ");
    wait_until("no rank", || suite.running("sleep").is_empty());
    terminal.press(END_OF_FILE);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130, "that of the job");
    terminal.enter(begin);
    terminal.shows("mpdcon> ");
    // Two lines up is the first command of the session before.
    terminal.press("\x1b[A\x1b[A");
    terminal.shows("three echo hi");
    terminal.enter("");
    terminal.shows("2: hi");
    // Until its ranks have ended, the terminal's input belongs to the job.
    terminal.shows("mpdcon> ");
    terminal.enter("quit");
    terminal.shows_prompt();
    suite.no_job_is_left_but(&["bash"]);
    terminal.leave();
}

#[test]
fn an_interrupt_ends_a_script_with_its_command() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter("${MPIRUN%/*}/mpdcon -c 'spawn -n 2 sleep 60' -c '!echo NEVER'");
    wait_until("two ranks", || suite.running("sleep").len() == 2);
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    assert!(!terminal.screen().contains("\nNEVER"), "{}", terminal.screen());
    suite.no_job_is_left_but(&["bash"]);
    terminal.leave();
}
