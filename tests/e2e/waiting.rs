//! Managers in waiting: processes of the daemon that have begun before their job.

use nix::sys::signal::Signal;

use crate::kill::Made;
use crate::process::{self, Process};
use crate::run::{sample, wait_until};
use crate::suite::Suite;

/// The manager in waiting of the daemon, when there is one.
fn in_waiting(daemon: &Process) -> Process {
    let mut found = None;
    wait_until("a manager in waiting", || {
        found = daemon.manager_in_waiting();
        found.is_some()
    });
    found.expect("it waits")
}

#[test]
fn a_job_gets_the_manager_in_waiting_and_another_one_takes_its_place() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    let first = in_waiting(&daemon);
    let job = suite.mpirun(["-n", "2", "sleep", "60"]).start();
    wait_until("ranks", || suite.running("sleep").len() == 2);
    let manager = suite.manager();
    assert_eq!((manager.pid, manager.name.as_str()), (first.pid, "mpdman"));
    let id = suite.status()["jobs"][0]["job"].as_str().expect("an id").to_owned();
    // For people the id has no instance of the daemon.
    let id = id.split('#').next().unwrap_or_default().to_owned();
    let shown: Vec<&str> = manager.arguments.iter().map(String::as_str).collect();
    assert_eq!(shown[..4], ["mpdman", "--manager", "--name", id.as_str()]);
    let second = in_waiting(&daemon);
    assert_ne!(second.pid, first.pid);
    job.send(Signal::SIGTERM);
    job.wait();
    suite.only_the_daemon_is_left();
    assert_eq!(in_waiting(&daemon).pid, second.pid, "it waits until a job comes");
}

#[test]
fn a_manager_in_waiting_ends_with_its_daemon() {
    let suite = Suite::new();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let daemon = suite.start_daemon_with(&["--waiting", "4"]);
        in_waiting(&daemon);
        process::send(daemon.pid, signal);
        wait_until("all have ended", || suite.processes().is_empty());
    }
}

#[test]
fn managers_in_waiting_of_a_ring_that_ends_when_idle_end_before_and_return_with_a_job() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1", "--idle", "600"]);
    let first = in_waiting(&daemon);
    let server = daemon.fork_server().expect("a fork server");
    wait_until("both have ended", || Process::is_gone(first.pid) && Process::is_gone(server.pid));
    suite.mpirun(["-n", "2", "echo", "here"]).output().code(0).prints("here\nhere\n");
    in_waiting(&daemon);
    suite.only_the_daemon_is_left();
}

#[test]
fn a_manager_that_dies_in_waiting_is_replaced_and_costs_no_job() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "2"]);
    for _ in 0..sample(3, 30) {
        process::send(in_waiting(&daemon).pid, Signal::SIGKILL);
        suite.mpirun(["-n", "2", "echo", "here"]).output().code(0).prints("here\nhere\n");
    }
    in_waiting(&daemon);
    suite.only_the_daemon_is_left();
}

#[test]
fn managers_in_waiting_are_copies_of_a_fork_server_that_is_replaced_when_it_dies() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    let first = in_waiting(&daemon);
    let server = daemon.fork_server().expect("a fork server");
    process::send(server.pid, Signal::SIGKILL);
    // The daemon is the parent of the copy, which needs the server no more.
    suite.mpirun(["-n", "2", "echo", "here"]).output().code(0).prints("here\nhere\n");
    wait_until("it had this job", || Process::is_gone(first.pid));
    in_waiting(&daemon);
    let second = daemon.fork_server().expect("another fork server");
    assert_ne!(second.pid, server.pid);
    suite.only_the_daemon_is_left();
}

#[test]
fn a_stopped_fork_server_delays_no_job_and_no_kill_of_orphans() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    in_waiting(&daemon);
    let server = daemon.fork_server().expect("a fork server");
    process::send(server.pid, Signal::SIGSTOP);
    for _ in 0..3 {
        suite.mpirun(["-n", "1", "echo", "here"]).output().code(0).prints("here\n");
    }
    let job = suite.mpirun(["-n", "1", "sh", "-c", "setsid sleep 60 & sleep 60"]).start();
    wait_until("ranks", || suite.running("sleep").len() == 2);
    process::send(suite.manager().pid, Signal::SIGKILL);
    job.wait().code(125);
    suite.only_the_daemon_is_left();
    process::send(server.pid, Signal::SIGCONT);
    in_waiting(&daemon);
    suite.only_the_daemon_is_left();
}

#[test]
fn objects_that_were_made_while_a_manager_waited_do_not_belong_to_its_job() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    let first = in_waiting(&daemon);
    let other = suite.command(suite.program("t-ipc")).arg("wait").start();
    other.shows("\n");
    let made = Made::parse(other.stdout().trim());
    other.send(Signal::SIGKILL);
    other.wait();
    suite.mpirun(["-n", "1", "true"]).output().code(0);
    wait_until("it had this job", || Process::is_gone(first.pid));
    assert!(made.shm() && made.sem() && made.msg() && made.posix(), "{made:?}");
}

#[test]
fn without_managers_in_waiting_jobs_run_end_and_are_killed_as_with_them() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "0"]);
    suite.mpirun(["-n", "3", "sh", "-c", "echo here; exit 3"]).output().code(3);
    let job = suite.mpirun(["-n", "2", "sleep", "600"]).start();
    wait_until("ranks", || suite.running("sleep").len() == 2);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    let job = suite.mpirun(["-n", "2", "sleep", "600"]).start();
    wait_until("ranks", || suite.running("sleep").len() == 2);
    process::send(suite.manager().pid, Signal::SIGKILL);
    job.wait().code(125);
    assert!(daemon.manager_in_waiting().is_none());
    suite.only_the_daemon_is_left();
}

#[test]
fn the_number_of_managers_in_waiting_is_an_option_and_a_variable() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "0"]);
    suite.mpirun(["-n", "1", "true"]).output().code(0);
    assert!(daemon.manager_in_waiting().is_none());
    suite.mpd(&["--waiting", "5"]).output().code(2).says(&["--waiting", "0..=4"]);
    let run = suite.mpd(&[]).env("MPD_WAITING", "many");
    run.output().code(1).says(&["MPD_WAITING=many", "from 0 to 4"]).brief();
}

#[test]
fn the_fork_server_ends_the_processes_of_a_job_whose_daemon_and_manager_die_together() {
    let suite = Suite::new();
    let daemon = suite.start_daemon_with(&["--waiting", "1"]);
    let first = in_waiting(&daemon);
    // Neither its session nor its environment is that of the job.
    let script = "setsid env -i sleep 600 & echo escaped $!; sleep 600";
    let job = suite.mpirun(["-n", "1", "bash", "-c", script]).start();
    wait_until("it has escaped", || job.stdout().ends_with('\n'));
    let escaped = job.stdout().trim().rsplit(' ').next().and_then(|pid| pid.parse().ok());
    let escaped: i32 = escaped.expect("a process");
    let group = std::fs::read_to_string(format!("/proc/{escaped}/cgroup")).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let has_group = group.contains("/mpd-");
    wait_until("another manager waits", || in_waiting(&daemon).pid != first.pid);
    let manager = suite.manager();
    // With the next manager, the fork server gets the groups of all jobs.
    wait_until("the fork server has read it", || {
        daemon.fork_server().is_some_and(|server| server.descriptors() > 5) || !has_group
    });
    for process in [&daemon, &manager] {
        process::send(process.pid, Signal::SIGKILL);
    }
    let is_alive = || Process::read(escaped).is_some_and(|it| it.is_alive());
    if has_group {
        wait_until("it is killed", || !is_alive());
    } else {
        mpd_tests::surroundings::skip("control groups of jobs: this system permits none");
        process::send(escaped, Signal::SIGKILL);
    }
    job.wait().failed();
    // The next daemon removes what is left.
    suite.start_daemon_with(&["--waiting", "1"]);
    suite.only_the_daemon_is_left();
}
