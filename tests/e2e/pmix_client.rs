//! The bare PMIx client `tests/pmix/pmix_client.c`, without an MPI library, under `mpirun` on two hosts. Without it, a
//! test gives a line.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::run::Run;

/// The path of the client, if it is there.
fn client() -> Option<String> {
    let directory = setting("MPD_TEST_PMIX_DIR");
    if directory.is_none() {
        skip("the bare client of PMIx is not there");
    }
    directory.map(|directory| format!("{directory}/pmix_client"))
}

/// The client as ranks that the hosts get in turn.
fn run(ring: &Members, client: &str, ranks: usize, arguments: &[&str]) -> Run {
    let ranks = ranks.to_string();
    ring.mpirun(1, &["-rr", "-n", &ranks, client]).args(arguments).deadline(120)
}

#[test]
fn events_of_clients_reach_the_processes_of_their_range_once_and_in_one_order() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    run(&ring, &client, 4, &["events"]).output().code(0).quiet().prints("events ok\n");
    ring.only_daemons_are_left();
}

#[test]
fn a_late_client_gets_the_last_events_and_mpirun_reports_missing_ones() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    let output = run(&ring, &client, 4, &["late", "1000"]).output();
    output.code(0).quiet().prints("late 1000 of 1000\n");
    let output = run(&ring, &client, 4, &["late", "1100"]).output();
    output.code(0).says(&["rank 3", "misses events"]).prints("late 1024 of 1100\n");
    ring.only_daemons_are_left();
}
