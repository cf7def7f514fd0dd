//! Many ranks on one host.

use nix::sys::signal::Signal;

use crate::run::{sample, wait_until};
use crate::suite::Suite;

#[test]
fn hundreds_of_ranks_pass_a_fence_after_ctrl_c_and_end_with_nothing_left() {
    let ranks = sample(300, 4000);
    let suite = Suite::new();
    suite.start_daemon();
    let job = suite.ranks(ranks, "t-pmi", &["interrupted"]).deadline(120).start();
    wait_until("all ranks are ready", || job.stdout().matches("ready").count() == ranks);
    job.send(Signal::SIGINT);
    let output = job.wait();
    output.code(0).quiet();
    assert_eq!(output.out().matches("saved").count(), ranks, "{output}");
    suite.only_the_daemon_is_left();
}

#[test]
fn hundreds_of_sleeping_ranks_end_at_ctrl_c_with_nothing_left() {
    let ranks = sample(300, 4000);
    let suite = Suite::new();
    suite.start_daemon();
    let script = "echo ready; sleep 600";
    let job = suite.mpirun(["-n", &ranks.to_string(), "sh", "-c", script]).deadline(120).start();
    wait_until("all ranks are ready", || job.stdout().matches("ready").count() == ranks);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.only_the_daemon_is_left();
}
