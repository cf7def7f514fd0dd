//! Signals reach every rank on every host once, and end or stop the processes as intended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use nix::sys::signal::Signal;

use crate::across::{ring, roomy};
use crate::members::Members;
use crate::process::Process;
use crate::pty::{INTERRUPT, SUSPEND, Terminal};
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
fn sigint_is_followed_by_sigterm_and_sigkill_on_every_host() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    job.send(Signal::SIGINT);
    job.wait().code(130);
    for got in recorders.ranks_got() {
        assert_eq!((got.get("SIGINT"), got.get("SIGTERM")), (Some(&1), Some(&1)), "{got:?}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn a_second_sigint_kills_the_ranks_of_every_host_at_once() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    job.send(Signal::SIGINT);
    recorders.wait_until_ranks_got(Signal::SIGINT);
    let first = Instant::now();
    job.send(Signal::SIGINT);
    job.wait().code(130);
    // On a machine so slow that the grace period has passed, this cannot be checked.
    if first.elapsed() < Duration::from_secs(1) {
        assert!(recorders.ranks_got().iter().all(|got| !got.contains_key("SIGTERM")));
    }
    ring.only_daemons_are_left();
}

#[test]
fn a_signal_that_kills_the_ranks_of_all_hosts_ends_the_job() {
    let ring = ring();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGUSR1, 138)] {
        let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).start();
        wait_until("eight ranks", || ring.suite.running("sleep").len() == 8);
        job.send(signal);
        job.wait().code(code);
        ring.only_daemons_are_left();
    }
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

#[test]
fn a_stopped_job_of_many_hosts_can_be_killed() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    stop(&recorders, &job);
    job.send(Signal::SIGKILL);
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

#[test]
fn sigtstp_during_the_start_on_many_hosts_stops_all_ranks() {
    let ring = ring();
    for already in [1, 30, 60] {
        // The ranks end with their input, when the test waits for the job.
        let arguments = ["-s", "all", "-ppn", "20", "-n", "80", "cat"];
        let job = ring.mpirun(1, &arguments).input_pipe().start();
        wait_until("some ranks", || ring.suite.running("cat").len() >= already);
        job.send(Signal::SIGTSTP);
        wait_until("mpirun has stopped", || job.process().is_stopped());
        let running: Vec<_> =
            ring.suite.running("cat").into_iter().filter(|rank| !rank.is_stopped()).collect();
        assert!(running.is_empty(), "not stopped by then: {running:?}");
        job.send(Signal::SIGCONT);
        job.wait().code(0).quiet();
    }
    ring.only_daemons_are_left();
}

#[test]
fn signals_of_one_job_do_not_reach_another_on_the_same_hosts() {
    let ring = ring();
    let (others, other) = ring.recorders(8, &[], "other");
    let (mine, job) = ring.recorders(8, &[], "mine");
    job.send(Signal::SIGUSR1);
    mine.wait_until_ranks_got(Signal::SIGUSR1);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    mine.are_gone_alone();
    assert!(others.ranks_got().iter().all(BTreeMap::is_empty));
    others.stop();
    other.wait().code(0).quiet();
    ring.only_daemons_are_left();
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
fn ctrl_z_stops_the_ranks_of_all_hosts_and_fg_continues_them() {
    let ring = ring();
    let recorders = Recorders::new(&ring.suite, 8, "d");
    let mut terminal = terminal(&ring);
    terminal.enter("$MPIRUN -n 8 $T/t-signals $D 60 child");
    recorders.wait_until_ready();
    for _ in 0..2 {
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        assert!(recorders.processes().iter().all(Process::is_stopped));
        terminal.enter("fg");
        wait_until("all continue", || !recorders.processes().iter().any(Process::is_stopped));
    }
    assert_eq!(recorders.processes().len(), 16);
    recorders.stop();
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 0);
    terminal.leave();
    ring.only_daemons_are_left();
}

#[test]
fn ctrl_c_ends_the_ranks_of_all_hosts_and_the_shell_prompts_again() {
    let ring = ring();
    let mut terminal = terminal(&ring);
    terminal.enter("$MPIRUN -n 8 sleep 60");
    wait_until("eight ranks", || ring.suite.running("sleep").len() == 8);
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    terminal.leave();
    ring.only_daemons_are_left();
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
