//! Real Open MPI under the small PMIx server `t-pmix`, which drives the sessions of `pmix-proto`. A version that is not
//! there gives a line with its name.

use crate::open_mpi::{Version, versions};
use crate::run::{Run, sample};
use crate::suite::Suite;

/// Runs a check with each version that is there.
fn with_each(check: impl Fn(&Suite, &Server)) {
    for version in versions() {
        check(&Suite::new(), &Server { is_five: version.is_five, version });
    }
}

/// The server with the programs of one version.
struct Server {
    version: Version,
    is_five: bool,
}

impl Server {
    fn run(&self, suite: &Suite, options: &[&str], program: &str, arguments: &[&str]) -> Run {
        let run = suite.command(suite.program("t-pmix")).args(options);
        run.arg(self.version.program(program)).args(arguments).deadline(120)
    }
}

#[test]
fn ranks_of_open_mpi_know_their_job_and_compute_together() {
    with_each(|suite, version| {
        let output = version.run(suite, &["-n", "3"], "hello", &[]).output();
        let line = |rank| format!("rank {rank} of 3 appnum 0 universe 7 node 3");
        assert_eq!(output.code(0).sorted_lines(), [0, 1, 2].map(line), "{output}");
        let ranks = sample(4, 16).to_string();
        let output = version.run(suite, &["-n", &ranks], "allreduce", &[]).output();
        output.code(0).prints(&format!("allreduce ok {ranks}\n"));
    });
}

#[test]
fn open_mpi_exchanges_its_addresses_between_hosts() {
    with_each(|suite, version| {
        for program in ["hello", "allreduce"] {
            // The hosts exist by name only, so shared memory would mix them up.
            let run = version.run(suite, &["-n", "4", "-nodes", "2"], program, &[]);
            let output = run.env("OMPI_MCA_btl", "tcp,self").output();
            output.code(0);
            let node_size =
                output.sorted_lines().iter().filter(|line| line.ends_with("node 2")).count();
            assert!(program == "allreduce" || node_size == 4, "{output}");
        }
    });
}

#[test]
fn open_mpi_spawns_publishes_and_aborts() {
    with_each(|suite, version| {
        let run = |program, arguments: &[&str]| {
            version.run(suite, &["-n", "1"], program, arguments).output()
        };
        let output = run("spawn", &["one", "2"]);
        assert!(output.code(0).out().contains("spawn: 3 together"), "{output}");
        run("spawn", &["two"]).code(0);
        run("spawn", &["missing"]).code(0);
        run("spawn", &["half"]).code(0);
        let output = run("names", &[]);
        assert!(output.code(0).out().contains("names: found what was published"), "{output}");
        version.run(suite, &["-n", "3"], "abort", &["1", "7"]).output().code(7);
    });
}

#[test]
fn open_mpi_5_makes_communicators_from_groups() {
    with_each(|suite, version| {
        if version.is_five {
            let output = version.run(suite, &["-n", "3"], "groups", &[]).output();
            let line = |rank| format!("rank {rank} of 3, sum 3");
            assert_eq!(output.code(0).sorted_lines(), [0, 1, 2].map(line), "{output}");
        }
    });
}

#[test]
fn survivors_of_open_mpi_5_shrink_their_world_and_finish() {
    with_each(|suite, version| {
        if version.is_five {
            let run = version.run(suite, &["-keep", "-n", "4"], "survive", &[]);
            let output = run.env("OMPI_MCA_mpi_ft_enable", "1").output();
            let line = |rank| format!("rank {rank}: 3 are left");
            assert_eq!(output.code(0).sorted_lines(), [0, 2, 3].map(line), "{output}");
        }
    });
}
