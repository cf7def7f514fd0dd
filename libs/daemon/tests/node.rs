//! A node that is a ring of one, and one without a ring: what they ask of their process, and their answers.

mod fixture;

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_alloc::data::{AllocNews, AllocRequest, Hardness, Strings};
use mpd_alloc::exchange::{self, Ask, Reply};
use mpd_daemon::{
    At, Entrance, Facts, First, Input, Kernel, LeaseTerms, Member, Membership, Node, Output,
    RingAction, RingEvent, RingIdentity, RingImage, Saved, Submitted,
};
use mpd_jobtable::{
    Answer, Beginning, Input as JobInput, JobTable, ManagerMessage, Question, Secrets,
};
use mpd_ring::{Input as RingInput, RequestId, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::frame::compact;
use mpd_wire::job::{
    Argset, Cookie, HostChoice, HostSlice, HostSlices, JobKey, JobSpec, ManagerEnd,
};
use mpd_wire::message::{
    ConsoleReply, HostLimits, HostUse, JobOrder, JobRef, Launch, ManagerOrder, ManagerReport,
    NameAnswer, NameOperation, Opening, RingOrder, RingRequest, VERSION,
};
use mpd_wire::{Address, ConsoleId, DaemonName, Instance, JobId, Pid, RankSet};

use fixture::config;

const CONSOLE: ConsoleId = ConsoleId(20);

/// A host whose answers are always the same.
struct Calm;

impl Kernel for Calm {
    fn random(&self) -> Result<[u8; 16], String> {
        Ok([9; 16])
    }

    fn secrets(&self) -> Result<Secrets, String> {
        Ok(Secrets { key: [1; 32], cookie: [2; 16], kvsname: [3; 16] })
    }

    fn pid(&self) -> u32 {
        1
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn user(&self) -> String {
        "user".to_owned()
    }

    fn wall_us(&self) -> u64 {
        5
    }
}

/// A node, at a time.
struct Host {
    node: Node,
    now: Time,
    last: i32,
    /// Why no manager starts.
    refusal: Option<&'static str>,
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
            entrance: Entrance::new(now, Duration::from_secs(1), false, Vec::new()),
            saved: Saved::new(None, "sea", "h1").0,
            former: BTreeSet::new(),
            kept: None,
            lease,
        };
        let pump = Pump::new(Ring::new(now, config()));
        let member = Member::new((now, 5), pump, facts, membership, mpd_alloc::Saved::default());
        let mut host = Self::of(Some(member));
        host.turn(true);
        assert!(host.node.has_entered());
        host
    }

    /// A daemon h1 without a ring.
    fn alone() -> Self {
        Self::of(None)
    }

    fn of(member: Option<Member>) -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        let beginning = Beginning {
            name: "h1".to_owned(),
            instance: Instance::from_bytes([1; 16]),
            host: "h1".to_owned(),
            user: None,
            rundir: None,
            limits: HostLimits::default(),
            wanted: 0,
            patience: None,
            first: None,
            inherited: Vec::new(),
        };
        let node = Node::new(JobTable::new(beginning, now), member);
        Self { node, now, last: 0, refusal: None }
    }

    const fn at(&self) -> At<'static> {
        At { now: self.now, kernel: &Calm }
    }

    /// Gives an input. Returns what follows at once.
    fn put(&mut self, input: Input) -> Vec<Output> {
        self.node.handle(self.at(), input);
        let mut outputs = Vec::new();
        while let Some(output) = self.node.poll_output() {
            self.take(output, &mut outputs);
        }
        outputs
    }

    /// The same, and a turn.
    fn give(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = self.put(input);
        outputs.extend(self.turn(true));
        outputs
    }

    fn turn(&mut self, is_needed: bool) -> Vec<Output> {
        let at = self.at();
        let mut outputs = Vec::new();
        self.node.begin_turn(at, is_needed);
        self.node.turn(at, false);
        self.node.end_turn(at);
        while let Some(output) = self.node.poll_turn(at) {
            self.take(output, &mut outputs);
        }
        outputs
    }

    /// Answers a question, or keeps the output.
    fn take(&mut self, output: Output, outputs: &mut Vec<Output>) {
        let answer = match output {
            Output::Ask(Question::MakeGroup) => Answer::Group(None),
            Output::Ask(Question::WriteRecord(_)) => Answer::Done(Ok(())),
            Output::Ask(Question::RanOutOfMemory(_)) => Answer::Is(false),
            Output::Ask(Question::Sweep { .. }) => Answer::Started(Ok(Pid(99))),
            Output::Ask(Question::HandOver { .. }) => {
                self.last += 1;
                let refusal = self.refusal.map(str::to_owned);
                Answer::Started(refusal.map_or(Ok(Pid(self.last)), Err))
            }
            Output::Ask(other) => panic!("{other:?}"),
            other => return outputs.push(other),
        };
        self.node.handle(self.at(), Input::Jobs(JobInput::Answer(answer)));
    }

    fn ask(&mut self, request: RingRequest) -> Vec<Output> {
        self.give(Input::Asked { console: CONSOLE, request })
    }

    fn submit(&mut self, spec: JobSpec) -> Vec<Output> {
        let (process, spec_bytes, notice) = (None, 7, None);
        let submitted = Submitted { console: CONSOLE, process, spec, spec_bytes, notice };
        self.put(Input::Submitted(Box::new(submitted)))
    }
}

/// A job with one rank on each of these hosts.
fn launch(job: &str, hosts: [&str; 2]) -> Launch {
    let host_slice = |(rank, host): (u32, &str)| HostSlice {
        member: DaemonName::new(host).unwrap(),
        manager: Instance::from_bytes([host.as_bytes()[1]; 16]),
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(rank, rank)]),
    };
    Launch {
        job: job.parse().unwrap(),
        key: JobKey::from_bytes([1; 32]),
        cookie: Cookie::from_bytes([2; 16]),
        kvsname: "k".into(),
        tmpdir: "/tmp".into(),
        host_slices: HostSlices::new((0..).zip(hosts).map(host_slice).collect(), 2).unwrap(),
        universe: None,
        first: 0,
    }
}

/// An order to all members. No part needs the answers.
fn order(order: &RingOrder) -> Input {
    let payload = compact::to_vec(order).as_slice().into();
    Input::Ring(RingEvent::Link(RingInput::Scatter(RequestId(6), payload)))
}

/// A job of two ranks.
fn spec(host: Option<&str>) -> JobSpec {
    let argset = Argset {
        size: 2,
        program: b"./rank".into(),
        directory: b"/work".into(),
        search: b"/bin".into(),
        umask: 0o22,
        hosts: host.map(|host| vec![HostChoice::new(host.into(), None)]),
        ..Argset::default()
    };
    JobSpec { argsets: vec![argset], environments: vec![Vec::new()], ..JobSpec::default() }
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
    let [Output::Ring(RingAction::Measure { order, page: Some(0) })] = outputs[..] else {
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
    let outputs =
        host.give(Input::Ring(RingEvent::Measured { order, host: measured.clone(), ranks }));
    let [(ConsoleReply::Top { hosts, .. }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(hosts[0].machine, HostUse { speed_hundredths: 250, ..measured });
}

#[test]
fn an_order_to_a_job_goes_to_its_root_manager_and_one_to_an_unknown_job_is_refused() {
    let mut host = Host::new(None);
    let job: JobId = "3@h1".parse().unwrap();
    let kill = || RingRequest::Job { job: JobRef::Id(job.clone()), order: JobOrder::Kill };
    let outputs = host.ask(kill());
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Refused { .. }, true)]));
    host.node.start(host.at(), CONSOLE, launch("3@h1", ["h1", "h2"])).unwrap();
    host.turn(true);
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
    let saved =
        position(&outputs, |output| matches!(output, Output::Ring(RingAction::SaveSlots(_))));
    assert!(saved.is_some_and(|saved| saved < granted), "{outputs:?}");
}

#[test]
fn a_daemon_that_leaves_by_order_forgets_its_records_answers_its_console_and_closes_its_links() {
    let mut host = Host::new(None);
    let outputs = host.ask(RingRequest::Exit { member: None });
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Done { .. }, true)]));
    for wanted in [
        |output: &Output| matches!(output, Output::Ring(RingAction::ForgetRing { key: false })),
        |output: &Output| matches!(output, Output::Ring(RingAction::ForgetSlots)),
        |output: &Output| matches!(output, Output::Ring(RingAction::CloseAll)),
    ] {
        assert!(position(&outputs, wanted).is_some(), "{outputs:?}");
    }
    assert!(!host.node.accepts() && host.node.is_over(host.now, true, true));
}

#[test]
fn a_daemon_that_ends_on_a_signal_saves_the_ring_for_the_next_one() {
    let mut host = Host::new(None);
    let before = host.turn(true);
    let outputs: Vec<Output> = before.into_iter().chain(host.give(Input::Signalled)).collect();
    let is_forgotten = |output: &Output| {
        matches!(
            output,
            Output::Ring(RingAction::ForgetRing { .. }) | Output::Ring(RingAction::ForgetSlots)
        )
    };
    assert_eq!(position(&outputs, is_forgotten), None);
    assert!(
        position(&outputs, |output| matches!(output, Output::Ring(RingAction::CloseAll))).is_some()
    );
}

#[test]
fn the_saved_ring_is_that_of_the_next_daemon_of_the_same_ring_and_name() {
    let mut host = Host::new(None);
    host.put(Input::Ring(RingEvent::Link(RingInput::Drain(true))));
    host.now = host.now + Duration::from_secs(2);
    let outputs: Vec<Output> = [host.turn(true), host.turn(true)].into_iter().flatten().collect();
    let text = outputs.iter().find_map(|output| match output {
        Output::Ring(RingAction::SaveRing(text)) => Some(text),
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
    let is_it =
        |output: &Output| matches!(output, Output::Ring(RingAction::ForgetRing { key: true }));
    assert!(position(&outputs, is_it).is_some(), "{outputs:?}");
}

#[test]
fn a_member_starts_its_manager_of_an_announced_job_and_says_why_it_cannot() {
    for refusal in [None, Some("no more processes")] {
        let mut host = Host::new(None);
        host.refusal = refusal;
        let outputs = host.give(order(&RingOrder::Launch(launch("7@h2", ["h2", "h1"]))));
        let is_refusal = |output: &Output| matches!(output, Output::Log(line) if line.text == "job 7@h2: no more processes");
        assert_eq!(position(&outputs, is_refusal).is_some(), refusal.is_some(), "{outputs:?}");
        assert_eq!(host.node.jobs().count(), u32::from(refusal.is_none()));
    }
}

#[test]
fn a_submitted_job_is_handed_over_when_its_manager_has_it_and_its_hosts_learn_of_it_in_the_turn() {
    for mut host in [Host::new(None), Host::alone()] {
        let outputs = host.submit(spec(None));
        let over = position(&outputs, |output| matches!(output, Output::HandOver(CONSOLE)));
        assert_eq!(over, Some(outputs.len() - 1), "{outputs:?}");
        assert_eq!(host.node.jobs().connected_roots().len(), 1);
    }
    let mut host = Host::new(None);
    host.node.start(host.at(), CONSOLE, launch("3@h1", ["h1", "h2"])).unwrap();
    let mut outputs = host.turn(true);
    outputs.extend(host.turn(true));
    let is_missing = |output: &Output| matches!(output, Output::ToManager(message) if matches!(message.order, ManagerOrder::Missing { .. }));
    assert!(position(&outputs, is_missing).is_some(), "h2 is no member: {outputs:?}");
}

#[test]
fn a_job_that_cannot_be_placed_or_started_is_refused_with_all_causes() {
    let problem = |outputs: &[Output]| match answers(outputs)[..] {
        [(ConsoleReply::Refused { problem }, true)] => problem.clone(),
        ref other => panic!("{other:?}"),
    };
    let elsewhere = problem(&Host::alone().submit(spec(Some("h2"))));
    let alone = "no daemon is running here, so the job can use only this host: not in the ring: h2";
    assert!(elsewhere.starts_with(alone), "{elsewhere}");
    let mut host = Host::new(None);
    host.refusal = Some("no more processes");
    let outputs = host.submit(spec(None));
    assert_eq!(problem(&outputs), "no more processes");
    let is_line = |output: &Output| matches!(output, Output::Log(line) if line.text == "job refused: no more processes");
    assert!(position(&outputs, is_line).is_some(), "{outputs:?}");
    assert!(host.node.jobs().is_idle());
}

#[test]
fn a_manager_whose_job_was_cancelled_meanwhile_registers_and_is_ordered_to_end() {
    let mut host = Host::new(None);
    let launch = launch("7@h2", ["h2", "h1"]);
    let job = launch.job.clone();
    host.give(order(&RingOrder::Cancel { job: job.clone() }));
    host.put(Input::Jobs(JobInput::StartBranch(Box::new(launch.clone()), 1)));
    let opening = Opening::Register {
        version: VERSION,
        job: job.clone(),
        cookie: launch.cookie,
        tree_index: 1,
        manager: Instance::from_bytes([4; 16]),
        key: launch.key,
    };
    let outputs = host.put(Input::Jobs(JobInput::Registers {
        connection: ConsoleId(30),
        opening,
        pid: Pid(9),
    }));
    let kill = ManagerMessage::new(job, ManagerOrder::Kill);
    let [
        Output::Log(_),
        Output::Registered { connection: ConsoleId(30), result: Ok(_) },
        Output::ToManager(message),
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(*message, kill);
}

#[test]
fn the_last_reports_of_a_dead_manager_are_read_before_its_job_is_swept() {
    let mut host = Host::new(None);
    host.submit(spec(None));
    let end = Some(ManagerEnd::Signaled { signal: 9, core: false });
    let outputs = host.put(Input::Jobs(JobInput::ChildDied(Pid(1), end)));
    let [Output::LastReports(job)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(host.node.jobs().count(), 1);
    host.put(Input::Jobs(JobInput::ManagerGone { job: job.clone(), is_unread: false }));
    assert_eq!(host.node.jobs().count(), 0);
}

#[test]
fn a_daemon_is_needed_by_its_owner_its_consoles_and_its_jobs_until_a_signal() {
    let mut host = Host::alone();
    assert!(host.node.is_needed(true, false) && host.node.is_needed(false, true));
    assert!(!host.node.is_needed(false, false) && host.node.is_over(host.now, true, false));
    host.submit(spec(None));
    assert!(host.node.is_needed(false, false) && !host.node.is_over(host.now, true, true));
    host.put(Input::Signalled);
    assert!(!host.node.is_needed(true, true));
}

#[test]
fn a_daemon_without_a_ring_lists_and_orders_its_own_jobs_and_refuses_the_rest() {
    let mut host = Host::alone();
    host.submit(spec(None));
    let outputs = host.ask(RingRequest::Jobs);
    let [(ConsoleReply::Jobs { me, jobs, more: false, .. }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!((me.as_str(), jobs.len()), ("h1", 1));
    let kill = |job| RingRequest::Job { job, order: JobOrder::Kill };
    let own = host.node.jobs().connected_roots().remove(0);
    let outputs = host.ask(kill(JobRef::Id(own)));
    let [
        Output::Log(_),
        Output::Answer { reply: ConsoleReply::Done { .. }, .. },
        Output::ToManager(_),
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    let events = RingRequest::JobEvents { job: JobRef::Private(7), from: None };
    for (request, refusal) in [
        (kill(JobRef::Private(7)), "no job p7; 'mpdlistjobs' lists them"),
        (RingRequest::ExitAll, "this daemon runs the job of one mpirun"),
        (events, "the events of a job are followed through a ring of daemons"),
    ] {
        let outputs = host.ask(request);
        let [(ConsoleReply::Refused { problem }, true)] = &answers(&outputs)[..] else {
            panic!("{outputs:?}")
        };
        assert!(problem.starts_with(refusal), "{problem}");
    }
}

#[test]
fn a_daemon_without_a_ring_serves_the_names_of_its_job_at_once() {
    let mut host = Host::alone();
    host.submit(spec(None));
    let job = host.node.jobs().connected_roots().remove(0);
    let operation = NameOperation::Lookup { name: "a".into(), key: None };
    let report = ManagerReport::Name { request: 3, operation };
    let outputs = host.put(Input::Jobs(JobInput::Reported { job, report }));
    let [Output::ToManager(message)] = &outputs[..] else { panic!("{outputs:?}") };
    let order = ManagerOrder::Named { request: 3, answer: NameAnswer::Unknown };
    assert_eq!(message.order, order);
}

#[test]
fn a_users_undo_of_a_drain_by_root_is_refused_with_the_reason_and_the_host_stays_drained() {
    let mut host = Host::new(None);
    host.give(Input::Ring(RingEvent::HostMarked(true)));
    let drain = |draining| RingRequest::Drain { members: vec![config().name], draining };
    let outputs = host.ask(drain(true));
    assert!(matches!(answers(&outputs)[..], [(ConsoleReply::Done { .. }, true)]), "{outputs:?}");
    let outputs = host.ask(drain(false));
    let [(ConsoleReply::Refused { problem }, true)] = &answers(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(problem, "h1: root has drained this host");
    let is_draining = |host: &Host| {
        let ring = host.node.ring().expect("a ring");
        ring.record(ring.name()).expect("a record").draining
    };
    assert!(is_draining(&host));
    host.give(Input::Ring(RingEvent::HostMarked(false)));
    assert!(!is_draining(&host), "the user had ended his own drain");
}

#[test]
fn a_daemon_enters_through_named_daemons_or_else_those_of_its_earlier_ring() {
    let text = r#"{"ring":"sea","name":"h1","port":7,"members":[{"name":"h2","ordinal":2,"addresses":["10.0.0.2:4"]}]}"#;
    let entered = |waits, named: &[&str]| {
        let (mut saved, mut before) = Saved::new(serde_json::from_str(text).ok(), "sea", "h1");
        let named: Vec<Address> = named.iter().map(|text| Address::new(text).unwrap()).collect();
        let (entries, seeds) = saved.entries(waits, &named, &mut before);
        let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
        (entries, seeds.len())
    };
    assert_eq!(entered(false, &[]), (vec!["10.0.0.2:4".to_owned()], 1));
    assert_eq!(entered(false, &["10.0.0.3:4"]), (vec!["10.0.0.3:4".to_owned()], 0));
    assert_eq!(entered(true, &["10.0.0.3:4"]), (Vec::new(), 0));
}
