//! A connection on the Unix socket: what it may send, and how long.

use std::time::Duration;

use mpd_daemon::{Connection, Input, Submitted, Taken, Way, check_guest, most_consoles};
use mpd_jobtable::Input as JobInput;
use mpd_sansio::Time;
use mpd_wire::frame::Kind;
use mpd_wire::job::{Argset, JobSpec, OnCrash};
use mpd_wire::message::{JobOrder, JobRef, Opening, RingRequest, VERSION};
use mpd_wire::{ConsoleId, RankSet};

const NOW: Time = Time::ZERO;

fn new(way: Way) -> Connection<u8> {
    Connection::new(ConsoleId(20), way, true, NOW)
}

fn refusal(way: Way, opening: &str) -> String {
    new(way).take(Kind::Control, opening.as_bytes()).unwrap_err()
}

fn spec(hold: bool) -> JobSpec {
    let argset = Argset {
        size: 1,
        program: b"./rank".into(),
        directory: b"/work".into(),
        search: b"/bin".into(),
        umask: 0o22,
        ..Argset::default()
    };
    let on_crash = hold.then(|| OnCrash { gdb: b"gdb".into(), hold });
    JobSpec {
        argsets: vec![argset],
        environments: vec![Vec::new()],
        on_crash,
        tmpdir: b"/tmp".into(),
        ..JobSpec::default()
    }
}

/// The connection has announced a specification of this size and has passed these descriptors.
fn submitting(mut connection: Connection<u8>, bytes: usize, passed: &[u8]) -> Connection<u8> {
    let opening = format!(r#"{{"submit":{{"version":11,"spec_bytes":{bytes}}}}}"#);
    let taken = connection.take(Kind::Control, opening.as_bytes());
    assert!(matches!(taken, Ok(Taken::Passes)), "{taken:?}");
    connection.pass(passed.iter().copied().collect());
    connection
}

fn submitted(taken: Result<Taken, String>) -> Submitted {
    match taken {
        Ok(Taken::Asks(Input::Submitted(submitted))) => *submitted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_is_refused_before_the_rest_is_read_and_an_unknown_request_by_its_name() {
    for other in [r#"{"status":{"version":9}}"#, r#"{"later":{"version":[12,13]}}"#] {
        let problem = refusal(Way::Standing, other);
        assert!(problem.starts_with("this daemon speaks version 11 and you speak "), "{problem}");
        assert!(problem.contains("speak 9:") || problem.contains("speak 12 to 13:"), "{problem}");
    }
    let unknown = "the request 'later' is unknown to the daemon of release ";
    for later in [
        r#"{"later":{"version":[10,12]}}"#,
        r#"{"ring":{"version":11,"request":{"later":{"count":1}}}}"#,
    ] {
        assert!(refusal(Way::Standing, later).starts_with(unknown), "{later}");
    }
    let status =
        new(Way::Standing).take(Kind::Control, br#"{"status":{"version":[10,12],"later":1}}"#);
    assert!(
        matches!(status, Ok(Taken::Asks(Input::Status { console: ConsoleId(20) }))),
        "{status:?}"
    );
    assert!(refusal(Way::Standing, "{}").starts_with("malformed message"));
}

#[test]
fn a_guest_may_list_signal_kill_switch_input_and_submit_and_nothing_else() {
    let job = || JobRef::Private(1);
    let ranks = RankSet::all();
    let ring = |request| Opening::Ring { version: VERSION, request };
    let fine = [
        ring(RingRequest::Jobs),
        ring(RingRequest::Job { job: job(), order: JobOrder::Kill }),
        ring(RingRequest::Job { job: job(), order: JobOrder::Signal { signal: 9, single: true } }),
        ring(RingRequest::Job { job: job(), order: JobOrder::SwitchStdin { ranks } }),
        ring(RingRequest::State { job: Some(job()) }),
        Opening::Submit { version: VERSION, spec_bytes: 1 },
    ];
    assert!(fine.iter().all(|opening| check_guest(opening).is_ok()));
    let bad = [
        ring(RingRequest::ExitAll),
        ring(RingRequest::Exit { member: None }),
        ring(RingRequest::Describe),
        ring(RingRequest::Names),
        ring(RingRequest::State { job: None }),
        Opening::Status { version: VERSION },
    ];
    assert!(bad.iter().all(|opening| check_guest(opening).is_err()));
    let problem = refusal(Way::Guest(7), r#"{"status":{"version":11}}"#);
    assert!(problem.starts_with("this daemon runs the job of one mpirun"), "{problem}");
}

#[test]
fn a_specification_comes_whole_with_two_descriptors_and_a_guest_may_only_debug() {
    let encoded = spec(false).encode();
    let mut connection = submitting(new(Way::Owner(7)), encoded.len(), &[1, 2]);
    assert!(matches!(connection.take(Kind::Spec, &encoded[..3]), Ok(Taken::Frame)));
    let submitted = submitted(connection.take(Kind::Spec, &encoded[3..]));
    assert_eq!((submitted.console, submitted.process), (ConsoleId(20), Some(7)));
    assert_eq!(submitted.spec_bytes as usize, encoded.len());
    let handed = connection.handed().unwrap();
    assert_eq!((&handed.encoded, handed.outputs), (&encoded, [1, 2]));
    connection.leave(NOW);
    assert!(connection.handed().is_none(), "its descriptors are closed");
    for (way, passed, bytes, refusal) in [
        (Way::Standing, &[1][..], encoded.len(), "the console passed no standard output and error"),
        (Way::Standing, &[1, 2], encoded.len() - 1, "the specification is longer than announced"),
        (Way::Guest(7), &[1, 2], encoded.len(), "this daemon runs the job of one mpirun"),
    ] {
        let problem = submitting(new(way), bytes, passed).take(Kind::Spec, &encoded).unwrap_err();
        assert!(problem.starts_with(refusal), "{problem}");
    }
}

#[test]
fn a_job_that_no_debugger_would_find_does_not_hold_crashed_ranks() {
    for (hold, is_findable) in [(true, false), (false, false), (true, true)] {
        let encoded = spec(hold).encode();
        let connection = Connection::new(ConsoleId(20), Way::Standing, is_findable, NOW);
        let mut connection = submitting(connection, encoded.len(), &[1, 2]);
        let submitted = submitted(connection.take(Kind::Spec, &encoded));
        assert_eq!(submitted.notice.is_some(), hold && !is_findable);
        let sent = JobSpec::decode(&connection.handed().unwrap().encoded).unwrap();
        let holds = sent.on_crash.is_some_and(|on_crash| on_crash.hold);
        assert_eq!(holds, hold && is_findable);
    }
}

#[test]
fn a_manager_reports_and_sends_nothing_else() {
    let mut manager: Connection<u8> =
        Connection::of_manager(ConsoleId(20), "1@h1".parse().unwrap(), NOW);
    let begun = manager.take(Kind::Control, br#""begun""#);
    assert!(
        matches!(begun, Ok(Taken::Report(Input::Jobs(JobInput::Reported { .. })))),
        "{begun:?}"
    );
    let later = manager.take(Kind::Control, br#"{"later":{}}"#);
    assert!(matches!(&later, Ok(Taken::Skipped(kind)) if kind == "later"), "{later:?}");
    assert!(matches!(manager.take(Kind::Unknown(99), b""), Ok(Taken::Skipped(_))));
    assert_eq!(manager.take(Kind::Spec, b"").unwrap_err(), "an unexpected frame");
}

#[test]
fn requests_and_last_answers_have_ten_seconds_and_managers_and_owners_all_the_time() {
    let late = Some(NOW + Duration::from_secs(10));
    let mut connection = new(Way::Standing);
    assert_eq!(connection.deadline(), late);
    connection.take(Kind::Control, br#"{"status":{"version":11}}"#).unwrap();
    assert_eq!(connection.deadline(), None, "it waits for our answer");
    connection.leave(NOW + Duration::from_secs(5));
    assert_eq!(connection.deadline(), Some(NOW + Duration::from_secs(15)));
    connection.register("1@h1".parse().unwrap());
    assert_eq!((connection.deadline(), new(Way::Owner(7)).deadline()), (None, None));
    assert_eq!((most_consoles(0), most_consoles(400), most_consoles(1 << 40)), (8, 100, 4096));
}
