//! Ranks whose MPI library does not use PMI: each rank is then rank 0 of 1.

use std::fs;

use crate::run::{Output, Run, wait_until};
use crate::suite::Suite;

/// Changes its memory maps like a program of Open MPI: maps a library of that name, and `initialized` also maps a
/// file of the session directory. Exits when the file `go` exists; rank 1 exits with the given code.
const PROGRAM: &str = r#"
import mmap, os, sys, time
kind, code = sys.argv[1:]
def mapped(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
maps = [mapped("libmpi.so.40")]
if kind == "initialized":
    maps.append(mapped(f"ompi.host.{os.getuid()}/pid.1/segment-0"))
while not os.path.exists("go"):
    time.sleep(0.01)
sys.exit(int(code) if os.environ["PMI_RANK"] == "1" else 0)
"#;

/// Run time of programs that must not be detected: the manager has inspected them three times by then.
const LOOKS: &str = "0.3";

/// A suite with a daemon, the library and the session file.
fn suite() -> Suite {
    let suite = Suite::new();
    let session = format!("work/ompi.host.{}/pid.1", nix::unistd::geteuid());
    fs::create_dir_all(suite.path(&session)).expect("a directory");
    for file in [format!("{session}/segment-0"), "work/libmpi.so.40".to_owned()] {
        fs::write(suite.path(file), [0; 4096]).expect("a file");
    }
    suite.start_daemon_with(&["-v"]);
    suite
}

fn job(suite: &Suite, options: &[&str], kind: &str, code: &str) -> Run {
    let program = ["python3", "-c", PROGRAM, kind, code];
    suite.mpirun([options, &program].concat())
}

/// The end of such a job after the manager has detected the library.
fn detected(suite: &Suite, options: &[&str], code: &str) -> Output {
    let running = job(suite, options, "initialized", code).start();
    let log = || fs::read_to_string(suite.path("mpd.log")).unwrap_or_default();
    wait_until("the library is detected", || log().contains("libmpi.so.40 without PMI"));
    fs::write(suite.path("work/go"), "").expect("a file");
    running.wait()
}

/// The end of a job in which the manager must not detect the library.
fn undetected(suite: &Suite, options: &[&str], kind: &str) -> Output {
    let running = job(suite, options, kind, "0").start();
    suite.command("sleep").arg(LOOKS).output().code(0);
    fs::write(suite.path("work/go"), "").expect("a file");
    running.wait()
}

#[test]
fn mpirun_names_the_library_of_ranks_that_ran_alone_and_exits_1() {
    let suite = suite();
    let output = detected(&suite, &["-n", "2"], "0");
    output.code(1).brief().says(&["ran alone", "work/libmpi.so.40)", "-allow-alone"]);
}

#[test]
fn a_failed_rank_that_ran_alone_gives_its_own_exit_code() {
    let suite = suite();
    let output = detected(&suite, &["-n", "2"], "7");
    output.code(7);
    assert!(!output.err().contains("alone"), "{output}");
}

#[test]
fn the_library_is_detected_in_a_descendant_of_a_rank() {
    let suite = suite();
    detected(&suite, &["-n", "2", "sh", "-c", "\"$@\"; exit $?", "sh"], "0").code(1);
}

#[test]
fn ranks_may_run_alone_with_allow_alone_or_in_a_job_of_one() {
    let suite = suite();
    undetected(&suite, &["-n", "2", "-allow-alone"], "initialized").code(0).quiet();
    fs::remove_file(suite.path("work/go")).expect("a file");
    undetected(&suite, &["-n", "1"], "initialized").code(0).quiet();
}

#[test]
fn programs_only_linked_or_started_by_open_mpis_launcher_exit_0() {
    let suite = suite();
    undetected(&suite, &["-n", "2"], "linked").code(0).quiet();
    fs::remove_file(suite.path("work/go")).expect("a file");
    // The launcher that the rank runs starts a larger world.
    let launcher = "OMPI_COMM_WORLD_SIZE=4 \"$@\"; exit $?";
    let launched = ["-n", "2", "sh", "-c", launcher, "sh"];
    undetected(&suite, &launched, "initialized").code(0).quiet();
}
