//! Standard input of jobs on many hosts.

use std::io::Write;

use mpd_tests::digest::{Digest, block};
use nix::sys::signal::Signal;

use crate::across::{MOST_KIB, ring, settled};
use crate::run::{sample, wait_until};

/// Some megabytes, and their checksum.
fn megabytes(blocks: u64) -> (Vec<u8>, Digest) {
    let bytes: Vec<u8> = (0..blocks).flat_map(block).collect();
    let mut digest = Digest::default();
    digest.add(&bytes);
    (bytes, digest)
}

#[test]
fn input_reaches_exactly_the_chosen_ranks_on_any_host() {
    let ring = ring();
    let table: [(&str, &[usize]); 6] = [
        ("all", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("5", &[5]),
        ("2-3", &[2, 3]),
        ("0,3,7", &[0, 3, 7]),
        ("none", &[]),
        ("0", &[0]),
    ];
    for (spec, receivers) in table {
        let arguments = ["-s", spec, "-n", "8", &ring.suite.program("t-stdin"), "lines"];
        let output = ring.mpirun(1, &arguments).input("one\ntwo\n").output();
        output.code(0).quiet();
        let mut expected: Vec<_> = (0..8).map(|rank| format!("{rank} end")).collect();
        for word in ["one", "two"] {
            expected.extend(receivers.iter().map(|rank| format!("{rank} got {word}")));
        }
        expected.sort_unstable();
        assert_eq!(output.sorted_lines(), expected, "-s {spec}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn megabytes_of_input_reach_one_rank_or_all_ranks_of_other_hosts_unchanged() {
    let ring = ring();
    let (bytes, digest) = megabytes(sample(200, 10_000));
    for (spec, receivers) in [("6", 6..7), ("all", 0..8)] {
        let arguments = ["-s", spec, "-n", "8", &ring.suite.program("t-stdin"), "sum"];
        let output = ring.mpirun(1, &arguments).input(bytes.clone()).deadline(120).output();
        output.code(0).quiet();
        let nothing = Digest::default();
        let expected: Vec<_> = (0..8)
            .map(|rank| {
                format!("{rank}: {}", if receivers.contains(&rank) { digest } else { nothing })
            })
            .collect();
        assert_eq!(output.sorted_lines(), expected, "-s {spec}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn each_typed_line_reaches_a_rank_on_another_host_at_once() {
    let ring = ring();
    let arguments = ["-s", "7", "-n", "8", &ring.suite.program("t-stdin"), "lines"];
    let mut job = ring.mpirun(1, &arguments).input_pipe().start();
    let mut stdin = job.stdin();
    for word in ["first", "second", "third"] {
        stdin.write_all(format!("{word}\n").as_bytes()).expect("a pipe");
        job.shows(&format!("7 got {word}\n"));
    }
    drop(stdin);
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_rank_that_never_reads_its_input_neither_delays_the_end_nor_grows_managers() {
    let ring = ring();
    let arguments = ["-s", "all", "-n", "8", &ring.suite.program("t-stdin"), "never", "60"];
    let mut job = ring.mpirun(1, &arguments).input_pipe().start();
    for rank in 0..8 {
        job.shows(&format!("{rank} ready\n"));
    }
    let mut stdin = job.stdin();
    let feeder = std::thread::spawn(move || {
        let bytes = vec![b'x'; 1 << 20];
        while stdin.write_all(&bytes).is_ok() {}
    });
    let mut processes: Vec<_> = (1..=4).map(|index| ring.manager(index)).collect();
    processes.push(job.process());
    for (process, (_, own)) in processes.iter().zip(settled(&processes)) {
        assert!(own <= MOST_KIB, "{own} KiB: {process}");
    }
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    feeder.join().expect("the feeder ends");
    ring.only_daemons_are_left();
}

#[test]
fn a_rank_that_closes_its_input_or_exits_delays_input_of_no_other_host() {
    let ring = ring();
    let (bytes, digest) = megabytes(64);
    let helper = ring.suite.program("t-stdin");
    for way in ["close", "exit"] {
        for (leaver, reader) in [("d2", "d4"), ("d1", "d3"), ("d3", "d1")] {
            let first = ["-s", "all", "-n", "1", "-host", leaver, &helper, way, "1", ":"];
            let second = ["-n", "1", "-host", reader, &helper, "sum"];
            let output = ring.mpirun(1, &first).args(second).input(bytes.clone()).output();
            output.code(0).quiet();
            assert!(
                output.out().contains(&format!("1: {digest}\n")),
                "{way} on {leaver}: {output}"
            );
        }
    }
    ring.only_daemons_are_left();
}

#[test]
fn without_input_every_rank_reads_end_of_file() {
    let ring = ring();
    let arguments = ["-s", "all", "-n", "8", &ring.suite.program("t-stdin"), "lines"];
    let output = ring.mpirun(1, &arguments).output();
    output.code(0).quiet();
    let expected: Vec<_> = (0..8).map(|rank| format!("{rank} end")).collect();
    assert_eq!(output.sorted_lines(), expected);
    ring.only_daemons_are_left();
}

#[test]
fn an_endless_input_does_not_delay_the_end_of_a_job_of_many_hosts() {
    let ring = ring();
    for spec in ["3", "all"] {
        let arguments = ["-s", spec, "-n", "8", "true"];
        let mut job = ring.mpirun(1, &arguments).input_pipe().start();
        let mut stdin = job.stdin();
        let feeder = std::thread::spawn(move || while stdin.write_all(&[b'y'; 4096]).is_ok() {});
        wait_until("the job is over", || job.has_ended());
        // A line may name the input that was not read.
        job.wait().code(0);
        feeder.join().expect("the feeder ends");
    }
    ring.only_daemons_are_left();
}
