//! Ranks that make their manager keep more and more. Each has a budget.

use std::io::{Read as _, pipe};

use nix::sys::signal::Signal;

use crate::process::Process;
use crate::run::Running;
use crate::suite::{Suite, tell};

/// The memory of the manager, after its rank has written everything, or was not read for some seconds, in MiB.
fn grown_to(suite: &Suite, job: &Running, step: &str) -> u64 {
    job.shows(&format!("{step} "));
    let manager = Process::read(suite.manager().pid).expect("the manager");
    let used = manager.anonymous_kib() / 1024;
    tell(&format!("{step}: {used} MiB"));
    used
}

#[test]
fn requests_that_wait_for_other_ranks_grow_the_manager_up_to_a_budget() {
    let suite = Suite::new();
    suite.start_daemon();
    // 800 MiB. The other rank waits in a fence.
    let steps = ["0", "connect", "construct=100", "stay"];
    let job = suite.ranks(2, "t-raw-pmix", &steps).deadline(60).start();
    let used = grown_to(&suite, &job, "construct");
    assert!(used < 64 + 64, "{used} MiB");
    assert!(job.stdout().contains("construct stuck\n"), "{}", job.stdout());
    job.send(Signal::SIGTERM);
    let output = job.wait();
    output.failed().says(&["rank 0: its PMIx requests wait for answers and take 64 MiB"]);
    suite.only_the_daemon_is_left();
}

#[test]
fn texts_that_the_user_does_not_read_grow_the_manager_up_to_a_budget() {
    let suite = Suite::new();
    suite.start_daemon();
    let (mut unread, stderr) = pipe().expect("a pipe");
    // 400 MiB.
    let steps = ["0", "connect", "log=100000", "stay"];
    let job = suite.ranks(1, "t-raw-pmix", &steps).deadline(60).stderr(stderr).start();
    let used = grown_to(&suite, &job, "log");
    assert!(used < 64 + 64, "{used} MiB");
    let reader = std::thread::spawn(move || unread.read_to_end(&mut Vec::new()));
    job.send(Signal::SIGTERM);
    job.wait().failed();
    drop(reader.join().expect("it reads"));
    suite.only_the_daemon_is_left();
}
