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
