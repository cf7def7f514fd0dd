//! A stopped `mpirun` while ranks of four hosts write without end.

use std::io::Read;

use mpd_tests::lines::{Lines, Stream};
use nix::sys::signal::Signal;

use crate::across::{MOST_KIB, ring, settled};
use crate::output::check_stream;
use crate::process::Process;
use crate::run::{sample, wait_until};

const RANKS: usize = 64;

#[test]
fn a_stopped_reader_grows_no_manager_and_signals_still_arrive() {
    let ring = ring();
    let arguments =
        ["-ppn", "16", "-n", "64", &ring.suite.program("t-flood"), "tick", "seconds=300"];
    let mut job = ring.mpirun(1, &arguments).start_unread();
    let pipe = job.take_stdout();
    let ticked = |number: usize| {
        let text = job.stderr();
        (0..RANKS).all(|rank| text.contains(&format!("tick {rank} {number}\n")))
    };
    wait_until("the first ticks of all ranks", || ticked(5));
    let mut processes: Vec<Process> = (1..=4).map(|index| ring.manager(index)).collect();
    processes.extend((1..=4).map(|index| ring.process(index)));
    processes.push(job.process());
    let before: Vec<u64> = processes.iter().map(Process::peak_kib).collect();
    let last = sample(60, 600);
    for number in (20..=last).step_by(20) {
        wait_until("errors flow on", || ticked(number));
    }
    for (process, before) in processes.iter().zip(before) {
        let peak = process.peak_kib();
        assert!(peak <= MOST_KIB, "{peak} KiB: {process}");
        assert!(peak <= before + 2048, "grown from {before} to {peak} KiB: {process}");
    }
    job.send(Signal::SIGINT);
    let output = job.wait();
    drop(pipe);
    output.code(130);
    ring.only_daemons_are_left();
}

#[test]
fn a_stopped_mpirun_and_reader_receive_every_byte_after_sigcont() {
    let ring = ring();
    let (count, max) = (sample(60, 500), 60_000);
    let arguments = [count.to_string(), max.to_string(), "out".to_owned()];
    let run = ring.mpirun(1, &["-ppn", "16", "-n", "64", &ring.suite.program("t-lines"), "41"]);
    let mut job = run.args(arguments).deadline(120).start_unread();
    let mut pipe = job.take_stdout();
    let asleep = || {
        let writers = ring.suite.running("t-lines");
        !writers.is_empty() && writers.iter().all(|process| process.state == 'S')
    };
    wait_until("the first writers", || !ring.suite.running("t-lines").is_empty());
    job.send(Signal::SIGSTOP);
    wait_until("mpirun has stopped", || job.process().is_stopped());
    wait_until("writers that sleep", || (0..20).all(|_| asleep()));
    let managers: Vec<Process> = (1..=4).map(|index| ring.manager(index)).collect();
    for (manager, (_, own)) in managers.iter().zip(settled(&managers)) {
        assert!(own <= MOST_KIB, "{own} KiB: {manager}");
    }
    job.send(Signal::SIGCONT);
    let mut bytes = Vec::new();
    Read::read_to_end(&mut pipe, &mut bytes).expect("a pipe");
    job.wait().code(0).quiet();
    check_stream(&bytes, RANKS, false, |rank| Lines::new(41, rank, Stream::Out, max), count);
    ring.only_daemons_are_left();
}

#[test]
fn a_stopped_mpirun_delays_neither_fences_nor_exits_of_ranks() {
    let ring = ring();
    let arguments = ["fences", sample("400", "5000")];
    let job = ring.ranks(8, "t-pmi", &arguments).deadline(120).start();
    wait_until("all ranks", || ring.suite.running("t-pmi").len() == 8);
    job.send(Signal::SIGSTOP);
    wait_until("the ranks have met and ended", || ring.suite.running("t-pmi").is_empty());
    job.send(Signal::SIGCONT);
    let output = job.wait();
    output.code(0).quiet();
    assert_eq!(output.out().matches("fences ok ").count(), 8, "{output}");
    ring.only_daemons_are_left();
}
