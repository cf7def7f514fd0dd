//! PMI-1 as a client sees it on its descriptor.

use std::collections::BTreeSet;

use crate::suite::Suite;

/// Unusual modes of `t-pmi`, and the lines with which they report success.
pub(crate) const UNUSUAL: [(&str, &str); 5] = [
    ("again", "again ok "),
    ("odd-values", "odd ok "),
    ("index", "index ok "),
    ("chunks", "hello rank "),
    ("unknown", "unknown ok "),
];

#[test]
fn a_client_that_reads_no_answer_until_the_socket_is_full_gets_all_of_them() {
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite.ranks(1, "t-pmi", &["late-reader", "2000"]).output();
    output.code(0).quiet();
    assert_eq!(output.out(), "late ok\n");
}

#[test]
fn the_name_of_a_key_value_space_is_never_reused() {
    let suite = Suite::new();
    let name = || {
        let output = suite.ranks(1, "t-pmi", &["hello"]).output();
        output.code(0);
        names(&output.out()).pop_first().expect("a name")
    };
    let mut seen = BTreeSet::new();
    // Without a daemon, with a daemon, and with its successor.
    seen.extend((0..3).map(|_| name()));
    let daemon = suite.start_daemon();
    seen.extend((0..3).map(|_| name()));
    crate::process::send(daemon.pid, nix::sys::signal::Signal::SIGKILL);
    suite.start_daemon();
    seen.extend((0..3).map(|_| name()));
    assert_eq!(seen.len(), 9, "{seen:?}");
    assert!(seen.iter().all(|name| name.len() < 256), "{seen:?}");
}

#[test]
fn a_put_key_is_readable_by_all_ranks_after_a_fence() {
    let suite = Suite::new();
    suite.start_daemon();
    for (ranks, keys) in [(1, "1"), (2, "40"), (16, "4"), (64, "1")] {
        let output = suite.ranks(ranks, "t-pmi", &["put-fence-get-all", keys]).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches("pmi ok ").count(), ranks, "{output}");
    }
}

#[test]
fn each_argset_has_its_own_application_number() {
    let suite = Suite::new();
    let helper = suite.program("t-pmi");
    let arguments = ["-n", "2", &helper, "hello", ":", "-n", "1", &helper, "hello"];
    let output = suite.mpirun(arguments).output();
    output.code(0);
    let numbers: Vec<_> = output
        .sorted_lines()
        .iter()
        .map(|line| line.split(' ').nth(6).expect("a number").to_owned())
        .collect();
    assert_eq!(numbers, ["0", "0", "1"], "{output}");
}

#[test]
fn unusual_but_valid_pmi_clients_succeed() {
    let suite = Suite::new();
    suite.start_daemon();
    for (mode, said) in UNUSUAL {
        let output = suite.ranks(3, "t-pmi", &[mode]).output();
        output.code(0);
        assert_eq!(output.out().matches(said).count(), 3, "{mode}: {output}");
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_rank_that_closes_its_pmi_descriptor_continues_to_run() {
    let suite = Suite::new();
    let script = "eval \"exec $PMI_FD>&-\"; sleep 0.2; echo still here";
    let output = suite.mpirun(["-n", "2", "bash", "-c", script]).output();
    output.code(0).quiet().prints("still here\nstill here\n");
}

fn names(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| Some(line.split_once(" kvs ")?.1.to_owned())).collect()
}

#[test]
fn a_port_of_more_than_255_bytes_is_refused_with_a_reason() {
    let suite = Suite::new();
    suite.start_daemon();
    let port =
        |length: usize| format!("publish_name service=s{length} port={}", "p".repeat(length));
    let run = suite.ranks(1, "t-pmi", &["say", "0", &port(256), &port(255)]);
    let output = run.output();
    output.code(0).says(&["rank 0", "a port of 256 bytes, at most 255 are allowed"]);
    assert!(output.out().contains("cmd=publish_result rc=-1 msg=port_too_long\n"), "{output}");
    assert!(output.out().contains("cmd=publish_result rc=0 msg=success\n"), "{output}");
}

#[test]
fn without_auto_cleanup_a_failed_rank_is_only_reported_with_verbose() {
    let suite = Suite::new();
    suite.start_daemon();
    // The other ranks wait in a fence, which does not wait for the rank that has exited.
    let run = |options: &[&str]| {
        let run = suite.mpirun(["-disable-auto-cleanup", "-n", "3"]).args(options);
        run.arg(suite.program("t-pmi")).args(["no-finalize", "1", "0"]).output()
    };
    run(&[]).code(1).quiet();
    let verbose = run(&["-v"]);
    verbose.code(1).says(&["rank 1: exited with code 0 after MPI_Init without MPI_Finalize"]);
    assert!(!verbose.err().contains("the job was ended"), "{verbose}");
}

#[test]
fn without_auto_cleanup_an_early_exit_of_a_rank_gives_its_code() {
    let suite = Suite::new();
    suite.start_daemon();
    // A rank of MPICH ends like this if an aborted communicator is not the whole world.
    let run = suite.mpirun(["-disable-auto-cleanup", "-n", "4"]).arg(suite.program("t-pmi"));
    run.args(["no-finalize", "1", "8"]).output().code(8).quiet();
    suite.only_the_daemon_is_left();
}
