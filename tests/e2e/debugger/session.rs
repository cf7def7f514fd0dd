//! Sessions as the user sees them: the tests compare whole texts.

use super::{Session, is_golden, nothing_is_left};
use crate::across::ring;
use crate::suite::Suite;

/// Break, run, one rank alone, all again, print, continue to the end.
fn has_a_session(session: &mut Session) {
    for command in
        ["break work", "run", "z 0", "next", "z", "next", "print twice", "continue", "z ?"]
    {
        session.does(command);
    }
}

const THREE: &str = "\
0-2: Reading symbols from DIR/world...
(mpigdb) break work
0-2: Breakpoint 1 at ADDRESS: file world.c, line 13.
(mpigdb) run
0-2: Starting program: DIR/world
0: Breakpoint 1, work (round=0) at world.c:13
0: 13\t    int twice = round * 2;
1: Breakpoint 1, work (round=1) at world.c:13
1: 13\t    int twice = round * 2;
2: Breakpoint 1, work (round=2) at world.c:13
2: 13\t    int twice = round * 2;
(mpigdb) z 0
(mpigdb) next
0: 14\t    return twice;
(mpigdb) z
(mpigdb) next
0: 15\t}
1-2: 14\t    return twice;
(mpigdb) print twice
0: $1 = 0
1: $1 = 2
2: $1 = 4
(mpigdb) continue
0-2: Continuing.
0-2: sum 6 of 3 ranks
0-2: [program exited normally]
(mpigdb) z ?
addressed: 0-2
0-2: exited normally
(mpigdb) quit
";

#[test]
fn a_session_of_three_ranks_reads_like_one_of_gdb() {
    for library in super::all_libraries() {
        let suite = Suite::new();
        suite.start_daemon();
        let mut session = Session::of(&suite, &library, 3);
        has_a_session(&mut session);
        is_golden(&session.quits(), THREE, 3);
        suite.only_the_daemon_is_left();
    }
}

/// The text of three ranks, changed for eight.
fn eight() -> String {
    let mut text = String::new();
    for line in THREE.lines() {
        let stops = |what: &str| line.starts_with("2: ") && line.contains(what);
        let line =
            line.replace("0-2", "0-7").replace("1-2", "1-7").replace("sum 6 of 3", "sum 56 of 8");
        match line {
            line if stops("13\t") => {
                text += &format!("{line}\n");
                for rank in 3..8 {
                    text += &format!("{rank}: Breakpoint 1, work (round={rank}) at world.c:13\n");
                    text += &format!("{rank}: 13\t    int twice = round * 2;\n");
                }
            }
            line if stops("$1") => {
                text += &format!("{line}\n");
                (3..8).for_each(|rank| text += &format!("{rank}: $1 = {}\n", 2 * rank));
            }
            line => text += &format!("{line}\n"),
        }
    }
    text
}

#[test]
fn a_session_of_eight_ranks_on_four_hosts_reads_like_one_of_three() {
    let Some(library) = super::library() else { return };
    let ring = ring();
    let rundir = format!("MPD_RUNDIR={}", ring.rundir(1).display());
    let mut session = Session::start(&ring.suite, &library, &rundir, "-n 8");
    session.prompts();
    has_a_session(&mut session);
    is_golden(&session.quits(), &eight(), 8);
    nothing_is_left(&ring.suite);
}

#[test]
fn a_second_run_command_restarts_the_whole_mpi_program() {
    let Some(library) = super::library() else { return };
    let suite = Suite::new();
    let mut session = Session::of(&suite, &library, 3);
    for command in ["run exit", "run", "run"] {
        session.does(command);
    }
    let run = "0-2: Starting program: DIR/world exit\n\
               0-2: sum 6 of 3 ranks\n\
               0-2: [program exited with code 3]\n";
    let again = format!("(mpigdb) run\nmpigdb: restarting all ranks\n{run}");
    let golden = format!(
        "0-2: Reading symbols from DIR/world...\n(mpigdb) run exit\n{run}{again}{again}(mpigdb) quit\n"
    );
    is_golden(&session.quits(), &golden, 3);
}
