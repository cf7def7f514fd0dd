//! The bare PMIx client `tests/pmix/pmix_client.c`, without an MPI library, under `mpirun` on two hosts. Without it, a
//! test gives a line.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::run::{Run, wait_until};
use crate::suite::Suite;

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

#[test]
fn names_of_clients_have_their_range_and_long_values_and_are_read_once_if_they_ask_for_it() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    run(&ring, &client, 4, &["names"]).output().code(0).quiet().prints("names ok\n");
    wait_until("no name is left", || names(&ring).is_empty());
    ring.only_daemons_are_left();
}

#[test]
fn a_spawned_client_learns_the_rank_that_has_spawned_it() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    run(&ring, &client, 3, &["parent"]).output().code(0).quiet().prints("parent 2\n");
    ring.only_daemons_are_left();
}

/// The listing of all names, by the second daemon.
fn names(ring: &Members) -> String {
    let listing = ring.suite.command(ring.suite.program("mpdnames"));
    listing.env("MPD_RUNDIR", ring.rundir(2)).output().code(0).out()
}

/// Values of `pmix_persistence_t`.
const INDEFINITE: &str = "0";
const SESSION: &str = "4";

#[test]
fn an_indefinite_name_stays_until_another_job_unpublishes_it() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    let on = |index: usize, arguments: &[&str]| {
        let run = ring.mpirun(index, &["-n", "1", &client]).args(arguments).deadline(120);
        run.output()
    };
    on(1, &["publish", SESSION, "brief", "x"]).code(0).quiet();
    on(1, &["publish", INDEFINITE, "lasting", "port 7"]).code(0).quiet();
    wait_until("one name is left", || {
        let names = names(&ring);
        names.contains("lasting") && !names.contains("brief")
    });
    on(2, &["publish", INDEFINITE, "lasting", "port 8"]).code(1).says(&["publish"]);
    on(2, &["lookup", "lasting"]).code(0).prints("port 7\n");
    on(2, &["unpublish", "lasting"]).code(0).quiet();
    on(2, &["lookup", "lasting"]).code(0).prints("nothing\n");
    assert_eq!(names(&ring), "");
    ring.only_daemons_are_left();
}

#[test]
fn an_indefinite_name_is_refused_without_a_ring() {
    let Some(client) = client() else { return };
    let suite = Suite::new();
    let run = suite.mpirun(["-n", "1", &client, "publish", INDEFINITE, "lasting", "x"]);
    run.deadline(120).output().code(1).says(&["publish: NOT-SUPPORTED"]);
}

#[test]
fn variables_that_a_spawn_names_reach_the_spawned_process_whatever_their_family_is() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    run(&ring, &client, 1, &["dynamic"]).output().code(0).quiet().prints("dynamic ok\n");
    // Parameters of the library in the environment of mpirun pass too.
    let script = "echo $PMIX_MCA_mine $PMIX_RANK";
    let run = ring.mpirun(1, &["-n", "1", "sh", "-c", script]).env("PMIX_MCA_mine", "1");
    run.env("PMIX_RANK", "77").output().code(0).prints("1 0\n");
    ring.only_daemons_are_left();
}

#[test]
fn a_chain_of_spawns_ends_at_its_bound() {
    let Some(client) = client() else { return };
    let suite = Suite::new();
    suite.start_daemon();
    let run = suite.mpirun(["-spawn-depth", "3", "-n", "1", &client, "chain"]);
    let output = run.deadline(120).output();
    output.code(0).says(&["the chain of spawns has 3 worlds", "-spawn-depth"]);
    assert_eq!(output.out(), "chain ends\n", "{output}");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_group_of_some_ranks_is_destructed_by_a_client_that_names_no_members() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    let output = run(&ring, &client, 3, &["group"]).output();
    output.code(0).quiet().prints("group ok\ngroup ok\n");
    ring.only_daemons_are_left();
}

#[test]
fn a_get_of_a_key_that_a_rank_does_not_offer_returns() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    // Rank 0 has one rank beside it and one on the other host, which may commit again.
    let output = run(&ring, &client, 3, &["missing"]).output();
    let out = output.code(0).quiet().out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert!(lines.iter().all(|line| line.starts_with("NOT-FOUND ")), "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn a_get_from_a_rank_of_another_host_that_commits_nothing_ends_by_its_timeout_or_with_the_rank() {
    let Some(client) = client() else { return };
    let ring = Members::of(2);
    let output = run(&ring, &client, 2, &["silent"]).output();
    output.code(0).quiet().prints("TIMEOUT\nNOT-FOUND\n");
    ring.only_daemons_are_left();
}

#[test]
fn queries_answer_what_is_known_and_groups_with_leaders_are_refused() {
    let Some(client) = client() else { return };
    let suite = Suite::new();
    let on = |mode: &str| suite.mpirun(["-n", "1", &client, mode]).deadline(120).output();
    on("query").code(0).quiet().prints("answers: 1\nanswers: 0\n");
    on("bootstrap").code(0).quiet().prints("NOT-SUPPORTED\n");
}

#[test]
fn a_tool_of_pmix_gets_an_error_and_prints_no_other() {
    let Some(client) = client() else { return };
    let suite = Suite::new();
    let output = suite.mpirun(["-n", "1", &client, "tool"]).deadline(120).output();
    output.code(0).quiet();
    assert!(output.out().starts_with("tool: ") && !output.out().contains("SUCCESS"), "{output}");
}
