//! PMIx connections that arrive, and those that may be read.

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::Rank;

use crate::fixture;
use crate::net::text_of;
use mpd_clients::Clients;
use mpd_clients::Job;
use mpd_clients::{Accepted, Input};
use mpd_clients::{Action, Output};
use mpd_clients::{Client, ConnectionId};

/// A machine with one running rank, which may connect.
fn machine() -> (Clients, Job) {
    let job = fixture::job();
    let mut clients = Clients::new(&job);
    assert_eq!(
        outputs(&mut clients, &job, 0, Input::Connected(Rank(0), Client::Program)),
        Vec::<String>::new()
    );
    (clients, job)
}

/// The outputs of an input after that time.
fn outputs(clients: &mut Clients, job: &Job, ms: u64, input: Input<'_>) -> Vec<String> {
    clients.handle(at(ms), job, input);
    rest(clients)
}

fn rest(clients: &mut Clients) -> Vec<String> {
    std::iter::from_fn(|| clients.poll_output()).map(|output| text_of(&output)).collect()
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn own(numbers: &[usize]) -> Accepted {
    Accepted { own: numbers.to_vec(), ..Accepted::default() }
}

#[test]
fn a_foreign_connection_ends_the_accepts_for_a_while_unless_a_rank_may_be_behind_it() {
    let (mut clients, job) = machine();
    let foreign = || Accepted { met_foreign: true, ..Accepted::default() };
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(foreign())), Vec::<String>::new());
    assert!(clients.may_accept());
    let slow = Accepted { was_slow: true, ..foreign() };
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(slow)), ["Rest"]);
    assert!(!clients.may_accept());
    clients.handle_timeout(at(100), &job);
    assert_eq!(rest(&mut clients), ["Listen"]);
    assert!(clients.may_accept());
    // The system could not watch the port.
    assert_eq!(outputs(&mut clients, &job, 100, Input::NoWatch), Vec::<String>::new());
    clients.handle_timeout(at(200), &job);
    assert_eq!(rest(&mut clients), ["Listen"]);
}

#[test]
fn a_rank_that_starts_ends_the_rest_of_the_port() {
    let (mut clients, job) = machine();
    let slow = Accepted { met_foreign: true, was_slow: true, ..Accepted::default() };
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(slow)), ["Rest"]);
    let started = Input::Connected(Rank(1), Client::Program);
    assert_eq!(outputs(&mut clients, &job, 1, started), ["Listen"]);
}

#[test]
fn a_connection_has_ten_seconds_to_introduce_itself() {
    let (mut clients, job) = machine();
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(own(&[0, 1]))), Vec::<String>::new());
    assert_eq!(clients.connections_of(Rank(0)), [(0, false), (1, false)]);
    assert_eq!(clients.poll_timeout(), Some(at(10_000)));
    clients.handle_timeout(at(10_000), &job);
    assert_eq!(rest(&mut clients), ["Close(Pmix(0))", "Close(Pmix(1))"]);
    assert_eq!(clients.connections_of(Rank(0)), []);
}

#[test]
fn the_oldest_of_too_many_unknown_connections_are_closed_after_a_while() {
    let (mut clients, job) = machine();
    let many: Vec<usize> = (0..67).collect();
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(own(&many))), Vec::<String>::new());
    assert!(!clients.may_accept());
    clients.handle_timeout(at(100), &job);
    assert_eq!(rest(&mut clients), ["Close(Pmix(0))", "Close(Pmix(1))"]);
    assert!(clients.may_accept());
}

#[test]
fn accepts_pause_after_descriptors_have_run_out() {
    let (mut clients, job) = machine();
    let failed = Accepted { has_failed: true, ..Accepted::default() };
    assert_eq!(outputs(&mut clients, &job, 0, Input::Accepted(failed)), Vec::<String>::new());
    assert!(!clients.may_accept());
    clients.handle_timeout(at(100), &job);
    assert!(clients.may_accept());
}

#[test]
fn a_connection_of_no_rank_is_closed() {
    let (mut clients, job) = machine();
    clients.handle(at(0), &job, Input::Connected(Rank(9), Client::Program));
    let output = clients.poll_output();
    assert!(
        matches!(output, Some(Output::Act(Action::Close(ConnectionId::Pmi(Rank(9)))))),
        "{output:?}"
    );
}
