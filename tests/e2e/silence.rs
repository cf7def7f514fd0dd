//! Processes of the suite that are stopped. `mpirun` names them, and does not wait for them when the user no longer wants the
//! job. If a manager was stopped before it had a job, the job gets another one. What runs on ends with the stopped process.

mod private;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Running, comes_true, wait_until};
use crate::suite::Suite;

/// `mpirun` returns this long after the second ^C, or after the time limit, with the time for a busy machine.
const SOON: Duration = Duration::from_secs(2);
const BUSY: Duration = Duration::from_secs(4);

/// A process that is stopped. It continues when this is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(process: &Process) -> Self {
        process.stop();
        Self(process.pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        process::send(self.0, Signal::SIGCONT);
    }
}

/// A job whose outputs are files, since its ranks may have them after the end of `mpirun`.
struct Job {
    running: Running,
    out: PathBuf,
    err: PathBuf,
}

impl Job {
    fn start(suite: &Suite, name: &str, arguments: &[&str]) -> Self {
        let file = |kind: &str| suite.path(format!("work/{name}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        let create = |path: &Path| File::create(path).expect("a file");
        let run = suite.mpirun(arguments).stdout(create(&out)).stderr(create(&err));
        Self { running: run.start(), out, err }
    }

    /// Two ranks that sleep; both have started.
    fn sleeping(suite: &Suite, options: &[&str]) -> Self {
        let program = ["sh", "-c", "echo ready; exec sleep 600"];
        let job = Self::start(suite, "job", &[&["-n", "2"], options, &program].concat());
        wait_until("both ranks are ready", || text(&job.out).matches("ready").count() == 2);
        job
    }

    fn says(&self, part: &str) {
        wait_until(part, || text(&self.err).contains(part));
    }

    fn has_ended_within(&mut self, time: Duration) -> bool {
        comes_true(time, || self.running.has_ended())
    }

    /// The end of an `mpirun` that was asked for it at this time: in time, with this code and this text.
    fn ends_soon(mut self, asked: Instant, code: i32, part: &str) {
        assert!(self.has_ended_within(SOON + BUSY), "it goes on: {}", text(&self.err));
        let took = asked.elapsed();
        assert!(took < SOON + BUSY, "it took {took:?}");
        self.running.wait().code(code);
        assert!(text(&self.err).contains(part), "{}", text(&self.err));
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_stopped_daemon_is_named_and_the_time_limit_and_ctrl_c_end_mpirun() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let stopped = Stopped::new(&daemon);
    let limit = Instant::now() + Duration::from_secs(3);
    let limited = Job::start(&suite, "limited", &["-timeout", "3", "echo", "ran"]);
    let mut waiting = Job::start(&suite, "waiting", &["echo", "ran"]);
    let interrupted = Job::start(&suite, "interrupted", &["echo", "ran"]);
    let named = format!("the daemon of this host (process {}) is stopped", daemon.pid);
    limited.ends_soon(
        limit,
        124,
        &format!("the daemon of this host (process {}) is stopped", daemon.pid),
    );
    waiting.says(&named);
    interrupted.says(&named);
    interrupted.running.send(Signal::SIGINT);
    interrupted.ends_soon(Instant::now(), 130, &named);
    assert!(!waiting.running.has_ended());
    drop(stopped);
    waiting.running.wait().code(0);
    assert_eq!(text(&waiting.out), "ran\n");
    suite.only_the_daemon_is_left();
    let others = [suite.path("work/limited.out"), suite.path("work/interrupted.out")];
    assert_eq!(others.map(|path| text(&path)), ["", ""], "these jobs never ran");
}

#[test]
fn a_stopped_manager_is_named_and_the_second_ctrl_c_ends_mpirun() {
    for continues in [true, false] {
        let suite = Suite::new();
        suite.start_daemon();
        let mut job = Job::sleeping(&suite, &[]);
        let manager = suite.manager();
        let stopped = Stopped::new(&manager);
        job.says(&format!("(process {}) is stopped, and the job waits for it", manager.pid));
        job.running.send(Signal::SIGINT);
        assert!(!job.has_ended_within(Duration::from_millis(100)));
        job.running.send(Signal::SIGINT);
        job.ends_soon(Instant::now(), 130, "its 2 ranks may still run and end when it continues");
        assert_eq!(suite.running("sleep").len(), 2, "they run on");
        if continues {
            drop(stopped);
        } else {
            process::send(manager.pid, Signal::SIGKILL);
        }
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn a_stopped_manager_in_waiting_is_replaced_and_the_job_runs_once() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    for _ in 0..3 {
        wait_until("a manager in waiting", || daemon.manager_in_waiting().is_some());
        let waiting = daemon.manager_in_waiting().expect("a manager in waiting");
        let stopped = Stopped::new(&waiting);
        let began = Instant::now();
        let output = suite.mpirun(["-n", "2", "echo", "ran"]).output();
        output.code(0).prints("ran\nran\n").quiet();
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1), "it was not stopped for the job: {took:?}");
        assert!(took < Duration::from_secs(4) + BUSY, "it took {took:?}");
        assert!(Process::is_gone(waiting.pid), "it is dead");
        std::mem::forget(stopped);
    }
    suite.only_the_daemon_is_left();
}
