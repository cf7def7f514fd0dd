//! Events of jobs: `mpdwatch --job`.

use std::fs;

use crate::event_lines::{about, ends, events, events_from};
use crate::members::Members;
use crate::run::{Run, Running, wait_until};
use crate::suite::Suite;

/// The ranks of the job whose ends are counted: one for each exit code, then one for each signal.
const CODES: u64 = 256;
const SIGNALS: u64 = 15;
/// The rank that keeps the job alive.
const LAST: u64 = CODES + SIGNALS;

impl Members {
    fn events(&self, index: usize, job: &str, arguments: &[&str]) -> Run {
        self.tool(index, "mpdwatch", &["--json", "--job", job]).args(arguments)
    }

    /// How many ranks run a shell.
    fn shells(&self) -> usize {
        let shell = fs::canonicalize("/bin/sh").expect("a shell");
        let name = shell.file_name().and_then(|name| name.to_str()).expect("a name");
        self.suite.running(name).len()
    }

    /// A pipe that a rank of this ring opens, and waits until [`let_go`] opens it.
    fn gate(&self, name: &str) -> String {
        let path = self.suite.path(name).display().to_string();
        self.suite.command("mkfifo").args(["-m", "666", &path]).output().code(0).quiet();
        path
    }
}

/// Lets the rank go that opens this gate now or later.
fn let_go(gate: &str) {
    fs::write(gate, "").expect("a pipe");
}

/// The lines of watchers that have ended; all have the same ones.
fn seen_by_all<const N: usize>(watchers: [Running; N]) -> String {
    let outputs = watchers.map(Running::wait);
    outputs.iter().for_each(|output| {
        output.code(0).quiet();
    });
    let seen = outputs[0].out();
    assert!(outputs.iter().all(|output| output.out() == seen), "all see the same");
    seen
}

/// A watcher that has shown its first events.
fn begun(run: Run) -> Running {
    let watcher = run.start();
    watcher.shows("\"number\":1,");
    watcher
}

#[test]
fn watchers_on_all_hosts_see_every_exit_code_and_signal_once_in_one_order() {
    let ring = Members::of(3);
    let gate = ring.gate("gate");
    let coded = "exit $PMI_RANK";
    let signalled = format!("ulimit -c 0; kill -$((PMI_RANK - {CODES} + 1)) $$");
    let last = format!(": < {gate}");
    let (codes, signals) = (CODES.to_string(), SIGNALS.to_string());
    let options = ["-on-failure", "continue", "-ppn", "91"];
    let job = ring
        .mpirun(1, &options)
        .args(["-n", &codes, "sh", "-c", coded, ":", "-n", &signals, "sh", "-c", &signalled])
        .args([":", "-n", "1", "sh", "-c", &last])
        .start();
    // The ranks end before a watcher asks. The first watcher sees all of them.
    wait_until("the other ranks have ended", || ring.shells() == 1 && !ring.listed(1).is_empty());
    let watchers = [1, 2, 3].map(|index| begun(ring.events(index, "1@d1", &[])));
    let_go(&gate);
    job.wait().failed();
    let seen = seen_by_all(watchers);
    let all = events(&seen);
    let ends = ends(&all);
    assert_eq!(ends.len() as u64, LAST + 1);
    for (rank, end) in ends {
        let (code, signal) = (end["code"].as_u64(), end["signal"].as_u64());
        let expected = match rank {
            LAST => (Some(0), None),
            rank if rank < CODES => (Some(rank), None),
            rank => (None, Some(rank - CODES + 1)),
        };
        assert_eq!((code, signal), expected, "{end}");
    }
    // The job is over, and its events are kept for a while.
    let late = ring.events(2, "1@d1", &[]).output();
    assert_eq!(late.code(0).quiet().out(), seen);
    let rest = ring.events(3, "1@d1", &["--from", "500"]).output();
    assert_eq!(events_from(500, &rest.code(0).quiet().out()), all[499..]);
    ring.only_daemons_are_left();
}

#[test]
fn no_event_is_lost_or_doubled_when_daemons_are_killed_and_started_again() {
    let ring = Members::of(3);
    let gates = ["a", "b", "c"].map(|name| ring.gate(name));
    let [a, b, c] = &gates;
    let script = format!("case $PMI_RANK in 0) : < {a};; 1) : < {b};; 2) : < {c};; esac");
    let job = ring.mpirun(1, &["-n", "3", "-ppn", "1", "sh", "-c", &script]).start();
    wait_until("it runs", || ring.listed(2).len() == 3);
    // Of the root's host, of a host with ranks, and of another host.
    let watchers = [1, 2, 3].map(|index| begun(ring.events(index, "1@d1", &[])));
    // The daemon of the root is away when a rank ends. The next one knows the hosts of this one by a file.
    let saved = || fs::read_to_string(ring.rundir(1).join("ring.json")).unwrap_or_default();
    wait_until("the ring is saved", || saved().contains("\"d3\""));
    ring.kill(1);
    let_go(b);
    wait_until("it has ended", || ring.shells() == 2);
    ring.start_again(1);
    ring.agree();
    watchers.iter().for_each(|watcher| {
        watcher.shows("\"event\":\"exited\"");
    });
    // The daemon of a watcher, on a host with ranks.
    ring.kill(2);
    watchers[0].shows("\"event\":\"host_lost\"");
    ring.start_again(2);
    ring.agree();
    watchers[0].shows("\"event\":\"host_added\"");
    let_go(c);
    watchers[2].shows("\"rank\":2,\"host\":\"d3\",\"code\":0");
    let_go(a);
    job.wait().code(0);
    let seen = seen_by_all(watchers);
    let all = events(&seen);
    assert!(ends(&all).values().all(|end| end["code"] == 0), "{seen}");
    assert_eq!(about(&all, "d2"), ["host_lost", "host_added"], "{seen}");
    assert_eq!(about(&all, "d3"), [""; 0], "{seen}");
    ring.only_daemons_are_left();
}

#[test]
fn each_change_of_a_host_is_an_event_once() {
    let ring = Members::of(2);
    let gate = ring.gate("gate");
    let job = ring.mpirun(1, &["-n", "1", "sh", "-c", &format!(": < {gate}")]).start();
    wait_until("it runs", || ring.listed(1).len() == 1);
    let watcher = begun(ring.events(2, "1@d1", &[]));
    let shown = |kind: &str| {
        watcher.shows(&format!("\"event\":\"{kind}\""));
    };
    ring.start(3);
    shown("host_added");
    ring.tool(1, "mpddrain", &["d3"]).output().code(0).quiet();
    shown("host_draining");
    ring.tool(2, "mpddrain", &["--undo", "d3"]).output().code(0).quiet();
    shown("host_undrained");
    ring.kill(3);
    shown("host_lost");
    ring.start_again(3);
    ring.agree();
    ring.tool(2, "mpdexit", &["d3"]).output().code(0).quiet();
    shown("host_left");
    ring.forget(3);
    let_go(&gate);
    job.wait().code(0);
    let output = watcher.wait();
    let all = events(&output.code(0).quiet().out());
    let kinds = ["added", "draining", "undrained", "lost", "added", "left"];
    assert_eq!(about(&all, "d3"), kinds.map(|kind| format!("host_{kind}")));
    assert_eq!(ends(&all).len(), 1);
    ring.only_daemons_are_left();
}

#[test]
fn the_ranks_of_a_grown_job_have_events_under_their_numbers_in_the_job() {
    let ring = Members::of(2);
    let gate = ring.gate("gate");
    // Only the first one of all waits.
    let script = format!("mkdir {gate}.first 2>&- && : < {gate}; :");
    let job = ring.mpirun(1, &["-n", "1", "-a", "growing", "sh", "-c", &script]).start();
    wait_until("it runs", || ring.listed(1).len() == 1);
    let watcher = begun(ring.events(2, "growing", &[]));
    wait_until("the first rank waits", || fs::exists(format!("{gate}.first")).expect("a file"));
    ring.tool(2, "mpdgrow", &["growing", "2"]).output().code(0).quiet();
    watcher.shows("\"rank\":1,").shows("\"rank\":2,");
    wait_until("the new ranks have ended", || watcher.stdout().matches("exited").count() == 2);
    let_go(&gate);
    job.wait().code(0);
    let output = watcher.wait();
    let ends = ends(&events(&output.code(0).quiet().out()));
    assert_eq!(ends.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    ring.only_daemons_are_left();
}

#[test]
fn the_events_of_a_job_without_a_ring_are_refused_with_the_remedy() {
    let suite = Suite::new();
    let job = suite.mpirun(["-n", "1", "sleep", "60"]).start();
    wait_until("it runs", || suite.running("sleep").len() == 1);
    let name = format!("p{}", job.pid());
    let watch = suite.command(suite.program("mpdwatch")).args(["--job", &name]).output();
    watch.code(1).says(&["through a ring of daemons", "mpdboot"]);
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.wait();
    suite.gone(&[]);
}
