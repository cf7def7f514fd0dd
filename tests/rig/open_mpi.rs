//! Ends of programs of Open MPI on four hosts. They have the same outcome as with MPICH, and no process and no file is
//! left on any host.

use std::path::{Path, PathBuf};

use mpd_tests::surroundings::{setting, skip};
use nix::sys::signal::Signal;

use crate::hosts::Job;
use crate::mpi::test_environment;
use crate::process;
use crate::rig::{Rig, RigOptions, up_as, without};
use crate::run::{Run, sample, wait_until};

/// The name, and the variable with the directory of the programs. The first one is there to compare with.
const LIBRARIES: [(&str, &str); 5] = [
    ("MPICH 5", "MPD_TEST_MPICH5_DIR"),
    ("Debian's Open MPI", "MPD_TEST_OMPI_DEBIAN_DIR"),
    ("Open MPI 4.1.8", "MPD_TEST_OMPI418_DIR"),
    ("Open MPI 5.0.8", "MPD_TEST_OMPI508_DIR"),
    ("Open MPI 5.0.11", "MPD_TEST_OMPI5011_DIR"),
];
const HOSTS: usize = 4;
const RANKS: usize = 2 * HOSTS;

/// The programs of one library on a ring of four hosts.
struct Programs<'a> {
    rig: &'a mut Rig,
    hosts: &'a [String],
    directory: PathBuf,
}

impl Programs<'_> {
    fn run(&self, program: &str, arguments: &[&str]) -> Run {
        let (ranks, path) = (RANKS.to_string(), self.directory.join(program));
        let path = path.display().to_string();
        let line = ["-np", &ranks, "-ppn", "2", "-genv", "FI_PROVIDER", "tcp", &path];
        let line: Vec<&str> = line.iter().chain(arguments).copied().collect();
        self.rig.mpirun(&self.hosts[0], &line)
    }

    /// Eight ranks on four hosts that wait for each other.
    fn stuck(&self) -> Job {
        let running = self.run("stuck", &[]).start();
        running.shows("all are there\n");
        Job { running, host: self.hosts[0].clone(), directory: PathBuf::new() }
    }

    /// The directories in which the libraries keep files, on these hosts.
    fn files(&self, hosts: &[String]) -> Vec<String> {
        let list = |host: &String| self.rig.run(host, &["ls", "-A", "/tmp", "/dev/shm"]);
        hosts.iter().map(list).collect()
    }
}

fn a_killed_rank(programs: &mut Programs) {
    let job = programs.stuck();
    let host = &programs.hosts[1..2];
    let mut ranks = programs.rig.processes(host).into_iter().map(|found| found.process);
    let rank = ranks.rfind(|process| process.runs("stuck")).expect("a rank");
    process::send(rank.pid, Signal::SIGKILL);
    job.running.wait().code(137).says(&["signal 9"]);
}

fn an_abort(programs: &mut Programs) {
    programs.run("abort", &["5", "7"]).output().code(7).says(&["rank 5", "code 7"]);
}

fn an_end_without_finalize(programs: &mut Programs) {
    programs.run("nofinalize", &["6", "0"]).output().code(1).says(&["rank 6"]);
}

fn an_interrupt(programs: &mut Programs) {
    let job = programs.stuck();
    process::send(job.console(programs.rig).pid, Signal::SIGINT);
    job.running.wait().code(130);
}

fn a_stop_a_continuation_and_an_interrupt(programs: &mut Programs) {
    let job = programs.stuck();
    let console = job.suspend(programs.rig);
    let any_is_stopped = || {
        let ranks = programs.rig.processes(programs.hosts).into_iter();
        ranks.filter(|found| found.process.runs("stuck")).any(|found| found.process.is_stopped())
    };
    assert!(any_is_stopped(), "ranks must be stopped with mpirun");
    process::send(console.pid, Signal::SIGCONT);
    wait_until("all ranks continue", || !any_is_stopped());
    process::send(console.pid, Signal::SIGINT);
    job.running.wait().code(130);
}

fn a_lost_host(programs: &mut Programs) {
    let job = programs.stuck();
    let lost = programs.hosts[2].clone();
    programs.rig.control(&["kill", &lost]);
    job.running.wait().code(125).says(&[&lost]);
    let rest = without(programs.hosts, &[&lost]);
    programs.rig.is_clean("after the power cut", &rest);
    let left = programs.files(&rest).concat();
    assert!(!left.contains("ompi."), "left: {left}");
    programs.rig.control(&["boot", &lost]);
    programs.rig.heals("powered on again", programs.hosts);
}

/// An end of a job: its name in reports, and the steps.
type End = (&'static str, fn(&mut Programs<'_>));

/// Every end of a job.
const ENDS: [End; 6] = [
    ("a killed rank", a_killed_rank),
    ("an abort", an_abort),
    ("an end without MPI_Finalize", an_end_without_finalize),
    ("an interrupt", an_interrupt),
    ("^Z, fg and ^C", a_stop_a_continuation_and_an_interrupt),
    ("a lost host", a_lost_host),
];

/// The directories of the libraries that are there.
fn libraries() -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    for (name, variable) in LIBRARIES {
        match setting(variable) {
            Some(directory) => found.push((name, Path::new(&directory).to_owned())),
            None => skip(&format!("{name} is not there")),
        }
    }
    found
}

#[test]
fn programs_of_open_mpi_end_on_four_hosts_like_those_of_mpich_and_leave_nothing() {
    let (libraries, share) = (libraries(), test_environment());
    if libraries.is_empty() || share.is_empty() {
        return skip("no version of Open MPI is there");
    }
    let options = RigOptions { hosts: Some(HOSTS), share, ..RigOptions::default() };
    let Some(mut rig) = up_as(options) else { return };
    rig.boot(&["--keep"]);
    let hosts = rig.booted();
    // One round takes each end once, with another library; full work takes five rounds with each library.
    for round in 0..sample(1, 5 * libraries.len()) {
        for (number, (end, happens)) in ENDS.iter().enumerate() {
            let (name, directory) = &libraries[(round + number) % libraries.len()];
            let directory = directory.clone();
            let mut programs = Programs { rig: &mut rig, hosts: &hosts, directory };
            let before = programs.files(&hosts);
            happens(&mut programs);
            programs.rig.is_clean(&format!("{name}, {end}, round {round}"), &hosts);
            let after = programs.files(&hosts);
            assert_eq!(before, after, "{name}, {end}, round {round}: files are left");
        }
    }
    rig.figure("every end of ranks of Open MPI left nothing");
    rig.ends(&hosts[0]);
}
