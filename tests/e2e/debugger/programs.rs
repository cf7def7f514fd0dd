//! What programs do under the debugger: end, crash, write, read, loop, spawn, abort.

use mpd_tests::surroundings::setting;

use super::{HINT, Session, debug, library, merged, run_together};
use crate::mpi::libraries_with_ports;
use crate::pty::{END_OF_FILE, INTERRUPT};
use crate::suite::{Suite, skip};

#[test]
fn a_rank_that_crashes_shows_where_while_the_others_run() {
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
fn a_hundred_thousand_lines_of_each_rank_come_whole_and_in_order() {
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
fn ranks_that_loop_are_interrupted_and_go_on() {
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
fn a_second_interrupt_offers_to_kill_the_job() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    session.begins("run loop 1");
    session.terminal.shows("of 3 ranks\n");
    // One that answers no interrupt.
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
fn a_breakpoint_of_one_rank_leaves_the_choice_to_the_user() {
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
fn a_condition_holds_for_the_ranks_that_it_was_given_to() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 4);
    session.does("z 1-2");
    session.does("break work if round == 2");
    session.does("z");
    session.begins("run");
    session.terminal.shows("2: Breakpoint 1, work (round=2) at world.c:");
    session.terminal.shows("mpigdb: rank 2 is ready, 0-1,3 still run");
    session.does("z 2");
    session.does("continue");
    session.does("z");
    let screen = session.quits();
    assert!(!screen.contains("round=1"), "{screen}");
}

#[test]
fn lines_that_are_typed_reach_the_programs_and_so_does_their_end() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 2);
    session.begins("run echo");
    session.terminal.shows("of 2 ranks\n");
    for line in ["to all", "and once more"] {
        session.terminal.enter(line);
        for _ in 0..2 {
            session.terminal.shows(&format!(" read {line}\n"));
        }
    }
    session.terminal.press(END_OF_FILE);
    session.prompts();
    let screen = merged(&session.quits(), 2);
    assert!(screen.contains("0-1: [program exited normally]\n"), "{screen}");
    for rank in 0..2 {
        assert!(screen.contains(&format!("{rank}: rank {rank} read and once more\n")), "{screen}");
    }
}

#[test]
fn who_aborts_is_told_and_the_others_can_still_be_looked_at() {
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
fn spawned_ranks_run_on_their_own_and_their_lines_say_so() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    let Some(library) = libraries_with_ports().into_iter().find(|one| one.name == "MPICH 5") else {
        return;
    };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 2);
    for world in 1..=2 {
        session.does("run spawn");
        let screen = session.shown();
        for rank in 0..2 {
            let line = format!("spawned {rank},{world}: spawned {rank}\n");
            assert!(screen.contains(&line), "{line}{screen}");
        }
    }
    assert_eq!(session.quits().matches("[program exited normally]").count(), 2);
}

#[test]
fn programs_that_run_when_the_session_ends_are_gone() {
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
