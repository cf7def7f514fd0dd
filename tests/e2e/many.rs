//! Many ranks on one host, and their shares of the CPUs.

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getsid};

use crate::process::Process;
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

#[test]
fn ranks_with_sessions_of_their_own_are_stopped_by_mpdsigjob_like_others() {
    let suite = Suite::new();
    suite.start_daemon();
    // The subshells do not handle SIGTSTP, and neither do their parents.
    let script = "echo ready $$; (sleep 600); true";
    let job = suite.mpirun(["-n", "2", "-a", "held", "sh", "-c", script]).start();
    wait_until("both ranks are ready", || job.stdout().matches("ready").count() == 2);
    let pids: Vec<i32> =
        job.stdout().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let shared = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if !shared.is_ok_and(|text| text.starts_with('1')) {
        let session = |pid: &i32| getsid(Some(Pid::from_raw(*pid)));
        assert!(pids.iter().all(|pid| session(pid) == session(&suite.manager().pid)));
    }
    let group = |pid: &i32| getpgid(Some(Pid::from_raw(*pid)));
    assert!(pids.iter().all(|pid| group(pid) == Ok(Pid::from_raw(*pid))), "each leads a group");
    let everything = || -> Vec<Process> {
        let ranks = pids.iter().filter_map(|pid| Process::read(*pid));
        ranks.flat_map(|rank| rank.children().into_iter().chain([rank])).collect()
    };
    wait_until("the children of both run", || everything().len() == 4);
    let signal = |name: &str| {
        suite
            .command(suite.program("mpdsigjob"))
            .args([name, "-a", "held"])
            .output()
            .code(0)
            .quiet();
    };
    signal("TSTP");
    wait_until("all have stopped", || everything().iter().all(Process::is_stopped));
    signal("CONT");
    wait_until("all continue", || !everything().iter().any(Process::is_stopped));
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.only_the_daemon_is_left();
}
