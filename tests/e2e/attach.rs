//! Debuggers that attach to a running job on several hosts: the user inspects the job, and it continues.

use crate::members::Members;
use crate::run::{Run, Running, wait_until};
use crate::suite::{Suite, skip};
use mpd_tests::surroundings::setting;

/// The program that waits until a debugger releases it; `None` if gdb is not installed.
fn patient() -> Option<String> {
    setting("MPD_TEST_GDB")?;
    Some(format!("{}/patient", setting("MPD_TEST_DEBUG_DIR")?))
}

macro_rules! patient {
    () => {
        match patient() {
            Some(program) => program,
            None => return skip("no gdb, or no program to debug"),
        }
    };
}

fn ring() -> Members {
    Members::new().option(&["--ncpus", "3"]).with(3)
}

/// A job of eight ranks on all hosts with the alias `target`, in which all ranks are ready.
fn target(ring: &Members, program: &str) -> Running {
    let job = ring.mpirun(1, &["-a", "target", "-n", "8", program]).deadline(120).start();
    wait_until("eight ranks", || job.stdout().matches("ready").count() == 8);
    job
}

/// A session that executes these commands.
fn session(ring: &Members, arguments: &[&str], commands: &str) -> Run {
    ring.mpirun(2, arguments).input(commands).deadline(120)
}

fn only_daemons_are_left(ring: &Members) {
    let pids: Vec<i32> = ring.indices().iter().map(|&index| ring.process(index).pid).collect();
    ring.suite.gone(&pids);
}

const LET_GO: &str = "set var released = 1\n";

#[test]
fn gdba_inspects_all_ranks_of_a_job_without_changing_its_end() {
    let program = patient!();
    let ring = ring();
    let job = target(&ring, &program);
    let out = session(&ring, &["-gdba", "target"], "print answer\nquit\n").output();
    for rank in 0..8 {
        let line = format!("{rank}: $1 = {}\n", 42 + rank);
        assert!(out.code(0).out().contains(&line), "{}", out.out());
    }
    let out = session(&ring, &["-gdba", "target"], &format!("{LET_GO}detach\nz ?\n")).output();
    out.code(0);
    assert!(out.out().contains("\n0-7: not started\n"), "{}", out.out());
    job.wait().code(3);
    only_daemons_are_left(&ring);
}

#[test]
fn gdba_to_some_ranks_keeps_their_numbers_and_does_not_stop_others() {
    let program = patient!();
    let ring = ring();
    let job = target(&ring, &program);
    let commands = "print answer\nz 4\nz 3\nz 5-6\nprint answer\nrun\n";
    let out = session(&ring, &["-d", "-p", "target", "-r", "2,5-6"], commands).output();
    out.code(0);
    let text = out.out();
    let shown = |line: &str| text.lines().filter(|shown| *shown == line).count();
    assert_eq!([shown("2: $1 = 44"), shown("5: $1 = 47"), shown("6: $1 = 48")], [1; 3], "{text}");
    assert_eq!([shown("2: $2 = 44"), shown("5: $2 = 47"), shown("6: $2 = 48")], [0, 1, 1]);
    let errors = out.err();
    assert!(errors.contains("there is no rank 4; the job has 2,5-6"), "{errors}");
    assert!(errors.contains("cannot be started again"), "{errors}");
    session(&ring, &["-gdba", "target"], LET_GO).output().code(0);
    job.wait().code(3);
    only_daemons_are_left(&ring);
}

#[test]
fn a_rank_killed_in_a_debugger_session_ends_its_job() {
    let program = patient!();
    let ring = ring();
    let job = target(&ring, &program);
    let out = session(&ring, &["-gdba", "target"], "z 7\nkill\n").output();
    assert!(out.code(0).out().contains("7: [program killed]"), "{}", out.out());
    job.wait().code(137);
    only_daemons_are_left(&ring);
}

#[test]
fn a_job_continues_after_its_debugger_session_is_killed() {
    let program = patient!();
    let ring = ring();
    let job = target(&ring, &program);
    let killed = session(&ring, &["-gdba", "target"], "").input_pipe().start();
    killed.shows("stopped in");
    killed.send(nix::sys::signal::Signal::SIGKILL);
    killed.wait().ended_by(nix::sys::signal::Signal::SIGKILL);
    wait_until("the debuggers are gone", || ring.suite.running("gdb").is_empty());
    session(&ring, &["-gdba", "target"], LET_GO).output().code(0);
    job.wait().code(3);
    only_daemons_are_left(&ring);
}

#[test]
fn attaching_to_an_unknown_job_is_refused_with_its_name() {
    let ring = ring();
    let problem = |arguments: &[&str]| ring.mpirun(1, arguments).output().code(125).brief().err();
    assert!(problem(&["-gdba", "77"]).contains("there is no job 77@d1; 'mpdlistjobs' lists"));
    assert!(problem(&["-stacks", "77@nowhere"]).contains("there is no job 77@nowhere"));
    assert!(problem(&["-gdba", "nobody"]).contains("no job called 'nobody'"));
    only_daemons_are_left(&ring);
    let alone = Suite::new();
    alone.mpirun(["-gdba", "1"]).output().code(125).brief().says(&["no daemon is running"]);
}
