//! Clients of PMIx that do what no library does. Each costs its sender the connection and at most its job: another job
//! on the host continues, and so does the daemon.

use crate::run::Output;
use crate::suite::Suite;

/// A job of three ranks, the middle one of which performs these steps, beside another job and its daemon.
fn beside_another_job(steps: &[&str]) -> Output {
    let suite = Suite::new();
    let daemon = suite.start_daemon().pid;
    let mut other = suite.ranks(2, "t-raw-pmix", &["waits"]).input_pipe().start();
    let output = suite.ranks(3, "t-raw-pmix", &["1"]).args(steps).deadline(60).output();
    drop(other.stdin());
    other.wait().code(0).quiet();
    suite.only_the_daemon_is_left();
    assert_eq!(suite.daemon().pid, daemon);
    output
}

/// The answers to a rank whose job succeeds without a message.
fn is_served(steps: &[&str], answers: &[&str]) {
    let output = beside_another_job(steps);
    output
        .code(0)
        .quiet()
        .prints(&answers.iter().map(|line| format!("{line}\n")).collect::<String>());
}

/// Checks a rank that connects and does one thing more, for which its job ends with a message.
fn is_ended(step: &str, message: &str) {
    let output = beside_another_job(&["connect", step]);
    output.code(1).says(&["rank 1", message]).brief();
    assert!(output.out().starts_with("connect accepted\n"), "{output}");
}

const CONNECT: [&str; 2] = ["connect", "fence"];
const CORRECT: [&str; 3] = ["connect accepted", "fence done", "finalize done"];

/// Steps of a correct client behind others, and its answers behind theirs.
fn and_then_correct<'a>(steps: &[&'a str], answers: &[&'a str]) {
    let steps = [steps, &CONNECT, &["finalize"]].concat();
    is_served(&steps, &[answers, &CORRECT].concat());
}

#[test]
fn a_wrong_namespace_or_rank_is_refused_and_the_right_one_is_served_after_it() {
    and_then_correct(
        &["connect=mpd-0000000000000000,own", "connect=,own", "connect=own,3", "connect=own,77"],
        &["connect refused", "connect refused", "connect refused", "connect refused"],
    );
}

#[test]
fn masses_of_connections_leave_room_for_that_of_the_rank() {
    and_then_correct(&["many=1000"], &["many opened"]);
}

#[test]
fn a_client_that_reads_no_replies_ends_its_job() {
    is_ended("flood=200", "does not read its replies");
}

#[test]
fn malformed_requests_are_answered_with_an_error_and_reported_once() {
    // An unknown command; a fence that ends early; a fence of 2^28 members.
    let steps = ["connect", "request=0263", "request=0203", "request=020302ffffffff7f"];
    let output = beside_another_job(&[&steps[..], &["fence", "finalize"]].concat());
    let answers = ["request answered"; 3];
    let lines: String = [&CORRECT[..1], &answers, &CORRECT[1..]].concat().join("\n");
    output.code(0).prints(&format!("{lines}\n"));
    assert_eq!(output.err().lines().count(), 1, "{output}");
    assert!(output.err().contains("rank 1"), "{output}");
}
