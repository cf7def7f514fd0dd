//! Programs under the debugger that end, crash, write, read, loop, spawn or abort.

use mpd_tests::surroundings::setting;

use super::{HINT, Session, debug, library, merged, run_together};
use crate::mpi::libraries_with_ports;
use crate::pty::INTERRUPT;
use crate::suite::{Suite, skip};

#[test]
fn a_crash_shows_its_place_while_the_other_ranks_run() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.begins("run crash 1");
    session.terminal.shows("1: Program received signal SIGSEGV, Segmentation fault.\n");
    session.terminal.shows(HINT);
    session.does("z 1");
    session.does("print chosen");
    session.does("z ?");
    let screen = session.quits();
    for lines in [
        "1: 76\t        *(volatile int *)(long)chosen = 1;\n",
        "(mpigdb) print chosen\n1: $1 = 1\n",
        "(mpigdb) z ?\naddressed: 1\n0,2: runs\n1: stopped in main at world.c:76 (signal-received SIGSEGV)\n",
    ] {
        assert!(screen.contains(lines), "{lines}\n--\n{screen}");
    }
}

#[test]
fn a_hundred_thousand_lines_of_each_rank_arrive_whole_and_in_order() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let output = debug(&suite, &library, &["-batch", "-ex", "run flood", "-n", "3"]).output();
    output.code(0);
    let shown = output.out();
    for rank in 0..3 {
        let mut next = 0;
        for line in shown.lines() {
            let Some((label, text)) = line.split_once(": line ") else { continue };
            let ranks: mpd_wire::RankSet = label.parse().expect("ranks");
            if ranks.contains(mpd_wire::Rank(rank)) {
                assert_eq!(text, next.to_string(), "of rank {rank}");
                next += 1;
            }
        }
        assert_eq!(next, 100_000, "lines of rank {rank}");
    }
    let end =
        merged(&shown.lines().rev().take(3).map(|l| l.to_owned() + "\n").collect::<String>(), 3);
    assert!(end.contains("0-2: [program exited normally]\n"), "{end}");
}

#[test]
fn looping_ranks_are_interrupted_and_continue() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.begins("run loop 1");
    session.terminal.shows("of 3 ranks\n");
    session.terminal.press(INTERRUPT);
    session.prompts();
    session.does("z 1");
    session.does("frame function main");
    session.does("print goes_on = 0");
    session.does("z");
    session.does("continue");
    let screen = session.quits();
    let interrupted =
        merged(&screen, 3).contains("^C\n0-2: Program received signal SIGINT, Interrupt.\n");
    assert!(interrupted, "{screen}");
    assert!(screen.contains("(mpigdb) print goes_on = 0\n1: $1 = 0\n"), "{screen}");
}

#[test]
fn a_second_ctrl_c_offers_to_kill_the_job() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.begins("run loop 1");
    session.terminal.shows("of 3 ranks\n");
    // A gdb that answers no interrupt.
    let gdb = suite.running("gdb").pop().expect("a gdb");
    crate::process::send(gdb.pid, nix::sys::signal::Signal::SIGSTOP);
    session.terminal.press(INTERRUPT);
    session.terminal.shows("Program received signal SIGINT");
    session.terminal.press(INTERRUPT);
    session.terminal.shows("Kill the job? (y or n) ");
    session.terminal.enter("y");
    session.terminal.shows_prompt();
    assert_ne!(session.terminal.exit_code(), 0);
    super::nothing_is_left(&suite);
    session.terminal.leave();
}

#[test]
fn a_breakpoint_of_one_rank_opens_a_prompt_while_others_run() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.does("break stand_out");
    session.begins("run special 1");
    session.terminal.shows("mpigdb: rank 1 is ready, 0,2 still run: ^C interrupts 0,2, and 'z 1' ");
    session.does("z 1");
    session.does("continue");
    session.begins("z");
    session.prompts();
    let screen = session.quits();
    assert!(screen.contains("1: Breakpoint 1, stand_out (rank=1) at world.c:"), "{screen}");
    assert!(screen.contains("1: rank 1 is special\n"), "{screen}");
}

#[test]
fn an_mpi_abort_is_reported_and_the_ranks_can_be_inspected() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.begins("run abort 1");
    session.terminal.shows("rank 1: aborted the job with code 7\n");
    session.terminal.shows("1: Program received signal SIGINT, Interrupt.\n");
    session.does("z 1");
    session.does("where");
    let screen = session.quits();
    assert!(screen.contains(" in main (argc=3, argv=ADDRESS) at world.c:"), "{screen}");
}

#[test]
fn spawned_ranks_are_at_the_prompt_stop_at_breakpoints_and_leave_with_their_programs() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    let Some(library) = libraries_with_ports().into_iter().find(|one| one.name == "MPICH 5") else {
        return;
    };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 2);
    session.does("tbreak meet_parent");
    session.begins("run spawn");
    session.terminal.shows("spawned and ");
    // The parents wait for the spawned ranks, which are stopped.
    session.terminal.shows("addresses those that are ready alone");
    session.does("z 2-3");
    session.does("print rank");
    let screen = session.shown();
    for line in ["2: $1 = 0\n", "3: $1 = 1\n"] {
        assert!(screen.contains(line), "{line}{screen}");
    }
    // All ranks are addressed again when the spawned ones have ended.
    session.does("continue");
    session.does("z ?");
    session.does("delete");
    session.does("run spawn");
    session.does("z ?");
    let screen = session.quits();
    assert_eq!(screen.matches("addressed: 0-1\n0-1: exited normally\n").count(), 2, "{screen}");
    suite.no_job_is_left_but(&["bash"]);
}

#[test]
fn the_end_of_the_session_ends_running_programs() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.does("break work");
    session.does("run");
    run_together(&suite, 3);
    session.begins("quit");
    session.terminal.shows_prompt();
    super::nothing_is_left(&suite);
    session.terminal.leave();
}
