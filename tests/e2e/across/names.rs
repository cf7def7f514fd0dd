//! Names that one job publishes and another looks up.

use std::fs;

use crate::across::ring;
use crate::members::Members;
use crate::mpi::libraries_with_ports;
use crate::run::{Run, Running, wait_until};
use crate::suite::Suite;

const NONE: &str = "cmd=lookup_result rc=1 msg=service_not_found\n";

/// What `rank` of a job of eight ranks says, and is told.
fn say(ring: &Members, index: usize, rank: &str, lines: &[&str]) -> Run {
    let run = ring.mpirun(index, &["-n", "8", &ring.suite.program("t-pmi"), "say", rank]);
    run.args(lines).deadline(60)
}

/// A job whose rank 5, on d3, has published a name, and stays.
fn publisher(ring: &Members, then: &[&str]) -> Running {
    let until = format!("until={}", ring.suite.path("stop").display());
    let mut lines = vec!["publish_name service=my ocean port=tag#0$port#1$", until.as_str()];
    lines.extend(then);
    let job = say(ring, 1, "5", &lines).start();
    wait_until("a name", || job.stdout() == "cmd=publish_result rc=0 msg=success\n");
    job
}

fn stop(ring: &Members) {
    fs::write(ring.suite.path("stop"), "").expect("a file");
}

fn look_up(ring: &Members, index: usize) -> String {
    say(ring, index, "0", &["lookup_name service=my ocean"]).output().code(0).quiet().out()
}

const FOUND: &str = "cmd=lookup_result rc=0 msg=success port=tag#0$port#1$\n";

#[test]
fn a_name_is_found_from_every_host_once_it_is_published_and_gone_with_its_job() {
    let ring = ring();
    assert_eq!(look_up(&ring, 2), NONE);
    let job = publisher(&ring, &[]);
    for index in 1..=4 {
        assert_eq!(look_up(&ring, index), FOUND, "d{index}");
    }
    let program = ring.suite.program("mpdnames");
    let listed = ring.suite.command(program).env("MPD_RUNDIR", ring.rundir(2)).output();
    let job_id = listed.code(0).out().split(' ').nth(2).expect("a job").to_owned();
    listed.prints(&format!("\"my ocean\" {job_id} d3 \"tag#0$port#1$\"\n"));
    assert!(job_id.ends_with("@d1"), "{listed}");
    let others = say(
        &ring,
        4,
        "0",
        &["publish_name service=my ocean port=x", "unpublish_name service=my ocean"],
    );
    others.output().code(0).prints(
        "cmd=publish_result rc=1 msg=key_already_present\n\
         cmd=unpublish_result rc=1 msg=service_not_found\n",
    );
    stop(&ring);
    job.wait().code(0).quiet();
    wait_until("nobody has it", || look_up(&ring, 4) == NONE);
    ring.only_daemons_are_left();
}

#[test]
fn a_name_that_is_taken_back_is_gone_while_its_job_goes_on() {
    let ring = ring();
    let last = format!("until={}", ring.suite.path("end").display());
    let job = publisher(&ring, &["unpublish_name service=my ocean", &last]);
    stop(&ring);
    wait_until("it is taken back", || {
        job.stdout().ends_with("cmd=unpublish_result rc=0 msg=success\n")
    });
    wait_until("nobody has it", || look_up(&ring, 2) == NONE);
    fs::write(ring.suite.path("end"), "").expect("a file");
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn names_vanish_with_a_job_that_is_killed() {
    let ring = ring();
    let mut job = publisher(&ring, &[]);
    job.send(nix::sys::signal::Signal::SIGKILL);
    wait_until("it is over", || job.has_ended());
    wait_until("nobody has it", || look_up(&ring, 1) == NONE);
    ring.only_daemons_are_left();
}

#[test]
fn a_name_outlives_the_daemon_that_it_was_published_through() {
    let ring = ring();
    let job = publisher(&ring, &[]);
    ring.kill(3);
    ring.start_again(3);
    ring.agree();
    wait_until("it is there again", || look_up(&ring, 1) == FOUND);
    stop(&ring);
    job.wait().code(0).quiet();
    wait_until("nobody has it", || look_up(&ring, 1) == NONE);
    ring.only_daemons_are_left();
}

#[test]
fn who_asks_while_the_daemon_is_away_is_answered_by_the_next() {
    let ring = ring();
    let job = publisher(&ring, &["lookup_name service=my ocean", "publish_name service=b port=c"]);
    ring.kill(3);
    stop(&ring);
    let own = format!("cmd=publish_result rc=0 msg=success\n{FOUND}");
    wait_until("what was published here is found here", || job.stdout() == own);
    ring.start_again(3);
    job.wait().code(0).quiet().prints(&(own + "cmd=publish_result rc=0 msg=success\n"));
    ring.only_daemons_are_left();
}

#[test]
fn ranks_of_a_job_alone_find_each_others_names() {
    let suite = Suite::new();
    let lines =
        ["publish_name service=a port=b", "lookup_name service=a", "publish_name service=a port=c"];
    let output = suite.ranks(2, "t-pmi", &["say", "1"]).args(lines).output();
    output.code(0).quiet().prints(
        "cmd=publish_result rc=0 msg=success\ncmd=lookup_result rc=0 msg=success port=b\n\
         cmd=publish_result rc=1 msg=key_already_present\n",
    );
}

#[test]
fn programs_of_real_libraries_that_were_started_apart_meet_by_a_name() {
    for library in libraries_with_ports() {
        let ring = ring();
        let meet = |index: usize, how: &str| {
            let run = ring
                .mpirun(index, &["-n", "4"])
                .arg(library.program("meet"))
                .args([how, "a place"]);
            library.dress_for_ports(run).env("MPIR_CVAR_NOLOCAL", "1").deadline(120).start()
        };
        let (publishes, looks_up) = (meet(1, "publish"), meet(4, "lookup"));
        for job in [publishes, looks_up] {
            let output = job.wait();
            assert_eq!(output.code(0).out(), "meet: 8 together\n", "{}: {output}", library.name);
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn programs_of_real_libraries_that_were_started_apart_join_over_a_socket() {
    for library in libraries_with_ports() {
        let ring = ring();
        let file = ring.suite.path("port").display().to_string();
        let join = |index: usize, how: &str| {
            let run = ring.mpirun(index, &["-n", "1"]).arg(library.program("join"));
            library.dress_for_ports(run.args([how, &file])).deadline(120).start()
        };
        let (listens, connects) = (join(2, "listen"), join(3, "connect"));
        listens.wait().code(0).quiet().prints("join: 42 of the other\n");
        connects.wait().code(0).quiet().prints("join: 17 of the other\n");
        ring.only_daemons_are_left();
    }
}
