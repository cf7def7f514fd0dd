//! A node that is a ring of one: what it asks of its process, and its answers.

use mpd_alloc::data::{AllocNews, AllocRequest, Hardness, Strings};
use mpd_alloc::exchange::{self, Ask, Reply};
use mpd_wire::message::{HostUse, JobOrder, JobRef};

use std::time::Duration;

use super::*;
use crate::lease::First;
use crate::saved::RingImage;
use crate::tests::{SomeJobs, config};

const CONSOLE: usize = 20;

/// A node with its jobs, at a time.
struct Host {
    node: Node,
    jobs: SomeJobs,
    now: Time,
}

impl Host {
    /// A daemon h1 that has entered a ring of one.
    fn new(lease: Option<LeaseTerms>) -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        let facts = Facts {
            identity: RingIdentity { name: "sea".to_owned(), key: "k".to_owned() },
            release: "1.2".to_owned(),
            pid: 77,
            uid: 7,
            arch: "x".to_owned(),
            cpus: 4,
            speed_hundredths: Some(250),
            has_hook: false,
        };
        let membership = Membership {
            entrance: Entrance {
                addresses: Vec::new(),
                patience: Duration::from_secs(10),
                give_up: None,
            },
            saved: Saved::new(None, "sea", "h1").0,
            former: BTreeSet::new(),
            kept: None,
            lease,
        };
        let pump = Pump::new(Ring::new(now, config()));
        let node = Node::new((now, 5), pump, facts, membership, mpd_alloc::Saved::default());
        let mut host = Self { node, jobs: SomeJobs::default(), now };
        host.turn(true);
        assert!(host.node.has_entered());
        host
    }

    fn give(&mut self, input: Input) -> Vec<Output> {
        self.node.handle(Turn { now: self.now, wall_us: 5, jobs: &self.jobs.table }, input);
        self.turn(true)
    }

    fn turn(&mut self, is_needed: bool) -> Vec<Output> {
        let turn = Turn { now: self.now, wall_us: 5, jobs: &self.jobs.table };
        self.node.begin_turn(turn, is_needed);
        self.node.turn(turn, false);
        self.node.end_turn(turn);
        std::iter::from_fn(|| self.node.poll_output()).collect()
    }

    fn ask(&mut self, request: RingRequest) -> Vec<Output> {
        self.give(Input::Asked { console: CONSOLE, request })
    }
}

/// The answers to the console, each with the flag whether it is the last one.
fn answers(outputs: &[Output]) -> Vec<(&ConsoleReply, bool)> {
    let answer = |output| match output {
        &Output::Answer { console: CONSOLE, ref reply, is_last } => Some((reply, is_last)),
        _ => None,
    };
    outputs.iter().filter_map(answer).collect()
}

fn position(outputs: &[Output], is_it: impl Fn(&Output) -> bool) -> Option<usize> {
    outputs.iter().position(is_it)
}

#[test]
fn a_member_describes_itself_with_the_facts_of_its_process() {
    let outputs = Host::new(None).ask(RingRequest::Census);
    let [(ConsoleReply::Census { members, missing, .. }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!((members[0].version.as_str(), members[0].pid, missing.len()), ("1.2", 77, 0));
}

#[test]
fn the_use_of_a_host_is_answered_when_it_is_measured_and_has_the_given_speed() {
    let mut host = Host::new(None);
    let outputs = host.ask(RingRequest::Top);
    assert!(answers(&outputs).is_empty());
    let [Output::CountOutput, Output::Measure { order, page: Some(0) }] = outputs[..] else {
        panic!("{outputs:?}")
    };
    let measured = HostUse {
        at_us: 1,
        cpus: 4,
        load_hundredths: 3,
        speed_hundredths: 100,
        busy_ms: 2,
        memory_kib: 9,
        available_kib: 8,
    };
    let ranks = Some((Vec::new(), false));
    let outputs = host.give(Input::Measured { order, host: measured.clone(), ranks });
    let [(ConsoleReply::Top { hosts, .. }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(hosts[0].machine, HostUse { speed_hundredths: 250, ..measured });
}

#[test]
fn an_order_to_a_job_goes_to_its_root_manager_and_one_to_an_unknown_job_is_refused() {
    let mut host = Host::new(None);
    let job: JobId = "3@h1".parse().unwrap();
    let kill =
        || RingRequest::Job { job: JobRef::Id("3@h1".parse().unwrap()), order: JobOrder::Kill };
    let outputs = host.ask(kill());
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Refused { .. }, true)]));
    host.jobs.start_root(&job, [1; 32]);
    let outputs = host.ask(kill());
    let is_kill = |output: &Output| {
        let order = ManagerOrder::Job(JobOrder::Kill);
        matches!(output, Output::ToManager(message) if *message == ManagerMessage::new(job.clone(), order))
    };
    assert!(position(&outputs, is_kill).is_some(), "{outputs:?}");
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Done { .. }, true)]));
}

#[test]
fn the_record_of_slots_is_saved_before_the_console_learns_of_them() {
    let mut host = Host::new(None);
    let request = AllocRequest {
        count: 2,
        hardness: Hardness::Hard,
        hosts: Vec::new(),
        arch: Vec::new(),
        width: 1,
        limit_s: None,
        uid: 0,
        since_us: 0,
    };
    let ask = Ask::Allocate { request: Box::new(request), strings: Strings::default() };
    let mut outputs = host.ask(RingRequest::Slots(exchange::encode(&ask)));
    for _ in 0..20 {
        host.now = host.now + Duration::from_millis(100);
        outputs.extend(host.turn(true));
    }
    let is_grant = |output: &Output| match output {
        Output::Answer { reply: ConsoleReply::Slots(payload), is_last: false, .. } => {
            matches!(exchange::decode(payload), Ok(Reply::News(AllocNews::Granted { .. })))
        }
        _ => false,
    };
    let granted = position(&outputs, is_grant).expect("a grant");
    let saved = position(&outputs, |output| matches!(output, Output::SaveSlots(_)));
    assert!(saved.is_some_and(|saved| saved < granted), "{outputs:?}");
}

#[test]
fn a_daemon_that_leaves_by_order_forgets_its_records_answers_its_console_and_closes_its_links() {
    let mut host = Host::new(None);
    let outputs = host.ask(RingRequest::Exit { member: None });
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Done { .. }, true)]));
    for wanted in [
        |output: &Output| matches!(output, Output::ForgetRing { key: false }),
        |output: &Output| matches!(output, Output::ForgetSlots),
        |output: &Output| matches!(output, Output::CloseAll),
    ] {
        assert!(position(&outputs, wanted).is_some(), "{outputs:?}");
    }
    assert!(!host.node.accepts() && host.node.is_over(host.now, true));
}

#[test]
fn a_daemon_that_ends_on_a_signal_saves_the_ring_for_the_next_one() {
    let mut host = Host::new(None);
    let before = host.turn(true);
    let outputs: Vec<Output> = before.into_iter().chain(host.give(Input::Signalled)).collect();
    let is_forgotten =
        |output: &Output| matches!(output, Output::ForgetRing { .. } | Output::ForgetSlots);
    assert_eq!(position(&outputs, is_forgotten), None);
    assert!(position(&outputs, |output| matches!(output, Output::CloseAll)).is_some());
}

#[test]
fn the_saved_ring_is_that_of_the_next_daemon_of_the_same_ring_and_name() {
    let mut host = Host::new(None);
    host.node.pump.post(RingInput::Drain(true));
    host.now = host.now + Duration::from_secs(2);
    let outputs: Vec<Output> = [host.turn(true), host.turn(true)].into_iter().flatten().collect();
    let text = outputs.iter().find_map(|output| match output {
        Output::SaveRing(text) => Some(text),
        _ => None,
    });
    let text = text.expect("a record");
    let image = || serde_json::from_slice::<RingImage>(text).ok();
    assert_eq!(Saved::new(image(), "sea", "h1").1.port, Some(0));
    assert_eq!(Saved::new(image(), "sea", "h2").1.port, None);
    assert_eq!(Saved::new(image(), "", "h1").1.port, None);
}

#[test]
fn the_first_daemon_of_a_private_ring_leaves_with_all_when_it_is_not_needed() {
    let terms = LeaseTerms { first: First::Me, pulse: Duration::from_secs(1), idle: None };
    let mut host = Host::new(Some(terms));
    host.give(Input::Signalled);
    assert!(host.node.accepts(), "a signal alone does not end it");
    let outputs: Vec<Output> = [host.turn(false), host.turn(false)].into_iter().flatten().collect();
    let is_it = |output: &Output| matches!(output, Output::ForgetRing { key: true });
    assert!(position(&outputs, is_it).is_some(), "{outputs:?}");
}

#[test]
fn a_users_undo_of_a_drain_by_root_is_refused_with_the_reason_and_the_host_stays_drained() {
    let mut host = Host::new(None);
    host.give(Input::HostMarked(true));
    let drain =
        |draining| RingRequest::Drain { members: vec![host.node.ring().name().clone()], draining };
    let (begin, end) = (drain(true), drain(false));
    let outputs = host.ask(begin);
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Done { .. }, true)]), "{outputs:?}");
    let outputs = host.ask(end);
    let [(ConsoleReply::Refused { problem }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(problem, "h1: root has drained this host");
    let is_draining = |host: &Host| {
        let ring = host.node.ring();
        ring.record(ring.name()).expect("a record").draining
    };
    assert!(is_draining(&host));
    host.give(Input::HostMarked(false));
    assert!(!is_draining(&host), "the user had ended his own drain");
}
