//! Our client libraries: programs that are linked with libpmi and libpmi2, or that open them at run time, if
//! scripts/prepare-test-env could build them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Output, Run};
use crate::suite::Suite;
use mpd_tests::surroundings::{setting, skip};

/// Hydra, a second implementation of PMI-1 and PMI-2.
const HYDRA: &str = "MPD_TEST_MPICH4_MPIEXEC";

/// Compiled with our headers, and with Slurm's headers.
const DIRECTORIES: [&str; 2] = ["MPD_TEST_PMI_DIR", "MPD_TEST_PMI_SLURM_DIR"];

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Runs a program of each existing directory, on one rank and on four, through a daemon.
fn with_each(program: &str, check: impl Fn(usize, &Output)) {
    for directory in DIRECTORIES {
        let Some(directory) = setting(directory) else {
            skip(&format!("nothing in {directory}"));
            continue;
        };
        let suite = Suite::new();
        suite.start_daemon();
        for ranks in [1, 4] {
            let program = Path::new(&directory).join(program);
            let output = suite.mpirun(["-n", &ranks.to_string()]).arg(program).output();
            check(ranks, &output);
        }
        suite.only_the_daemon_is_left();
    }
}

/// Checks that every rank printed this line with its number, and nothing else.
fn each_rank_says(begin: &str, ranks: usize, output: &Output) {
    output.code(0);
    let expected: Vec<_> = (0..ranks).map(|rank| format!("{begin} {rank}")).collect();
    assert_eq!(output.sorted_lines(), expected, "{output}");
}

/// Checks that every rank found its neighbour, and all are on one node.
fn each_rank_found_its_neighbour(ranks: usize, output: &Output) {
    output.code(0);
    let lines = output.sorted_lines();
    assert_eq!(lines.len(), ranks, "{output}");
    for (rank, line) in lines.iter().enumerate() {
        let right = (rank + 1) % ranks;
        let begin = format!("rank {rank} of {ranks}, {ranks} on this node; rank {right} is at ");
        assert!(line.starts_with(&begin), "{output}");
    }
}

#[test]
fn ranks_linked_with_libpmi_find_their_neighbours() {
    with_each("pmi_ring", each_rank_found_its_neighbour);
}

#[test]
fn libpmi_returns_an_error_for_invalid_arguments() {
    with_each("edges", |ranks, output| each_rank_says("edges ok", ranks, output));
}

#[test]
fn a_lookup_writes_no_more_than_the_buffer_of_the_program() {
    for directory in DIRECTORIES {
        let Some(directory) = setting(directory) else {
            skip(&format!("nothing in {directory}"));
            continue;
        };
        // The program is its own process manager and answers with ports of any length.
        let program = Command::new(Path::new(&directory).join("edges_port"));
        Run::new(program).output().code(0);
    }
}

#[test]
fn ranks_publish_and_look_up_names_through_libpmi() {
    with_each("names", |ranks, output| each_rank_says("names ok", ranks, output));
}

#[test]
fn an_abort_through_libpmi_ends_the_job_with_its_code() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else { return skip("no client libraries") };
    let suite = Suite::new();
    let program = Path::new(&directory).join("names");
    suite
        .mpirun(["-n", "3"])
        .arg(program)
        .arg("7")
        .output()
        .code(7)
        .says(&["rank 2", "out of luck"]);
}

#[test]
fn ranks_linked_with_libpmi2_find_their_neighbours() {
    with_each("pmi2_hello", each_rank_found_its_neighbour);
}

#[test]
fn libpmi2_returns_an_error_for_invalid_arguments() {
    with_each("edges2", |ranks, output| each_rank_says("edges ok", ranks, output));
}

#[test]
fn threads_of_a_rank_share_libpmi2() {
    with_each("threads", |ranks, output| each_rank_says("threads ok", ranks, output));
}

#[test]
fn a_rank_sends_signals_including_real_time_signals_to_its_peers() {
    with_each("signal_peer", |ranks, output| each_rank_says("signalled", ranks, output));
}

#[test]
fn without_mpirun_a_program_is_rank_0_of_1_with_either_library() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else { return skip("no client libraries") };
    for name in ["pmi_ring", "pmi2_hello", "edges", "edges2", "names", "threads", "signal_peer"] {
        let mut command = Command::new(Path::new(&directory).join(name));
        for variable in ["PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE"] {
            command.env_remove(variable);
        }
        Run::new(command).output().code(0);
    }
}

#[test]
fn ranks_started_by_hydra_find_their_neighbours() {
    let (Some(mpiexec), Some(directory)) = (setting(HYDRA), setting("MPD_TEST_PMI_DIR")) else {
        return skip("no Hydra, or no client libraries");
    };
    for program in ["pmi_ring", "pmi2_hello"] {
        let mut command = Command::new(&mpiexec);
        command.args(["-n", "3"]).arg(Path::new(&directory).join(program));
        each_rank_found_its_neighbour(3, &Run::new(command).output());
    }
}

#[test]
fn a_wrong_pmi_variable_is_named_in_the_error() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else { return skip("no client libraries") };
    for (name, value) in [("PMI_FD", "1000"), ("PMI_FD", "x"), ("PMI_PORT", "127.0.0.1:1")] {
        for program in ["pmi_ring", "pmi2_hello"] {
            let command = Command::new(Path::new(&directory).join(program));
            let run = Run::new(command).without_env("PMI_FD").env(name, value);
            run.output().code(1).says(&["Init failed with -1", value]);
        }
    }
}

/// A program that is not linked with the library finds it through `LD_LIBRARY_PATH`.
fn found_by_path(suite: &Suite, program: &[PathBuf]) -> Option<Output> {
    let path = setting("MPD_TEST_PMI_LIB")?;
    Some(suite.mpirun(["-n", "3"]).args(program).env("LD_LIBRARY_PATH", path).output())
}

#[test]
fn a_program_that_opens_libpmi_by_name_gets_our_library() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else { return skip("no client libraries") };
    let suite = Suite::new();
    let program = Path::new(&directory).join("dlopen");
    let output = found_by_path(&suite, &[program]).expect("a library next to its programs");
    output.code(0);
    assert_eq!(output.sorted_lines(), ["dlopen ok 0 3", "dlopen ok 1 3", "dlopen ok 2 3"]);
}

#[test]
fn a_program_linked_with_slurms_libpmi2_runs_with_our_library() {
    let Some(directory) = setting("MPD_TEST_PMI2_DIR") else { return skip("no libpmi2 of Slurm") };
    let suite = Suite::new();
    let Some(output) = found_by_path(&suite, &[Path::new(&directory).join("pmi2")]) else {
        return skip("no client libraries");
    };
    output.code(0);
    let expected = ["pmi2 ok 0 of 3", "pmi2 ok 1 of 3", "pmi2 ok 2 of 3"];
    assert_eq!(output.sorted_lines(), expected);
}

#[test]
fn intel_mpi_uses_pmi_2_through_our_library() {
    let (Some(directory), Some(mpi), Some(ours)) =
        (setting("MPD_TEST_IMPI_DIR"), setting("MPD_TEST_IMPI_LIB"), setting("MPD_TEST_PMI_LIB"))
    else {
        return skip("no Intel MPI, or no client libraries");
    };
    let suite = Suite::new();
    let run = suite.mpirun(["-n", "4"]).arg(Path::new(&directory).join("allreduce"));
    let library = Path::new(&ours).join("libpmi2.so.0");
    let run = run.env("LD_LIBRARY_PATH", mpi).env("I_MPI_PMI", "pmi2").env("I_MPI_DEBUG", "5");
    let output = run.env("I_MPI_PMI_LIBRARY", &library).deadline(120).output();
    output.code(0);
    assert!(output.out().contains("allreduce ok 4\n"), "{output}");
    assert!(output.out().contains(&format!("I_MPI_PMI_LIBRARY={}", library.display())), "{output}");
}

#[test]
fn ranks_in_python_and_in_rust_find_their_neighbours() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else { return skip("no client libraries") };
    let suite = Suite::new();
    let program = [PathBuf::from("python3"), source("examples/pmi_ctypes.py")];
    let output = found_by_path(&suite, &program).expect("a library next to its programs");
    each_rank_found_its_neighbour(3, &output);
    let program = Path::new(&directory).join("pmi_ring_rs");
    let output = suite.mpirun(["-n", "3"]).arg(&program).output();
    each_rank_found_its_neighbour(3, &output);
    let output = suite.mpirun(["-n", "3"]).arg(&program).arg("2").output();
    each_rank_found_its_neighbour(3, &output);
}

#[test]
fn our_libraries_export_exactly_the_functions_of_slurms_headers() {
    let Some(libraries) = setting("MPD_TEST_PMI_LIB") else { return skip("no client libraries") };
    for (header, library, own) in [
        ("/usr/include/slurm/pmi.h", "libpmi.so.0", "MPD_Signal_rank"),
        ("/usr/include/slurm/pmi2.h", "libpmi2.so.0", "MPD2_Signal_rank"),
    ] {
        let Ok(text) = std::fs::read_to_string(header) else {
            skip(&format!("no {header}"));
            continue;
        };
        let mut declared: BTreeSet<_> = text.lines().filter_map(declared_function).collect();
        assert!(declared.len() > 20, "{header} declares {declared:?}");
        declared.insert(own.to_owned());
        let library = Path::new(&libraries).join(library);
        let command = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
        let listing = String::from_utf8(command.unwrap().stdout).unwrap();
        let defined: BTreeSet<_> =
            listing.lines().filter_map(|line| Some(line.rsplit_once(' ')?.1.to_owned())).collect();
        assert_eq!(defined, declared, "{header}");
    }
}

/// The name of the function of a line such as `int PMI_Init( int *spawned );`.
fn declared_function(line: &str) -> Option<String> {
    let name = line.strip_prefix("int ")?.split('(').next()?.trim();
    name.starts_with("PMI").then(|| name.to_owned())
}

#[test]
fn our_headers_and_slurms_headers_define_the_same_abi() {
    let include = source("include");
    let compile = |ours: bool, is_two: bool| {
        let mut command = Command::new("cc");
        command
            .args(["-Wall", "-Wextra", "-Werror", "-c", "-o", "/dev/null"])
            .arg("-I")
            .arg(&include);
        command.arg(format!("-DOURS={}", u8::from(ours))).arg(source("tests/pmi/same_abi.c"));
        if is_two {
            command.arg("-DPMI_TWO");
        }
        Run::new(command).output().code(0);
    };
    for is_two in [false, true] {
        compile(true, is_two);
        if Path::new("/usr/include/slurm/pmi2.h").exists() {
            compile(false, is_two);
        } else {
            skip("no headers of Slurm");
        }
    }
}
