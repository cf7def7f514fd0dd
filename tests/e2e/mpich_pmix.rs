//! MPICH whose ranks speak PMIx, as in Ubuntu 24.04. `scripts/mpich-pmix` builds it; without it, a test gives a line.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::run::Run;
use crate::suite::Suite;

/// The directory of its programs.
fn programs() -> Option<String> {
    let directory = setting("MPD_TEST_MPICH_PMIX_DIR");
    if directory.is_none() {
        skip("MPICH with PMIx is not there; scripts/mpich-pmix builds it");
    }
    directory
}

/// A program on two hosts, which get ranks in turn. The hosts are one machine, so shared memory would mix them up.
fn run(ring: &Members, ranks: &str, program: &str, arguments: &[&str]) -> Run {
    let run = ring.mpirun(1, &["-rr", "-n", ranks, program]).args(arguments);
    run.env("FI_PROVIDER", "tcp").env("MPIR_CVAR_NOLOCAL", "1").deadline(120)
}

#[test]
fn ranks_of_mpich_with_pmix_form_one_world_on_several_hosts() {
    let Some(programs) = programs() else { return };
    let ring = Members::of(2);
    let output = run(&ring, "3", &format!("{programs}/hello"), &[]).output();
    let out = output.code(0).quiet().out();
    assert_eq!(out.matches(" of 3 appnum 0 universe ").count(), 3, "{output}");
    let output = run(&ring, "4", &format!("{programs}/allreduce"), &[]).output();
    output.code(0).prints("allreduce ok 4\n");
    ring.only_daemons_are_left();
}

#[test]
fn mpich_with_pmix_spawns_and_its_children_know_their_parent() {
    let Some(programs) = programs() else { return };
    let ring = Members::of(2);
    let output = run(&ring, "2", &format!("{programs}/spawn"), &["one", "3"]).output();
    let out = output.code(0).out();
    assert!(out.contains("spawn: 5 together\n"), "{output}");
    assert_eq!(out.lines().filter(|line| line.starts_with("child ")).count(), 3, "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn two_mpiruns_of_mpich_with_pmix_meet_by_a_published_name() {
    let Some(programs) = programs() else { return };
    let suite = Suite::new();
    suite.start_daemon();
    let meet = |how: &str| {
        let run = suite.mpirun(["-n", "2", &format!("{programs}/meet"), how, "ocean"]);
        run.env("FI_PROVIDER", "tcp").deadline(120).start()
    };
    for job in [meet("publish"), meet("lookup")] {
        let output = job.wait();
        assert_eq!(output.code(0).out(), "meet: 4 together\n", "{output}");
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_dry_run_names_mpich_with_pmix_as_mpich() {
    let Some(programs) = programs() else { return };
    let suite = Suite::new();
    let output = suite.mpirun(["-dry-run", "-n", "2", &format!("{programs}/hello")]).output();
    assert!(output.code(0).out().contains("MPI library: MPICH (libmpi"), "{output}");
}
