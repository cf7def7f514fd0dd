//! Clients of PMI and of PMIx in one world. Without a bare client of PMIx, the tests give a line.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::suite::Suite;

/// The bare client of PMIx.
fn client() -> Option<String> {
    let programs = setting("MPD_TEST_PMIX_DIR");
    if programs.is_none() {
        skip("no client of PMIx");
    }
    Some(format!("{}/pmix_client", programs?))
}

/// The programs of a world: three ranks of PMIx, then three of PMI.
fn world(suite: &Suite, client: &str) -> Vec<String> {
    let pmi = suite.program("t-pmi");
    let words = ["-n", "3", client, "mixed", "3", ":", "-n", "3", &pmi, "mixed", "3"];
    words.map(str::to_owned).to_vec()
}

#[test]
fn clients_of_pmi_and_of_pmix_fence_together_and_read_each_others_keys() {
    let Some(client) = client() else { return };
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite.mpirun(world(&suite, &client)).deadline(60).output();
    output.code(0).quiet().prints(&"mixed ok\n".repeat(6));
    suite.only_the_daemon_is_left();
}

#[test]
fn clients_of_pmi_and_of_pmix_on_several_hosts_read_each_others_keys() {
    let Some(client) = client() else { return };
    let ring = Members::of(3);
    let arguments = [vec!["-rr".to_owned()], world(&Suite::new(), &client)].concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = ring.mpirun(1, &arguments).deadline(60).output();
    output.code(0).quiet().prints(&"mixed ok\n".repeat(6));
    ring.only_daemons_are_left();
}
