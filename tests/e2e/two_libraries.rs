//! Programs of MPICH and of Open MPI in one world. Where a library is missing, the tests give a line.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::open_mpi::versions;
use crate::suite::Suite;

/// `hello` of MPICH.
fn hello_of_mpich() -> Option<String> {
    let programs = setting("MPD_TEST_MPICH4_DIR");
    if programs.is_none() {
        skip("MPICH 4 is not there");
    }
    Some(format!("{}/hello", programs?))
}

/// The arguments for a world of two ranks of MPICH and two of Open MPI. A shell hides what they are linked with.
fn world(mpich: &str, open_mpi: &str) -> Vec<String> {
    let words = ["-n", "2", "sh", "-c", "$0", mpich, ":", "-n", "2", "sh", "-c", "$0", open_mpi];
    words.map(str::to_owned).to_vec()
}

#[test]
fn programs_that_are_linked_with_two_mpi_libraries_are_refused_before_the_start() {
    let Some(mpich) = hello_of_mpich() else { return };
    let suite = Suite::new();
    for version in versions() {
        let open_mpi = version.program("hello").display().to_string();
        let output = suite.mpirun(["-n", "2", &mpich, ":", &open_mpi]).output();
        output.code(125).says(&["rank 0 is linked with MPICH", "rank 2 with Open MPI"]);
        assert_eq!(output.out(), "", "{output}");
    }
    suite.gone(&[]);
}

#[test]
fn ranks_that_turn_out_to_use_two_mpi_libraries_end_the_job() {
    let Some(mpich) = hello_of_mpich() else { return };
    for version in versions() {
        let suite = Suite::new();
        suite.start_daemon();
        let open_mpi = version.program("hello").display().to_string();
        let output = suite.mpirun(world(&mpich, &open_mpi)).deadline(60).output();
        output.code(125).says(&["uses Open MPI", "uses MPICH, Intel MPI or MVAPICH"]);
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn ranks_of_two_mpi_libraries_on_different_hosts_end_the_job() {
    let Some(mpich) = hello_of_mpich() else { return };
    let ring = Members::of(2);
    for version in versions() {
        let open_mpi = version.program("hello").display().to_string();
        let arguments =
            [vec!["-ppn".to_owned(), "2".to_owned()], world(&mpich, &open_mpi)].concat();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = ring.mpirun(1, &arguments).deadline(60).output();
        output.code(125).says(&["uses Open MPI", "uses MPICH, Intel MPI or MVAPICH"]);
        ring.only_daemons_are_left();
    }
}
