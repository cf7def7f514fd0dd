//! Real MPI libraries whose ranks communicate over the network.

use crate::across::ring;
use crate::members::Members;
use crate::mpi::{Library, libraries};

/// Runs a check with each installed library, on its own ring.
fn with_each(check: impl Fn(&Members, &Library)) {
    for library in libraries() {
        let ring = ring();
        check(&ring, &library);
        ring.only_daemons_are_left();
    }
}

/// A program of the library without shared memory, because the hosts of the test are one machine.
fn run(ring: &Members, library: &Library, ranks: &str, arguments: &[&str]) -> crate::run::Run {
    let [program, arguments @ ..] = arguments else { panic!("no program") };
    let run = ring.mpirun(1, &["-n", ranks]).arg(library.program(program)).args(arguments);
    let run = library.dress(run).env("MPIR_CVAR_NOLOCAL", "1").env("I_MPI_FABRICS", "ofi");
    run.env("FI_PROVIDER", "tcp").deadline(300)
}

#[test]
fn mpi_ranks_of_four_hosts_agree_on_a_sum() {
    with_each(|ring, library| {
        for ranks in ["2", "8", "16"] {
            let output = run(ring, library, ranks, &["allreduce"]).output();
            output.code(0);
            let said = format!("allreduce ok {ranks}\n");
            assert!(output.out().contains(&said), "{}: {output}", library.name);
        }
    });
}

#[test]
fn every_rank_of_an_mpi_library_knows_its_rank_and_host_on_four_hosts() {
    with_each(|ring, library| {
        let output = run(ring, library, "8", &["hello"]).output();
        output.code(0);
        let lines = output.sorted_lines();
        assert_eq!(lines.len(), 8, "{}: {output}", library.name);
        for (rank, line) in lines.iter().enumerate() {
            assert!(line.starts_with(&format!("rank {rank} of 8 appnum 0 ")), "{output}");
        }
    });
}

#[test]
fn exit_codes_and_signals_of_mpi_ranks_on_other_hosts_are_reported_exactly() {
    with_each(|ring, library| {
        run(ring, library, "8", &["abort", "5", "7"]).output().code(7).says(&["d3", "rank 5"]);
        let left = run(ring, library, "8", &["nofinalize", "6", "0"]).output();
        left.failed();
        // Another rank may first fail because it cannot reach the rank that exited.
        if left.err().contains("rank 6:") {
            left.code(1).says(&["d4", "MPI_Finalize"]);
        }
        run(ring, library, "8", &["exit_after", "3", "9"]).output().code(9).says(&["d2", "rank 3"]);
    });
}

#[test]
fn programs_of_an_mpi_library_on_four_hosts_form_one_world() {
    with_each(|ring, library| {
        let hello = library.program("hello").display().to_string();
        let arguments = ["-rr", "-n", "5", &hello, ":", "-n", "3", &hello];
        let run = library.dress(ring.mpirun(1, &arguments)).env("MPIR_CVAR_NOLOCAL", "1");
        let run = run.env("I_MPI_FABRICS", "ofi").env("FI_PROVIDER", "tcp");
        let output = run.deadline(300).output();
        let lines = output.code(0).sorted_lines();
        assert_eq!(lines.len(), 8, "{}: {output}", library.name);
        for (rank, line) in lines.iter().enumerate() {
            let appnum = usize::from(rank >= 5);
            let start = format!("rank {rank} of 8 appnum {appnum} ");
            assert!(line.starts_with(&start), "{}: {output}", library.name);
        }
    });
}
