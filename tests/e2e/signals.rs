//! Signals to mpirun reach each rank once, and end the processes that they should end.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::process::{self, Process};
use crate::run::{Running, wait_until};
use crate::suite::Suite;

/// Signals that are forwarded and end no process.
pub(crate) const ORDINARY: [Signal; 5] =
    [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGWINCH];

/// A job of `t-signals`, all of whose processes have reported that they are ready.
pub(crate) struct Recorders<'a> {
    suite: &'a Suite,
    pub(crate) directory: PathBuf,
    names: Vec<String>,
}

impl<'a> Recorders<'a> {
    /// The expected processes of such a job; each rank has a child in a separate session.
    pub(crate) fn new(suite: &'a Suite, ranks: usize, name: &str) -> Self {
        let directory = PathBuf::from(suite.new_directory(name));
        let names = (0..ranks).flat_map(|rank| [format!("{rank}"), format!("{rank}.child")]);
        Self { suite, directory, names: names.collect() }
    }

    pub(crate) fn start(suite: &'a Suite, ranks: usize, name: &str) -> (Self, Running) {
        let recorders = Self::new(suite, ranks, name);
        let directory = recorders.directory.display().to_string();
        let job = suite.ranks(ranks, "t-signals", &[&directory, "60", "child"]).start();
        recorders.wait_until_ready();
        (recorders, job)
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_until("all recorders are ready", || self.names.iter().all(|n| self.pid(n).is_some()));
    }

    fn pid(&self, name: &str) -> Option<i32> {
        fs::read_to_string(self.directory.join(format!("ready.{name}"))).ok()?.parse().ok()
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        let pids = self.names.iter().filter_map(|name| self.pid(name));
        pids.filter_map(Process::read).filter(Process::is_alive).collect()
    }

    /// The signals that each process has received so far, with their numbers.
    pub(crate) fn got(&self, name: &str) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(self.directory.join(format!("got.{name}")));
        let mut counts = BTreeMap::new();
        for line in text.unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_insert(0) += 1;
        }
        counts
    }

    /// The signals that the ranks themselves, not their children, have received.
    pub(crate) fn ranks_got(&self) -> Vec<BTreeMap<String, usize>> {
        let ranks = self.names.iter().filter(|name| !name.contains('.'));
        ranks.map(|name| self.got(name)).collect()
    }

    pub(crate) fn wait_until_ranks_got(&self, signal: Signal) {
        let what = format!("every rank has got {signal}");
        wait_until(&what, || self.ranks_got().iter().all(|got| got.contains_key(signal.as_str())));
    }

    /// Sends signals in sequence; checks that every rank gets each of them once.
    pub(crate) fn get_each_once(&self, job: &Running, signals: &[Signal]) {
        for &signal in signals {
            job.send(signal);
            self.wait_until_ranks_got(signal);
        }
        // A second copy of the first signals would have arrived before the last one.
        let expected: BTreeMap<_, _> =
            signals.iter().map(|signal| (signal.as_str().to_owned(), 1)).collect();
        let got = self.ranks_got();
        assert!(got.iter().all(|got| *got == expected), "{got:?}");
    }

    /// Lets all processes end with 0.
    pub(crate) fn stop(&self) {
        fs::write(self.directory.join("stop"), "").expect("the stop file");
        wait_until("all recorders have ended", || self.processes().is_empty());
    }

    /// Waits until no process of this job is left.
    pub(crate) fn are_gone(&self) {
        wait_until("all recorders are gone", || self.processes().is_empty());
        self.suite.no_job_is_left();
    }
}

#[test]
fn ordinary_signals_reach_every_rank_once_and_the_job_continues() {
    let suite = Suite::new();
    suite.start_daemon();
    let (recorders, job) = Recorders::start(&suite, 4, "d");
    recorders.get_each_once(&job, &ORDINARY);
    recorders.stop();
    job.wait().code(0).quiet();
    suite.only_the_daemon_is_left();
}

#[test]
fn signals_that_the_parent_of_mpirun_blocked_end_the_job_and_ranks_block_none() {
    let suite = Suite::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let script = "grep SigBlk /proc/self/status; exec sleep 60";
        let blocked: SigSet = [signal, Signal::SIGUSR1, Signal::SIGALRM].into_iter().collect();
        // A started program inherits the mask of this thread.
        blocked.thread_block().expect("a mask");
        let job = suite.mpirun(["sh", "-c", script]).start();
        blocked.thread_unblock().expect("a mask");
        job.shows("SigBlk:\t0000000000000000\n");
        job.send(signal);
        let output = job.wait();
        output.code(128 + signal as i32);
        suite.gone(&[]);
    }
}

#[test]
fn a_signal_sent_twice_arrives_twice() {
    let suite = Suite::new();
    let (recorders, job) = Recorders::start(&suite, 2, "d");
    for times in 1..=3 {
        job.send(Signal::SIGUSR1);
        wait_until("one more SIGUSR1", || {
            recorders.ranks_got().iter().all(|got| got.get("SIGUSR1") == Some(&times))
        });
    }
    recorders.stop();
    job.wait().code(0).quiet();
}

#[test]
fn ranks_and_their_children_are_not_stopped_before_a_forwarded_signal() {
    let suite = Suite::new();
    suite.start_daemon();
    // A job-control shell that sees its child stop continues as if the child had ended. The children end when the
    // signal has reached the last rank, which follows the others.
    let child = "sh -c 'echo ready; until [ -e '$0' ]; do sleep 0.02; done'";
    let watching = format!("trap 'echo got it' USR1; set -m; {child}; echo rc $?");
    let last = "trap 'echo last; >$0; exit' USR1; echo ready; while :; do :; done";
    for round in 0..3 {
        let go = suite.path(format!("work/go.{round}")).display().to_string();
        let job = suite.mpirun(["-n", "2", "bash", "-c", &watching, &go, ":"]);
        let job = job.args(["-n", "1", "bash", "-c", last, &go]).start();
        wait_until("all have begun", || job.stdout().lines().count() == 3);
        job.send(Signal::SIGUSR1);
        let output = job.wait();
        output.code(0).quiet();
        let expected = ["got it", "got it", "last", "rc 0", "rc 0", "ready", "ready", "ready"];
        assert_eq!(output.sorted_lines(), expected);
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_signal_reaches_the_whole_process_group_of_a_rank() {
    let suite = Suite::new();
    let recorders = Recorders::new(&suite, 1, "d");
    let directory = recorders.directory.display().to_string();
    let job = suite.ranks(1, "t-signals", &[&directory, "60", "group"]).start();
    recorders.wait_until_ready();
    job.send(Signal::SIGUSR1);
    let once = BTreeMap::from([("SIGUSR1".to_owned(), 1)]);
    wait_until("both have got it", || ["0", "0.child"].iter().all(|n| recorders.got(n) == once));
    recorders.stop();
    job.wait().code(0).quiet();
}

#[test]
fn sigint_is_followed_by_sigterm_and_sigkill_for_surviving_ranks() {
    let suite = Suite::new();
    suite.start_daemon();
    let (recorders, job) = Recorders::start(&suite, 3, "d");
    job.send(Signal::SIGINT);
    job.wait().code(130);
    for got in recorders.ranks_got() {
        assert_eq!((got.get("SIGINT"), got.get("SIGTERM")), (Some(&1), Some(&1)), "{got:?}");
    }
    recorders.are_gone();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_second_sigint_kills_all_ranks_at_once() {
    let suite = Suite::new();
    let (recorders, job) = Recorders::start(&suite, 3, "d");
    job.send(Signal::SIGINT);
    recorders.wait_until_ranks_got(Signal::SIGINT);
    let first = std::time::Instant::now();
    job.send(Signal::SIGINT);
    job.wait().code(130);
    // On a machine so slow that the grace period has passed, this cannot be checked.
    if first.elapsed() < Duration::from_secs(1) {
        assert!(recorders.ranks_got().iter().all(|got| !got.contains_key("SIGTERM")));
    }
    recorders.are_gone();
}

#[test]
fn sigint_ends_ordinary_ranks_with_130() {
    let suite = Suite::new();
    let job = suite.mpirun(["-n", "4", "sleep", "60"]).start();
    wait_until("four ranks", || suite.running("sleep").len() == 4);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.gone(&[]);
}

#[test]
fn sigtstp_stops_every_process_and_sigcont_continues_all() {
    let suite = Suite::new();
    suite.start_daemon();
    let (recorders, job) = Recorders::start(&suite, 3, "d");
    for _ in 0..2 {
        job.send(Signal::SIGTSTP);
        wait_until("the ranks, their children and mpirun have stopped", || {
            recorders.processes().iter().all(Process::is_stopped) && job.process().is_stopped()
        });
        job.send(Signal::SIGCONT);
        wait_until("the ranks, their children and mpirun continue", || {
            let stopped = recorders.processes().into_iter().find(Process::is_stopped);
            stopped.is_none() && !job.process().is_stopped()
        });
    }
    assert_eq!(recorders.processes().len(), 6);
    recorders.stop();
    job.wait().code(0).quiet();
}

#[test]
fn mpirun_does_not_forward_an_ignored_sighup() {
    let suite = Suite::new();
    let directory = suite.new_directory("d");
    let run = suite.command(suite.program("t-run")).arg("ignore=SIGHUP");
    let run = run.arg(suite.program("mpirun")).args(["-n", "1"]);
    let job = run.arg(suite.program("t-signals")).arg(&directory).start();
    job.shows("ready 0");
    job.send(Signal::SIGHUP);
    // Signals arrive in order: if mpirun had forwarded the first one, it would have arrived.
    job.send(Signal::SIGUSR1);
    let got = || fs::read_to_string(suite.path("d/got.0")).unwrap_or_default();
    wait_until("SIGUSR1 has come", || got().contains("SIGUSR1"));
    assert_eq!(got(), "SIGUSR1\n");
    fs::write(suite.path("d/stop"), "").expect("the stop file");
    job.wait().code(0).quiet();
}

#[test]
fn signals_to_one_mpirun_do_not_reach_other_jobs() {
    let suite = Suite::new();
    suite.start_daemon();
    let (others, other) = Recorders::start(&suite, 2, "other");
    let (mine, job) = Recorders::start(&suite, 2, "mine");
    job.send(Signal::SIGUSR1);
    mine.wait_until_ranks_got(Signal::SIGUSR1);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    mine.are_gone_alone();
    assert!(others.ranks_got().iter().all(BTreeMap::is_empty));
    others.stop();
    other.wait().code(0).quiet();
}

impl Recorders<'_> {
    /// Waits until these processes have gone; others may still run.
    pub(crate) fn are_gone_alone(&self) {
        wait_until("all recorders are gone", || self.processes().is_empty());
    }
}

#[test]
fn no_signal_is_lost_in_the_first_milliseconds_of_mpirun() {
    let suite = Suite::new();
    for served in [false, true] {
        if served {
            suite.start_daemon();
        }
        for (milliseconds, signal) in (0..=12)
            .flat_map(|milliseconds| [Signal::SIGTERM, Signal::SIGINT].map(|s| (milliseconds, s)))
        {
            let job = suite.mpirun(["-n", "2", "sleep", "60"]).deadline(20).start();
            // At different moments of the start.
            std::thread::sleep(Duration::from_millis(milliseconds));
            job.send(signal);
            job.wait().ended_by(signal);
        }
        suite.no_job_is_left();
    }
}

#[test]
fn a_signal_before_the_daemons_answer_ends_the_job() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    process::send(daemon.pid, Signal::SIGSTOP);
    wait_until("the daemon has stopped", || {
        Process::read(daemon.pid).is_some_and(|d| d.is_stopped())
    });
    let job = suite.mpirun(["-n", "2", "sleep", "60"]).start();
    wait_until("mpirun waits for the daemon", || {
        let mpirun = job.process();
        mpirun.catches(Signal::SIGTERM) && mpirun.state == 'S' && mpirun.runs("mpirun")
    });
    job.send(Signal::SIGTERM);
    wait_until("the signal is taken", || {
        Process::read(job.pid()).is_none_or(|mpirun| !mpirun.is_yet_to_take(Signal::SIGTERM))
    });
    process::send(daemon.pid, Signal::SIGCONT);
    job.wait().code(143);
    suite.only_the_daemon_is_left();
    suite.mpirun(["-n", "2", "true"]).output().code(0).quiet();
}
