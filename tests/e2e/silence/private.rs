//! Processes of a private ring that are stopped. They are children of `mpirun`.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::{BUSY, SOON};
use crate::demand::World;
use crate::process::{self, Process};
use crate::run::{Run, Running, comes_true, wait_until};
use crate::suite::Suite;

/// What `mpirun` says about a process for which it does not wait.
const ENDS_LATER: &str = "is stopped; it ends when it continues";

/// An `mpirun` whose private daemon stops itself before it does anything.
fn with_a_stopped_daemon(suite: &Suite, run: impl FnOnce(String) -> Run) -> Running {
    for name in ["mpirun", "mpd", "mpdboot"] {
        let _ = fs::remove_file(suite.path("bin").join(name));
    }
    fs::copy(suite.program("mpirun"), suite.path("bin/mpirun")).expect("a copy");
    symlink(suite.program("mpdboot"), suite.path("bin/mpdboot")).expect("a link");
    let script = format!("#!/bin/sh\nkill -STOP $$\nexec {} \"$@\"\n", suite.program("mpd"));
    fs::write(suite.path("bin/mpd"), script).expect("a script");
    suite.allow("bin/mpd", 0o755);
    run(suite.path("bin/mpirun").display().to_string()).deadline(60).start()
}

/// The child of this `mpirun` that satisfies the condition.
fn child(mpirun: &Running, is_it: impl Fn(&Process) -> bool) -> Process {
    let pid = mpirun.pid();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let pids: Vec<i32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        pids.into_iter().filter_map(Process::read).find(&is_it)
    };
    wait_until("the child", || children().is_some());
    children().expect("a child")
}

fn stopped_child(mpirun: &Running) -> Process {
    child(mpirun, Process::is_stopped)
}

/// `mpirun` ends in time after it was asked, with this code and this text. Then the stopped process, which has its outputs,
/// continues.
fn ends_soon(mut mpirun: Running, asked: Instant, stopped: &Process, (code, part): (i32, &str)) {
    assert!(comes_true(SOON + BUSY, || mpirun.has_ended()), "it goes on: {}", mpirun.stderr());
    let took = asked.elapsed();
    assert!(took < SOON + BUSY, "it took {took:?}");
    process::send(stopped.pid, Signal::SIGCONT);
    mpirun.wait().code(code).says(&[part]);
}

#[test]
fn a_stopped_private_daemon_is_named_and_ctrl_c_ends_mpirun() {
    let suite = Suite::new();
    let start = || {
        with_a_stopped_daemon(&suite, |mpirun| {
            suite.command(mpirun).args(["-n", "1", "echo", "ran"])
        })
    };
    let mpirun = start();
    let daemon = stopped_child(&mpirun);
    let named = format!("the daemon of this host (process {}) is stopped", daemon.pid);
    wait_until("it is named", || mpirun.stderr().contains(&named));
    mpirun.send(Signal::SIGINT);
    ends_soon(mpirun, Instant::now(), &daemon, (130, ENDS_LATER));
    suite.gone(&[]);
    // If it continues in time, the job runs.
    let mpirun = start();
    process::send(stopped_child(&mpirun).pid, Signal::SIGCONT);
    mpirun.wait().code(0).prints("ran\n");
    suite.gone(&[]);
}

/// An `mpirun` whose `mpdboot` waits for a host that does not answer, and this `mpdboot`.
fn booting(world: &World, options: &[&str]) -> (Running, Process) {
    nix::unistd::mkfifo(&world.suite.path("hanging"), nix::sys::stat::Mode::S_IRWXU)
        .expect("a FIFO");
    let arguments = [options, &["-hosts", "h1,hangs1", "-n", "2", "true"]].concat();
    let mpirun = world.mpirun(&arguments).deadline(60).start();
    fs::read(world.suite.path("hanging")).expect("a shell that hangs");
    let boot = child(&mpirun, |process| process.runs("mpdboot"));
    (mpirun, boot)
}

#[test]
fn a_stopped_mpdboot_is_named_and_ctrl_c_ends_mpirun() {
    let world = World::new();
    let (mpirun, boot) = booting(&world, &[]);
    boot.stop();
    let named = format!("the mpdboot (process {}) is stopped", boot.pid);
    wait_until("it is named", || mpirun.stderr().contains(&named));
    mpirun.send(Signal::SIGINT);
    ends_soon(mpirun, Instant::now(), &boot, (130, ENDS_LATER));
    world.is_gone();
}

#[test]
fn an_mpdboot_that_is_stopped_while_its_job_runs_is_named_at_the_end() {
    let world = World::new();
    let script = "echo up; until [ -e $0 ]; do sleep 0.05; done";
    let file = world.suite.path("work/go").display().to_string();
    let mpirun = world.mpirun(&["-hosts", "h1", "-n", "1", "sh", "-c", script, &file]).start();
    mpirun.shows("up");
    let boot = child(&mpirun, |process| process.runs("mpdboot"));
    boot.stop();
    fs::write(&file, "").expect("a file");
    let named = format!("the mpdboot of this job (process {}) is stopped", boot.pid);
    wait_until("it is named", || mpirun.stderr().contains(&named));
    process::send(boot.pid, Signal::SIGCONT);
    mpirun.wait().code(0);
    world.is_gone();
}
