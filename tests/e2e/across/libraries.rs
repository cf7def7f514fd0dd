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
