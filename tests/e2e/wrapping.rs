//! Programs that run the program of a rank: real tools around real MPI programs.

use std::path::{Path, PathBuf};

use mpd_tests::surroundings::skip;

use crate::mpi::{Library, libraries};
use crate::run::{Output, Run};
use crate::suite::Suite;

const RANKS: usize = 4;

/// The path of an installed tool.
fn tool(name: &str) -> Option<PathBuf> {
    let places = ["/usr/bin", "/bin", "/usr/local/bin"].map(|place| Path::new(place).join(name));
    let found = places.into_iter().find(|path| path.exists());
    if found.is_none() {
        skip(&format!("{name} is not there"));
    }
    found
}

/// The first installed library; the test checks the launcher.
fn library() -> Option<Library> {
    libraries().into_iter().next()
}

/// A run of all ranks with these arguments before the program.
fn wrapped(suite: &Suite, library: &Library, arguments: &[&str], program: &[&str]) -> Output {
    let run = suite.mpirun(["-np", &RANKS.to_string()]).args(arguments);
    let run: Run = run.arg(library.program(program[0])).args(&program[1..]);
    library.dress(run).deadline(240).output()
}

/// Checks that every rank printed its line of `hello`, in any order.
fn check_hello(output: &Output) {
    output.code(0);
    let lines = output.sorted_lines();
    for rank in 0..RANKS {
        let start = format!("rank {rank} of {RANKS} ");
        let count = lines.iter().filter(|line| line.starts_with(&start)).count();
        assert_eq!(count, 1, "{start}: {output}");
    }
}

/// `hello` in a wrapper, and a rank's exit code through the wrapper.
fn check_wrapped(suite: &Suite, library: &Library, arguments: &[&str]) {
    check_hello(&wrapped(suite, library, arguments, &["hello"]));
    wrapped(suite, library, arguments, &["exit_after", "2", "9"]).code(9);
}

/// Checks that each rank has a non-empty file of this name.
fn check_files(suite: &Suite, stem: &str) {
    for rank in 0..RANKS {
        let path = suite.path(format!("work/{stem}.{rank}"));
        let size = std::fs::metadata(&path).map(|data| data.len());
        assert!(size.as_ref().is_ok_and(|size| *size > 0), "{}: {size:?}", path.display());
    }
}

#[test]
fn valgrind_checks_every_rank_of_an_mpi_program() {
    let (Some(library), Some(_)) = (library(), tool("valgrind")) else { return };
    let suite = Suite::new();
    let arguments = ["-subst", "valgrind", "--log-file=vg.%r", "--error-exitcode=0"];
    check_hello(&wrapped(&suite, &library, &arguments, &["hello"]));
    check_files(&suite, "vg");
    let log = std::fs::read_to_string(suite.path("work/vg.3")).expect("a log");
    assert!(log.contains("ERROR SUMMARY"), "{log}");
}

#[test]
fn strace_writes_a_file_for_each_rank_of_an_mpi_program() {
    let (Some(library), Some(_)) = (library(), tool("strace")) else { return };
    let suite = Suite::new();
    suite.start_daemon();
    check_wrapped(&suite, &library, &["-subst", "strace", "-f", "-o", "out.%r"]);
    check_files(&suite, "out");
    let trace = std::fs::read_to_string(suite.path("work/out.2")).expect("a trace");
    assert!(trace.contains("execve(") && trace.contains("+++ exited with 9 +++"), "{trace}");
    suite.only_the_daemon_is_left();
}

#[test]
fn perf_records_a_file_for_each_rank_of_an_mpi_program() {
    let (Some(library), Some(_)) = (library(), tool("perf")) else { return };
    let suite = Suite::new();
    let trial = suite.command("perf").args(["record", "-o", "trial", "true"]).output();
    if trial.exit_code() != Some(0) {
        return skip("this machine does not permit to record with perf");
    }
    let arguments = ["-subst", "perf", "record", "-o", "perf.%r"];
    check_hello(&wrapped(&suite, &library, &arguments, &["hello"]));
    check_files(&suite, "perf");
}

#[test]
fn mpi_programs_under_nice_or_a_script_keep_rank_and_exit_code() {
    let Some(library) = library() else { return };
    let suite = Suite::new();
    suite.start_daemon();
    check_wrapped(&suite, &library, &["nice", "-n", "5"]);
    let script = suite.path("work/wrap");
    std::fs::write(&script, "#!/bin/sh\necho \"$PMI_RANK $1\" >seen.$PMI_RANK\nshift\n\"$@\"\n")
        .expect("a script");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("chmod");
    // The script runs the program as its child, not by `exec`.
    check_wrapped(&suite, &library, &["-subst", "./wrap", "%r of %s"]);
    check_files(&suite, "seen");
    for rank in 0..RANKS {
        let seen = std::fs::read_to_string(suite.path(format!("work/seen.{rank}")));
        assert_eq!(seen.expect("a file"), format!("{rank} {rank} of {RANKS}\n"));
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn subst_replaces_fields_only_in_the_requested_arguments() {
    let suite = Suite::new();
    let arguments = ["-np", "2", "-subst", "echo", "%r/%s", "%%r"];
    let output = suite.mpirun(arguments).args([":", "echo", "%r", "100%"]).output();
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["%r 100%", "0/3 %r", "1/3 %r"]);
    let local = suite.mpirun(["-np", "1", "true", ":", "-np", "1", "-subst", "echo", "%r %l"]);
    local.output().code(0).quiet().prints("1 1\n");
    let output = suite.mpirun(["-gsubst", ":", "echo", "%j %h"]).output();
    output.code(0).quiet();
    let out = output.out();
    let (job, host) = out.trim_end().split_once(' ').expect("two words");
    assert_eq!(job.split_once('@').map(|(_, at)| at), Some(host), "{output}");
    let output = suite.mpirun(["-subst", "echo", "%p"]).output();
    output.code(125).prints("").brief().says(&["argument \"%p\": there is no field %p"]);
}
