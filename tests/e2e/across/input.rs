//! Standard input of jobs on many hosts.

use std::io::Write;

use mpd_tests::digest::{Digest, block};

use crate::across::ring;
use crate::run::sample;

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
