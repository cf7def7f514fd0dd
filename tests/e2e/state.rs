//! `mpdstate`: a live daemon, or a job's manager on this host, prints the state of its machine.

use crate::across::ring;
use crate::attacker::key_in;
use crate::members::Members;
use crate::run::{Output, wait_until};
use crate::suite::{Suite, is_root, skip};

const SECRET: &str = "the value of a variable";

fn state(ring: &Members, index: usize, arguments: &[&str]) -> Output {
    let command = ring.suite.command(ring.suite.program("mpdstate")).args(arguments);
    command.env("MPD_RUNDIR", ring.rundir(index)).output()
}

#[test]
fn a_daemon_and_the_managers_of_a_job_print_their_states_without_secrets() {
    let ring = ring();
    let arguments = ["-a", "long", "-n", "2", "-ppn", "1", "sleep", "60"];
    let job = ring.mpirun(1, &arguments).env("MY_SECRET", SECRET).start();
    wait_until("it runs", || ring.suite.running("sleep").len() == 2);
    let key: String =
        key_in(&ring.suite.path("home/key")).iter().map(|byte| format!("{byte:02x}")).collect();
    let has = |output: &Output, parts: &[&str]| {
        let text = output.code(0).quiet().out();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains(&key) && !text.contains(SECRET), "{text}");
        text
    };
    has(&state(&ring, 1, &[]), &["Ring {", "phase: Member", "\"d4\""]);
    let root = has(&state(&ring, 1, &["1"]), &["Manager {", "phase: Running", "tree_index: 0"]);
    assert!(root.contains("root: Some("), "{root}");
    let below = has(&state(&ring, 2, &["1@d1"]), &["Manager {", "tree_index: 1", "root: None"]);
    assert_ne!(root, below);
    has(&state(&ring, 2, &["long"]), &["tree_index: 1"]);
    state(&ring, 3, &["1@d1"]).code(1).says(&["no job 1@d1 on this host"]);
    state(&ring, 1, &["7"]).code(1).says(&["no job 7@d1 on this host"]);
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.wait();
    ring.only_daemons_are_left();
}

#[test]
fn mpdstate_prints_the_manager_of_a_job_without_a_daemon() {
    let suite = Suite::new();
    let job = suite.mpirun(["-n", "1", "sleep", "60"]).start();
    wait_until("it runs", || suite.running("sleep").len() == 1);
    let name = format!("p{}", job.pid());
    let state =
        |arguments: &[&str]| suite.command(suite.program("mpdstate")).args(arguments).output();
    assert!(state(&[&name]).code(0).out().contains("phase: Running"));
    state(&[]).code(1).says(&["no daemon is running"]);
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.wait();
    suite.gone(&[]);
}

#[test]
fn mpdstate_prints_no_state_to_another_user() {
    if !is_root() {
        return skip("another user: needs root, to become one");
    }
    let suite = Suite::as_user(60_204);
    suite.start_daemon();
    // The other user can execute this copy, also if the build's directory belongs to root alone.
    suite.allow("bin", 0o711);
    let command = suite.as_self(suite.program("t-run")).arg("uid=60205");
    let asked = command.arg(suite.program("mpdstate")).output();
    asked.code(1).says(&["mpdstate: "]);
    assert_eq!(asked.out(), "");
    suite.only_the_daemon_is_left();
}
