//! Real MPI libraries whose ranks spawn further ranks.

use std::path::Path;

use mpd_tests::surroundings::{setting, skip};

use crate::mpi::{Library, libraries_with_ports};
use crate::run::Run;
use crate::suite::Suite;

fn with_each(check: impl Fn(&Suite, &Library)) {
    for library in libraries_with_ports() {
        let suite = Suite::new();
        suite.start_daemon();
        check(&suite, &library);
        suite.only_the_daemon_is_left();
    }
}

/// tests/mpi/spawn.c on `ranks` ranks.
fn spawn(suite: &Suite, library: &Library, ranks: &str, arguments: &[&str]) -> Run {
    let run = suite.mpirun(["-n", ranks]).arg(library.program("spawn")).args(arguments);
    library.dress_for_ports(run).deadline(120)
}

#[test]
fn mpi_comm_spawn_multiple_passes_unusual_arguments_unchanged() {
    with_each(|suite, library| {
        let output = spawn(suite, library, "1", &["two"]).output();
        let lines = output.code(0).quiet().sorted_lines();
        assert_eq!(lines.len(), 4, "{}: {output}", library.name);
        assert!(lines[0].starts_with("child 0 of 3 appnum 0 "), "{output}");
        let awkward = r#": [args] [a b] [] [x=y] ["q"] [back\slash] -"#;
        assert!(lines[0].ends_with(awkward), "{output}");
        for (rank, line) in (1..=2).zip(&lines[1..]) {
            assert!(line.starts_with(&format!("child {rank} of 3 appnum 1 ")), "{output}");
            assert!(line.ends_with(": [args] [second] -"), "{output}");
        }
        assert_eq!(lines[3], "spawn: 4 together, errors 0 0 0", "{output}");
    });
}

#[test]
fn known_hints_of_an_mpi_spawn_are_followed_and_unknown_hints_ignored() {
    with_each(|suite, library| {
        suite.new_directory("work/below");
        let hints = ["wdir=below", "env=SPAWN_TEST=sky blue", "appnum=7", "tea=green one"];
        let arguments = [&["one", "1"][..], &hints].concat();
        let output = spawn(suite, library, "1", &arguments).output();
        let lines = output.code(0).quiet().sorted_lines();
        assert!(lines[0].starts_with("child 0 of 1 appnum 7 in "), "{}: {output}", library.name);
        assert!(lines[0].ends_with("/work/below: [args] sky blue"), "{output}");
        for (soft, together) in [("soft=1:3", 4), ("soft=2", 3), ("soft=1:5:4", 6)] {
            let output = spawn(suite, library, "1", &["one", "5", soft]).output();
            let said = format!("spawn: {together} together\n");
            assert!(output.code(0).quiet().out().ends_with(&said), "{soft}: {output}");
        }
    });
}

#[test]
fn a_missing_program_is_an_error_on_all_spawning_ranks() {
    with_each(|suite, library| {
        for mode in ["missing", "half"] {
            let output = spawn(suite, library, "2", &[mode]).output();
            let lines = output.code(0).says(&["spawn by rank 0", "no-such-program"]).sorted_lines();
            let said = ["spawn: rank 0: an error", "spawn: rank 1: an error"];
            assert_eq!(lines, said, "{}: {output}", library.name);
            suite.only_the_daemon_is_left();
        }
    });
}

#[test]
fn a_failed_spawn_ends_a_job_without_an_mpi_error_handler() {
    with_each(|suite, library| {
        for (hint, named) in [
            ("wdir=/no-such-directory", "/no-such-directory: No such file or directory"),
            ("host=no-such-host", "not in the ring: no-such-host"),
            ("soft=9", "no number up to 2"),
            ("mpd_policy=best", "not rr, load or pack"),
        ] {
            let output = spawn(suite, library, "2", &["one", "2", hint]).output();
            output.failed().says(&["spawn by rank 0", named]);
            suite.only_the_daemon_is_left();
        }
    });
}

#[test]
fn the_spawn_example_prints_parents_and_children_in_rank_order() {
    let Some(mpiexec) = setting("MPD_TEST_MPICH5_MPIEXEC") else {
        return skip("MPICH 5 is not there");
    };
    let suite = Suite::new();
    suite.start_daemon();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/spawn.c");
    let program = suite.path("work/spawn").display().to_string();
    let compiler = Path::new(&mpiexec).with_file_name("mpicc");
    let arguments = ["-Wall", "-Wextra", "-Werror", "-o", &program];
    suite.as_self(compiler).args(arguments).arg(source).output().code(0).quiet();
    for (parents, children) in [(1, 3), (2, 2)] {
        let run = suite.mpirun(["-n", &parents.to_string(), &program, &children.to_string()]);
        let output = run.env("MPIR_CVAR_CH4_NETMOD", "ofi").deadline(120).output();
        let out = output.code(0).quiet().out();
        let lines: Vec<&str> = out.lines().collect();
        let size = parents + children;
        assert_eq!(lines.len(), size, "{output}");
        for (rank, line) in lines.iter().enumerate() {
            let role = if rank < parents { "parent" } else { "child" };
            let begins = format!("hello from rank {rank} of {size}, a {role} on ");
            assert!(line.starts_with(&begins), "{line}: {output}");
        }
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_spawned_program_that_is_not_of_mpi_ends_the_job_instead_of_blocking_its_spawner() {
    let spawn = "from mpi4py import MPI; MPI.COMM_SELF.Spawn('/bin/true'); print('spawned')";
    let each = ["MPD_TEST_PYTHON", "MPD_TEST_IMPI_PYTHON", "MPD_TEST_OMPI5011_PYTHON"];
    for variable in each {
        let Some(python) = setting(variable) else {
            skip(&format!("{variable} is not there"));
            continue;
        };
        for options in [&["-n", "1"][..], &["-n", "1", "-on-failure", "continue"]] {
            let suite = Suite::new();
            suite.start_daemon();
            let run = suite.mpirun(options).args([&python, "-c", spawn]).deadline(120);
            let run = run.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
            let output = run.env("I_MPI_SPAWN", "on").env("I_MPI_FABRICS", "ofi").output();
            output
                .code(1)
                .prints("")
                .says(&["world 1: rank 0: exited with code 0 without MPI_Init", "MPI_Comm_spawn"]);
            suite.only_the_daemon_is_left();
        }
    }
}

#[test]
fn with_the_scope_world_a_spawned_process_and_its_spawner_do_not_end_each_other() {
    // A rank of Intel MPI waits for the aborted process in its own MPI_Finalize.
    for library in libraries_with_ports().into_iter().filter(|library| library.name == "MPICH 5") {
        let suite = Suite::new();
        suite.start_daemon();
        for (scope, out) in [("job", ""), ("world", "alive\n")] {
            let run = suite.mpirun(["-abort-scope", scope, "-n", "1"]);
            let run = run.arg(library.program("apart")).arg("parted").deadline(120);
            let output = library.dress_for_ports(run).output();
            assert_eq!(output.code(9).out(), out, "{}, {scope}: {output}", library.name);
        }
        suite.only_the_daemon_is_left();
    }
}
