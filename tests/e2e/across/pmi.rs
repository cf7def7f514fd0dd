//! PMI key-value space and fences of ranks on many hosts.

use crate::across::ring;
use crate::pmi::UNUSUAL;
use crate::run::sample;

#[test]
fn a_key_put_on_one_host_is_readable_on_all_hosts_after_a_fence() {
    let ring = ring();
    for (ranks, keys) in [("4", "1"), ("8", "40"), ("64", "3")] {
        let arguments =
            ["-rr", "-n", ranks, &ring.suite.program("t-pmi"), "put-fence-get-all", keys];
        let output = ring.mpirun(1, &arguments).deadline(60).output();
        output.code(0);
        let ranks: usize = ranks.parse().expect("a number");
        assert_eq!(output.out().matches("pmi ok ").count(), ranks, "{output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn many_fences_in_sequence_complete_on_many_hosts() {
    let ring = ring();
    let output = ring.ranks(8, "t-pmi", &["fences", sample("100", "5000")]).deadline(120).output();
    output.code(0).quiet();
    assert_eq!(output.out().matches("fences ok ").count(), 8, "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn fences_of_groups_complete_within_and_across_hosts_and_exchange_their_keys() {
    let ring = ring();
    for options in [&["-n", "8"][..], &["-rr", "-n", "8"], &["-hosts", "d1", "-n", "4"]] {
        let helper = ring.suite.program("t-pmi");
        let arguments = [&*helper, "groups", sample("30", "500")];
        let output = ring.mpirun(1, options).args(arguments).deadline(120).output();
        output.code(0);
        let ranks: usize = options.last().expect("a number").parse().expect("a number");
        assert_eq!(output.out().matches("groups ok ").count(), ranks, "{output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn values_of_any_kind_and_repeated_inits_work_across_hosts() {
    let ring = ring();
    for (mode, said) in UNUSUAL {
        let output = ring.ranks(8, "t-pmi", &[mode]).output();
        output.code(0);
        assert_eq!(output.out().matches(said).count(), 8, "{mode}: {output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn ranks_on_many_hosts_exchange_keys_with_pmi_2() {
    let ring = ring();
    for (mode, said) in
        [("put-fence-get-all", "pmi2 ok "), ("ring", "ring ok "), ("mixed", "mixed ok ")]
    {
        let output = ring.ranks(8, "t-pmi2", &[mode, "3"]).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches(said).count(), 8, "{mode}: {output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn the_process_mapping_shows_which_ranks_share_a_host() {
    let ring = ring();
    let helper = ring.suite.program("t-pmi");
    for (options, mapping) in [
        (&["-n", "8"][..], "(vector,(0,4,2))"),
        (&["-rr", "-n", "8"], "(vector,(0,4,1),(0,4,1))"),
        (&["-hosts", "d2,d3", "-n", "4"], "(vector,(0,2,2))"),
        (&["-hosts", "d1", "-n", "2"], "(vector,(0,1,2))"),
    ] {
        let output = ring.mpirun(1, options).args([&helper, "mapping"]).output();
        output.code(0).quiet();
        for line in output.out().lines() {
            assert_eq!(line, format!("mapping {mapping}"), "{options:?}: {output}");
        }
    }
    ring.only_daemons_are_left();
}

#[test]
fn a_rank_that_exits_while_the_others_are_in_a_fence_ends_the_job() {
    let ring = ring();
    for rank in ["0", "3", "6"] {
        let host = format!("host d{}", rank.parse::<usize>().expect("a number") / 2 + 1);
        let named = [host.as_str(), &format!("rank {rank}")];
        ring.ranks(8, "t-pmi", &["leave", rank, "0"]).output().code(1).says(&named).brief();
        ring.ranks(8, "t-pmi", &["no-finalize", rank, "0"]).output().code(1).says(&named).brief();
        ring.ranks(8, "t-pmi", &["no-finalize", rank, "9"]).output().code(9).says(&named).brief();
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_pmi_abort_on_any_host_ends_all_ranks_with_its_code() {
    let ring = ring();
    for (rank, asked, code) in [("1", "7", 7), ("2", "0", 1), ("5", "256", 1), ("7", "-1", 255)] {
        let host = format!("host d{}", rank.parse::<usize>().expect("a number") / 2 + 1);
        let output = ring.ranks(8, "t-pmi", &["abort", rank, asked]).output();
        output.code(code).says(&[&host, &format!("rank {rank}"), "abort"]).brief();
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_rank_that_sends_invalid_pmi_lines_ends_only_its_own_job() {
    let ring = ring();
    let (others, other) = ring.recorders(8, &[], "other");
    for mode in ["garbage", "huge-line"] {
        let output = ring.ranks(8, "t-pmi", &[mode, "5"]).output();
        output.failed().says(&["host d3", "rank 5"]);
    }
    others.stop();
    other.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn jobs_on_the_same_hosts_do_not_see_each_others_keys() {
    let ring = ring();
    let jobs: Vec<_> = (0..6)
        .map(|at| {
            let arguments = ["-n", "8", &ring.suite.program("t-pmi"), "put-fence-get-all", "8"];
            ring.mpirun(at % 4 + 1, &arguments).deadline(60).start()
        })
        .collect();
    for job in jobs {
        job.wait().code(0).quiet();
    }
    ring.only_daemons_are_left();
}
