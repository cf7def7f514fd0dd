//! Programs of two MPI libraries in one world. Where a library is missing, the tests give a line.

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
        output.code(125).says(&["uses Open MPI", "uses MPICH 4.1 or earlier"]);
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
        output.code(125).says(&["uses Open MPI", "uses MPICH 4.1 or earlier"]);
        ring.only_daemons_are_left();
    }
}

/// The programs `hello` of MPICH 5 and of Intel MPI, each with the directory of its library.
fn hellos_of_mpich_5_and_intel() -> Option<[(String, String); 2]> {
    let found = ["MPICH5", "IMPI"].map(|name| {
        let directory = setting(&format!("MPD_TEST_{name}_DIR"))?;
        Some((format!("{directory}/hello"), setting(&format!("MPD_TEST_{name}_LIB"))?))
    });
    let [Some(mpich), Some(intel)] = found else {
        skip("MPICH 5 or Intel MPI is not there");
        return None;
    };
    Some([mpich, intel])
}

#[test]
fn two_relatives_of_mpich_in_one_world_are_refused_by_name_before_the_start() {
    let Some([(mpich_5, mpich_5_lib), (intel, intel_lib)]) = hellos_of_mpich_5_and_intel() else {
        return;
    };
    let suite = Suite::new();
    suite.start_daemon();
    let mpich_5_env = ["-n", "1", "-env", "LD_LIBRARY_PATH", &mpich_5_lib];
    let mut others = vec![("Intel MPI", intel, intel_lib)];
    others.extend(hello_of_mpich().map(|mpich_4| ("MPICH 4.1 or earlier", mpich_4, String::new())));
    for (name, other, lib) in others {
        let other_env = [":", "-n", "1", "-env", "LD_LIBRARY_PATH", &lib];
        let seen = [&mpich_5_env[..], &[&mpich_5], &other_env, &[&other]].concat();
        let output = suite.mpirun(seen).output();
        output.code(125).says(&["rank 0 is linked with MPICH 4.2 or later", name]);
    }
    suite.only_the_daemon_is_left();
}

/// One rank of each program with its libraries. A shell hides what they are linked with.
fn behind_scripts(programs: [&(String, String); 2]) -> Vec<String> {
    let one = |(program, lib): &(String, String)| {
        let words = ["-n", "1", "-env", "LD_LIBRARY_PATH", lib, "sh", "-c", "$0", program];
        words.map(str::to_owned).to_vec()
    };
    let [first, second] = programs.map(one);
    [first, vec![":".to_owned()], second].concat()
}

#[test]
fn two_relatives_of_mpich_behind_scripts_end_the_job_in_either_order() {
    let Some([mpich_5, intel]) = hellos_of_mpich_5_and_intel() else { return };
    let mpich_4 = hello_of_mpich().map(|mpich_4| (mpich_4, String::new()));
    let suite = Suite::new();
    suite.start_daemon();
    for other in std::iter::once(&intel).chain(&mpich_4) {
        for programs in [[&mpich_5, other], [other, &mpich_5]] {
            let output = suite.mpirun(behind_scripts(programs)).deadline(60).output();
            output.code(125).says(&["uses MPICH 4.2 or later", "uses MPICH 4.1 or earlier"]);
            suite.only_the_daemon_is_left();
        }
    }
}

#[test]
fn open_mpi_4_and_5_in_one_world_are_refused_by_name_before_the_start_and_at_run_time() {
    let versions = versions();
    let of = |is_five| versions.iter().find(|version| version.is_five == is_five);
    let (Some(four), Some(five)) = (of(false), of(true)) else {
        return skip("Open MPI 4 or Open MPI 5 is not there");
    };
    let [four, five] = [four, five].map(|version| version.program("hello").display().to_string());
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite.mpirun(["-n", "1", &four, ":", "-n", "1", &five]).output();
    output
        .code(125)
        .says(&["rank 0 is linked with Open MPI 4 or earlier", "rank 1 with Open MPI 5 or later"]);
    let hidden = ["-n", "1", "sh", "-c", "$0", &four, ":", "-n", "1", "sh", "-c", "$0", &five];
    let output = suite.mpirun(hidden).deadline(60).output();
    output.code(125).says(&["uses Open MPI 4 or earlier", "uses Open MPI 5 or later"]);
    suite.only_the_daemon_is_left();
}
