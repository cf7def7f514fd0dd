//! More hosts than one manager has children: the job tree has two levels.

use std::io::Write;

use nix::sys::signal::Signal;

use crate::across::roomy;
use crate::members::Members;
use crate::process::Process;
use crate::run::{sample, wait_until};

/// More than the fan-out of the tree plus its root.
const HOSTS: usize = 20;

fn large() -> Members {
    roomy().with(HOSTS)
}

/// `count` ranks on all hosts.
fn arguments(count: usize) -> [String; 4] {
    let each = count.div_ceil(HOSTS).to_string();
    ["-ppn".to_owned(), each, "-n".to_owned(), count.to_string()]
}

#[test]
fn fences_output_input_and_signals_pass_through_all_levels_of_the_tree() {
    let ring = large();
    let one_each = arguments(HOSTS);
    let one_each: Vec<&str> = one_each.iter().map(String::as_str).collect();
    let helper = |name: &str| ring.suite.program(name);
    for mode in [["put-fence-get-all", "3"], ["fences", sample("20", "1000")]] {
        let output = ring.mpirun(1, &one_each).arg(helper("t-pmi")).args(mode).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches(" ok ").count(), HOSTS, "{output}");
    }
    let script = "echo same; echo rank $PMI_RANK";
    let output = ring.mpirun(1, &one_each).args(["-m", "sh", "-c", script]).output();
    output.code(0).quiet();
    let mut expected: Vec<_> = (0..HOSTS).map(|rank| format!("{rank}: rank {rank}")).collect();
    expected.push(format!("0-{}: same", HOSTS - 1));
    expected.sort_unstable();
    assert_eq!(output.sorted_lines(), expected, "{output}");
    let run = ring.mpirun(1, &one_each).args(["-s", "0,18-19"]).arg(helper("t-stdin"));
    let mut job = run.arg("lines").input_pipe().start();
    let mut stdin = job.stdin();
    stdin.write_all(b"word\n").expect("a pipe");
    job.shows("0 got word\n").shows("18 got word\n").shows("19 got word\n");
    drop(stdin);
    let output = job.wait();
    output.code(0).quiet();
    assert_eq!(output.out().matches(" got ").count(), 3, "{output}");
    let (recorders, job) = ring.recorders(HOSTS, &["-ppn", "1"], "d");
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    job.send(Signal::SIGTSTP);
    wait_until("all have stopped", || {
        recorders.processes().iter().all(Process::is_stopped) && job.process().is_stopped()
    });
    job.send(Signal::SIGCONT);
    wait_until("all continue", || !recorders.processes().iter().any(Process::is_stopped));
    assert!(recorders.ranks_got().iter().all(|got| got["SIGUSR1"] == 1));
    job.send(Signal::SIGINT);
    job.wait().code(130);
    ring.only_daemons_are_left();
}

#[test]
fn a_large_environment_and_many_arguments_reach_every_host() {
    let ring = large();
    let mut run = ring.mpirun(1, &[]).args(arguments(HOSTS));
    for number in 0..12 {
        run = run.env(format!("LARGE_{number}"), "x".repeat(100_000));
    }
    let run = run.args(["sh", "-c", "echo ${#LARGE_0} ${#LARGE_11} $#", "sh"]);
    let output = run.args((0..5_000).map(|number| number.to_string())).output();
    output.code(0).quiet();
    assert_eq!(output.out(), "100000 100000 5000\n".repeat(HOSTS));
    ring.only_daemons_are_left();
}
