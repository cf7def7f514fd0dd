//! Signals reach every rank on every host once, and end or stop the processes as intended.

use std::time::Duration;

use mpd_tests::random::Random;
use nix::sys::signal::Signal;

use crate::across::{ring, roomy};
use crate::members::Members;
use crate::process::Process;
use crate::pty::Terminal;
use crate::run::{Running, sample, wait_until};
use crate::signals::{ORDINARY, Recorders};
use crate::terminal::check_only_the_foreground_job_reads_the_terminal;

#[test]
fn ordinary_signals_reach_every_rank_of_every_host_once() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    recorders.get_each_once(&job, &ORDINARY);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn sigtstp_stops_every_process_of_every_host_and_sigcont_continues_all() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    for _ in 0..2 {
        stop(&recorders, &job);
        resume(&recorders, &job);
    }
    assert_eq!(recorders.processes().len(), 16);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

fn stop(recorders: &Recorders<'_>, job: &Running) {
    job.send(Signal::SIGTSTP);
    wait_until("the ranks, their children and mpirun have stopped", || {
        recorders.processes().iter().all(Process::is_stopped) && job.process().is_stopped()
    });
}

fn resume(recorders: &Recorders<'_>, job: &Running) {
    job.send(Signal::SIGCONT);
    wait_until("the ranks, their children and mpirun continue", || {
        let stopped = recorders.processes().into_iter().find(Process::is_stopped);
        stopped.is_none() && !job.process().is_stopped()
    });
}

#[test]
fn a_job_stopped_for_longer_than_the_host_timeout_continues() {
    // `faster(4)`: a host is declared lost after two seconds of silence instead of eight.
    let ring = roomy().faster(4).with(4);
    let (recorders, job) = ring.recorders(8, &[], "d");
    stop(&recorders, &job);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(recorders.processes().len(), 16);
    resume(&recorders, &job);
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

/// Starts jobs and sends a signal to each `mpirun` at different moments of its start.
fn send_early(ring: &Members, signals: &[Signal], rounds: usize, check: impl Fn(Running, Signal)) {
    let mut random = Random::new(7);
    for round in 0..rounds {
        let signal = signals[round % signals.len()];
        let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(20).start();
        let micros = u64::try_from(random.below(40_000)).expect("it is small");
        std::thread::sleep(Duration::from_micros(micros));
        job.send(signal);
        check(job, signal);
    }
}

#[test]
fn a_signal_in_the_first_milliseconds_is_not_lost_on_any_host() {
    let ring = ring();
    let signals = [Signal::SIGTERM, Signal::SIGINT];
    send_early(&ring, &signals, sample(40, 5_000), |job, signal| {
        job.wait().ended_by(signal);
    });
    ring.only_daemons_are_left();
}

#[test]
fn mpirun_killed_in_the_first_milliseconds_leaves_no_process_on_any_host() {
    let ring = ring();
    send_early(&ring, &[Signal::SIGKILL], sample(30, 2_000), |job, _| drop(job.wait()));
    ring.only_daemons_are_left();
    ring.mpirun(1, &["-n", "8", "true"]).output().code(0).quiet();
}

/// A shell on a terminal, whose `mpirun` uses d1.
fn terminal(ring: &Members) -> Terminal {
    let directory = ring.suite.path("d").display().to_string();
    let mut terminal = Terminal::with_shell(&ring.suite, &directory);
    terminal.enter(&format!("export MPD_RUNDIR={}", ring.rundir(1).display()));
    terminal.shows_prompt();
    terminal
}

#[test]
fn closing_the_terminal_leaves_no_process_on_any_host() {
    let ring = ring();
    let recorders = Recorders::new(&ring.suite, 8, "d");
    let mut terminal = terminal(&ring);
    terminal.enter("$MPIRUN -n 8 $T/t-signals $D 60 child");
    recorders.wait_until_ready();
    terminal.hang_up();
    ring.only_daemons_are_left();
}

#[test]
fn a_background_job_is_not_stopped_when_a_rank_on_another_host_reads_input() {
    let ring = ring();
    check_only_the_foreground_job_reads_the_terminal(&ring.suite, terminal(&ring), "-n 8 -s 7", 7);
    ring.only_daemons_are_left();
}
