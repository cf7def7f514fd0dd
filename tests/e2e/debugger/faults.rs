//! Failures around a session, and scripts.

use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;

use super::{Session, debug, library, nothing_is_left, run_together};
use crate::process;
use crate::suite::Suite;

#[test]
fn a_killed_gdb_is_reported_and_the_other_ranks_continue() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.does("break work");
    session.does("run");
    let of_rank = |process: &process::Process, rank: &str| {
        let path = format!("/proc/{}/environ", process.pid);
        let environment = std::fs::read(path).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == format!("PMI_RANK={rank}").as_bytes())
    };
    let gdb = suite.running("gdb").into_iter().find(|gdb| of_rank(gdb, "1"));
    process::send(gdb.expect("the gdb of rank 1").pid, Signal::SIGKILL);
    session.terminal.shows("1: gdb was killed by SIGKILL; this rank cannot be debugged any more\n");
    session.terminal.shows("the debugger of rank 1 ended");
    session.does("next");
    session.does("z ?");
    let screen = session.quits();
    assert!(screen.contains("0,2: 14\t    return twice;\n"), "{screen}");
    assert!(screen.contains("1: its debugger has ended\n"), "{screen}");
}

#[test]
fn a_killed_mpirun_or_closed_terminal_leaves_nothing_of_a_session() {
    let Some(library) = library() else { return };
    for stops in [false, true] {
        let suite = Suite::new();
        let mut session = Session::of(&suite, &library, 3);
        session.does("break work");
        session.does("run");
        if !stops {
            session.begins("continue");
            session.terminal.shows("of 3 ranks");
            session.prompts();
            session.begins("run loop 1");
        }
        run_together(&suite, 3);
        let mpirun = suite.running("mpirun").pop().expect("mpirun");
        process::send(mpirun.pid, Signal::SIGKILL);
        session.terminal.shows_prompt();
        nothing_is_left(&suite);
        session.terminal.leave();

        let suite = Suite::new();
        let mut session = Session::of(&suite, &library, 3);
        session.does(if stops { "break work" } else { "print 1" });
        session.begins("run loop 1");
        run_together(&suite, 3);
        session.terminal.hang_up();
        suite.no_job_is_left();
    }
}

#[test]
fn a_host_without_gdb_is_reported_in_one_line() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let directory = suite.new_directory("only");
    for name in ["sh", "env"] {
        symlink(format!("/bin/{name}"), format!("{directory}/{name}")).expect("a link");
    }
    let output = debug(&suite, &library, &["-n", "3"]).env("PATH", &directory).output();
    output.code(125).says(&["cannot execute the debugger gdb", "-gdb-path"]);
    assert_eq!(output.err().lines().count(), 1, "{output}");
    assert!(output.out().is_empty(), "{output}");
    suite.no_job_is_left();
}

#[test]
fn commands_of_files_run_before_the_prompt_and_an_error_ends_the_file() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let file = suite.path("work/first.gdb");
    std::fs::write(&file, "# where to stop\nbreak work\n\nprint nobody\nbreak main\n")
        .expect("a file");
    let run = debug(
        &suite,
        &library,
        &["-x", "first.gdb", "-ex", "run", "-ex", "print round", "-n", "2"],
    );
    let output = run.input("continue\n").output();
    output.code(0);
    let shown = super::merged(&output.out(), 2);
    assert!(shown.contains("0: $1 = 0\n1: $1 = 1\n0-1: Continuing.\n"), "{shown}");
    assert!(shown.ends_with("0-1: [program exited normally]\n"), "{shown}");
    assert!(!shown.contains("Breakpoint 2"), "{shown}");
    output.says(&[
        "0-1: No symbol \"nobody\" in current context.\n",
        "first.gdb:4: error; the rest of the file is left out",
    ]);

    let batch =
        debug(&suite, &library, &["-batch", "-ex", "print nobody", "-ex", "print 3", "-n", "2"]);
    let output = batch.output();
    output.code(1).says(&["No symbol \"nobody\""]);
    assert!(super::merged(&output.out(), 2).ends_with("0-1: $1 = 3\n"), "{output}");
    suite.no_job_is_left();
}
