//! Ends of programs of Open MPI, one after the other: the outcome is that of programs of MPICH, and no process and no
//! file is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mpd_tests::surroundings::skip;
use nix::sys::signal::Signal;

use crate::open_mpi::{Version, versions, with_each_series};
use crate::process::{self, Process};
use crate::pty::{INTERRUPT, SUSPEND, Terminal};
use crate::run::{Running, sample, wait_until};
use crate::suite::Suite;

/// Ends jobs one after the other, of each version in turn, and checks after each end that nothing is left.
fn rounds(end: impl Fn(&Suite, &Version)) {
    let versions = versions();
    if versions.is_empty() {
        return skip("no version of Open MPI is there");
    }
    let suite = Suite::new();
    suite.start_daemon();
    for round in 0..sample(versions.len(), 50) {
        let before = sessions();
        end(&suite, &versions[round % versions.len()]);
        suite.no_job_is_left_but(&["bash"]);
        let new = sessions().into_iter().filter(|session| !before.contains(session));
        let left: Vec<_> = new.filter(|path| !has_living_owner(path) && path.exists()).collect();
        assert!(left.is_empty(), "round {round} left {left:?}");
    }
    suite.only_the_daemon_is_left();
}

/// The directories in which Open MPI keeps its files if its launcher names no other one.
fn sessions() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir("/tmp").expect("a directory").flatten();
    let is_session =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"ompi.");
    entries.filter(is_session).map(|entry| entry.path()).collect()
}

/// Whether the process that the directory is named after runs: a program of another test.
fn has_living_owner(session: &Path) -> bool {
    let pid = session.extension().and_then(|pid| pid.to_str()?.parse().ok());
    pid.and_then(Process::read).is_some_and(|process| process.is_alive())
}

/// Three ranks that wait for each other.
fn stuck(suite: &Suite, version: &Version) -> Running {
    let running = version.run(suite, 3, "stuck", &[]).start();
    running.shows("all are there\n");
    running
}

/// The objects of shared memory that the ranks have in use.
fn shared_memory(suite: &Suite) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for process in suite.running("stuck") {
        let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap_or_default();
        let names = maps.lines().filter_map(|line| Some(&line[line.find("/dev/shm/")?..]));
        files.extend(names.filter(|name| !name.ends_with("(deleted)")).map(PathBuf::from));
    }
    assert!(!files.is_empty(), "three ranks on one host share no memory");
    files
}

fn are_gone(files: &BTreeSet<PathBuf>) {
    let left: Vec<&PathBuf> = files.iter().filter(|file| Path::exists(file)).collect();
    assert!(left.is_empty(), "left: {left:?}");
}

#[test]
fn a_killed_rank_of_open_mpi_leaves_nothing() {
    rounds(|suite, version| {
        let running = stuck(suite, version);
        let files = shared_memory(suite);
        process::send(suite.running("stuck")[1].pid, Signal::SIGKILL);
        running.wait().code(137).says(&["signal 9"]);
        are_gone(&files);
    });
}

#[test]
fn an_abort_and_an_end_without_finalize_of_open_mpi_leave_nothing() {
    rounds(|suite, version| {
        version.run(suite, 3, "abort", &["1", "7"]).output().code(7).says(&["rank 1", "code 7"]);
        suite.no_job_is_left();
        version.run(suite, 3, "nofinalize", &["2", "0"]).output().code(1).says(&["rank 2"]);
    });
}

#[test]
fn an_interrupt_of_open_mpi_leaves_nothing() {
    rounds(|suite, version| {
        let running = stuck(suite, version);
        let files = shared_memory(suite);
        running.send(Signal::SIGINT);
        running.wait().code(130);
        are_gone(&files);
    });
}

#[test]
fn ctrl_z_and_fg_and_ctrl_c_of_open_mpi_leave_nothing() {
    rounds(|suite, version| {
        let mut terminal = Terminal::with_shell(suite, "");
        terminal.enter(&format!("$MPIRUN -n 3 {}", version.program("stuck").display()));
        terminal.shows("all are there");
        let files = shared_memory(suite);
        let are_stopped = || suite.running("stuck").iter().all(Process::is_stopped);
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        assert!(are_stopped(), "all ranks must be stopped");
        terminal.enter("fg");
        wait_until("all ranks continue", || {
            !suite.running("stuck").iter().any(Process::is_stopped)
        });
        terminal.press(INTERRUPT);
        terminal.shows_prompt();
        assert_eq!(terminal.exit_code(), 130);
        suite.no_job_is_left_but(&["bash"]);
        terminal.leave();
        are_gone(&files);
    });
}

#[test]
fn worlds_of_open_mpi_that_have_disconnected_end_each_on_its_own() {
    with_each_series(|suite, version| {
        let parted = version.run(suite, 1, "apart", &["parted"]).output();
        parted.code(9).says(&["world 1: rank 0"]);
        assert_eq!(parted.out(), "alive\n", "{parted}");
        let together = version.run(suite, 1, "apart", &["together"]).output();
        assert_eq!(together.code(9).out(), "", "{together}");
    });
}
