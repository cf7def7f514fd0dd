//! The owners by themselves, without descriptors: the requests that they make of others.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::time::Duration;

use mpd_jobtable::{
    Answer as TableAnswer, Beginning, Given, Input as TableInput, JobTable, Output as TableOutput,
    Question, RecordState,
};
use mpd_leftovers::record::JobRecord;
use mpd_ring::{Event, Input, Publication, RequestId, Ring, UNPUBLISHED};
use mpd_sansio::{Machine as _, Time};
use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey, ManagerEnd};
use mpd_wire::message::{
    Answer, ConsoleReply, HostLimits, Launch, ManagerOrder, NameAnswer, NameOperation, OrderAnswer,
    RingOrder, RingRequest,
};
use mpd_wire::names::{Claim, Hold, Lock, NameKey, SALT};
use mpd_wire::{Address, ConsoleId, DaemonName, JobId, Pid, RankSet, Record, Standing};

use crate::consoles::Consoles;
use crate::effect::{Effect, Farewell};
use crate::launch::{Announcement, Launches};
use crate::local_names::NameRequest;
use crate::names::Naming;
use crate::output::RingAction;
use crate::request::{Gathered, payload_of, read_payload};
use crate::saved::Saved;
use crate::stay::{Entrance, Stay};
use crate::view::RingIdentity;

pub(crate) use fixture::config;

const NOW: Time = Time::ZERO;

/// The console of these tests.
const CONSOLE: ConsoleId = ConsoleId(20);

pub(crate) fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

/// A daemon h1 that has entered no ring yet.
pub(crate) fn ring() -> Ring {
    Ring::new(NOW, config())
}

/// The record of a live member.
pub(crate) fn record() -> Record {
    Record {
        name: name("h1"),
        incarnation: 1,
        standing: Standing::Live,
        instance: mpd_wire::Instance::from_bytes([1; 16]),
        position: 0,
        ordinal: 0,
        ncpus: 1,
        draining: false,
        addresses: Vec::new(),
        by: None,
        age_s: 0,
    }
}

/// The table of jobs of a host h1, on which every manager starts.
#[derive(Debug)]
pub(crate) struct SomeJobs {
    pub(crate) table: JobTable,
    last: i32,
}

impl Default for SomeJobs {
    fn default() -> Self {
        let beginning = Beginning {
            name: "h1".to_owned(),
            instance: mpd_wire::Instance::from_bytes([1; 16]),
            host: "h1".to_owned(),
            user: Some("user".to_owned()),
            rundir: None,
            limits: HostLimits::default(),
            wanted: 0,
            patience: None,
            first: None,
            inherited: Vec::new(),
        };
        Self { table: JobTable::new(beginning, NOW), last: 0 }
    }
}

impl SomeJobs {
    fn give(&mut self, input: TableInput) {
        self.table.handle(NOW, input);
        while let Some(output) = self.table.poll_output() {
            let TableOutput::Ask(question) = output else { continue };
            let answer = match question {
                Question::MakeGroup => TableAnswer::Group(None),
                Question::WriteRecord(_) => TableAnswer::Done(Ok(())),
                Question::Record(_) => TableAnswer::Record(RecordState::Held),
                Question::HandOver { .. } => {
                    self.last += 1;
                    TableAnswer::Started(Ok(Pid(self.last)))
                }
                other => panic!("{other:?}"),
            };
            self.table.handle(NOW, TableInput::Answer(answer));
        }
    }

    /// The root manager of a job was started here. The key of its links has these bytes.
    pub(crate) fn start_root(&mut self, job: &JobId, key: [u8; 32]) {
        let launch = Launch { job: job.clone(), key: JobKey::from_bytes(key), ..launch() };
        self.give(TableInput::StartRoot(Box::new(launch), Given::default()));
    }

    /// An earlier daemon has left the record of a job, whose root manager lives.
    pub(crate) fn find(&mut self, job: &JobId) {
        let (job, cookie) = (job.clone(), Cookie::from_bytes([1; 16]));
        let record = JobRecord { job, cookie, tree_index: 0, cgroup: None };
        self.give(TableInput::Found(vec![record]));
    }
}

fn consoles() -> Consoles {
    Consoles::new(RingIdentity { name: String::new(), key: String::new() })
}

/// A request of the manager of this job.
fn name_request(job: &str, request: u32, operation: NameOperation) -> NameRequest {
    NameRequest::new(job.parse().unwrap(), request, operation, || Ok([3; SALT]))
}

/// The scatter that an owner requests, and its order.
fn scatter(effect: Option<Effect>) -> (RequestId, RingOrder) {
    match effect {
        Some(Effect::Post(Input::Scatter(request, payload))) => {
            (request, read_payload(&payload).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn gathered(request: RequestId, answers: &[OrderAnswer], missing: &[&str]) -> Gathered {
    let answers =
        answers.iter().map(|answer| Answer { name: name("h1"), answer: payload_of(answer) });
    Gathered {
        request,
        answers: answers.collect(),
        missing: missing.iter().map(|missing| name(missing)).collect(),
        depth: 1,
    }
}

fn ask(consoles: &mut Consoles, ring: &Ring, request: RingRequest) -> Option<Effect> {
    consoles.ask(ring, 0, CONSOLE, request)
}

#[test]
fn a_command_to_an_unknown_member_is_refused_and_nothing_is_scattered() {
    let (mut consoles, ring) = (consoles(), ring());
    let request = RingRequest::Exit { member: Some(name("h9")) };
    assert!(ask(&mut consoles, &ring, request).is_none());
    let Some((CONSOLE, ConsoleReply::Refused { problem }, true)) = consoles.next_answer() else {
        panic!("not refused");
    };
    assert!(problem.starts_with("no daemon h9 is in the ring"), "{problem}");
}

#[test]
fn all_leave_by_two_scatters_and_the_answer_names_the_members_that_either_one_did_not_reach() {
    let (mut consoles, ring) = (consoles(), ring());
    let (first, order) = scatter(ask(&mut consoles, &ring, RingRequest::ExitAll));
    assert_eq!(order, RingOrder::Speak);
    let (second, order) = scatter(consoles.scattered(NOW, &ring, gathered(first, &[], &["h3"])));
    assert_eq!(order, RingOrder::LeaveAll);
    assert!(consoles.next_answer().is_none());
    assert!(consoles.scattered(NOW, &ring, gathered(second, &[], &["h4"])).is_none());
    let missing = vec![name("h3"), name("h4")];
    assert_eq!(consoles.next_answer(), Some((CONSOLE, ConsoleReply::Done { missing }, true)));
}

#[test]
fn pages_of_jobs_are_asked_for_until_no_host_has_more() {
    let (mut consoles, ring) = (consoles(), ring());
    let (request, _) = scatter(ask(&mut consoles, &ring, RingRequest::Jobs));
    let page = |more| OrderAnswer::Jobs { jobs: Vec::new(), more };
    let next = consoles.scattered(NOW, &ring, gathered(request, &[page(true)], &["h3"]));
    let (request, order) = scatter(next);
    assert_eq!(order, RingOrder::ListJobs { page: 1 });
    assert!(consoles.scattered(NOW, &ring, gathered(request, &[page(false)], &[])).is_none());
    let reported = |(_, reply, last)| match reply {
        ConsoleReply::Jobs { missing, more, .. } => (missing.len(), more, last),
        other => panic!("{other:?}"),
    };
    let answers: Vec<_> = std::iter::from_fn(|| consoles.next_answer()).map(reported).collect();
    assert_eq!(answers, [(0, true, false), (1, false, true)]);
}

#[test]
fn a_console_that_is_gone_gets_neither_answers_nor_events() {
    let (mut consoles, ring) = (consoles(), ring());
    let (request, _) = scatter(ask(&mut consoles, &ring, RingRequest::ExitAll));
    assert!(ask(&mut consoles, &ring, RingRequest::Watch).is_none());
    assert!(consoles.next_answer().is_some(), "the first answer to a watching console");
    consoles.forget(CONSOLE);
    assert!(consoles.scattered(NOW, &ring, gathered(request, &[], &[])).is_none());
    consoles.send_to_watchers(&ring, 0, &Event::Stalled);
    consoles.answer_rest();
    assert!(consoles.next_answer().is_none());
}

#[test]
fn a_daemon_that_ends_leaves_no_console_without_an_answer() {
    let (mut consoles, ring) = (consoles(), ring());
    scatter(ask(&mut consoles, &ring, RingRequest::Census));
    consoles.answer_rest();
    let problem = "this daemon is ending".to_owned();
    let refused = ConsoleReply::Refused { problem };
    assert_eq!(consoles.next_answer(), Some((CONSOLE, refused, true)));
}

/// A job on h1 and h2.
fn launch() -> Launch {
    let host_slice = |host: u8| HostSlice {
        member: name(&format!("h{host}")),
        manager: mpd_wire::Instance::from_bytes([host; 16]),
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(u32::from(host) - 1, u32::from(host) - 1)]),
    };
    Launch {
        job: "1@h1".parse().unwrap(),
        key: JobKey::from_bytes([1; 32]),
        cookie: Cookie::from_bytes([2; 16]),
        kvsname: "k".into(),
        tmpdir: "/tmp".into(),
        host_slices: HostSlices::new((1..=2).map(host_slice).collect(), 2).unwrap(),
        universe: None,
        first: 1,
    }
}

#[test]
fn a_cancelled_job_does_not_bar_the_job_of_its_name_after_a_restart_of_its_daemon() {
    let job = |run| {
        let (launch, instance) = (launch(), mpd_wire::Instance::from_bytes([run; 16]));
        Launch { job: launch.job.of(instance), ..launch }
    };
    let mut launches = Launches::new(4);
    launches.cancelled(NOW, job(1).job);
    assert_eq!(launches.own_tree_index(&job(1), &name("h2")), None);
    assert_eq!(launches.own_tree_index(&job(2), &name("h2")), Some(1));
}

#[test]
fn the_root_manager_gets_a_report_of_hosts_that_did_not_get_its_job() {
    let mut launches = Launches::new(4);
    let announcement = Announcement::new(&launch(), false).unwrap().unwrap();
    let (request, order) = scatter(Some(launches.announce(NOW, 0, announcement)));
    assert!(matches!(order, RingOrder::Launch(_)));
    let effects = launches.unannounced(NOW, request, "no room");
    let [Effect::Log(_), Effect::Report(manager_message)] = &effects[..] else {
        panic!("{effects:?}")
    };
    let members = vec![(name("h2"), "no room".to_owned())];
    assert_eq!(manager_message.order, ManagerOrder::Missing { members });
    assert!(launches.unannounced(NOW, request, "no room").is_empty(), "reported once");
}

#[test]
fn a_cancelled_job_is_not_started_by_a_late_order() {
    let mut launches = Launches::new(4);
    assert_eq!(launches.own_tree_index(&launch(), &name("h2")), Some(1));
    assert_eq!(launches.own_tree_index(&launch(), &name("h3")), None, "not of this job");
    launches.cancelled(NOW, launch().job);
    assert_eq!(launches.own_tree_index(&launch(), &name("h2")), None);
}

#[test]
fn a_name_that_is_unknown_before_the_ring_was_entered_may_be_known_later() {
    let (mut naming, ring) = (Naming::new(), ring());
    let answer = |naming: &mut Naming, entered| {
        let operation = NameOperation::Lookup { name: "a".into(), key: None };
        naming.request(name_request("1@h1", 5, operation));
        let mut effects = naming.serve(NOW, &ring, entered, |_| true);
        match effects.pop() {
            Some(Effect::Report(manager_message)) => manager_message.order,
            other => panic!("{other:?}"),
        }
    };
    let unknown = ManagerOrder::Named { request: 5, answer: NameAnswer::Unknown };
    assert_eq!(answer(&mut naming, true), unknown);
    let ManagerOrder::Named { answer: NameAnswer::Later(_), .. } = answer(&mut naming, false)
    else {
        panic!("final");
    };
}

#[test]
fn the_names_of_a_job_are_removed_when_it_is_over_here() {
    let (mut naming, ring) = (Naming::new(), ring());
    let (name, value, hold) = ("a".into(), "1".into(), Hold::Job);
    let operation = NameOperation::Publish { name, value, key: None, hold };
    naming.request(name_request("1@h1", 5, operation));
    let effects = naming.serve(NOW, &ring, true, |_| true);
    assert!(matches!(&effects[..], [Effect::Post(Input::Publish { .. })]), "{effects:?}");
    let effects = naming.serve(NOW, &ring, true, |_| false);
    assert!(matches!(&effects[..], [Effect::Post(Input::JobOver(_))]), "{effects:?}");
    assert!(naming.serve(NOW, &ring, true, |_| false).is_empty(), "once");
}

#[test]
fn a_name_that_another_job_takes_back_is_the_one_with_that_value_and_its_job_learns_of_it() {
    let (mut naming, mut ring) = (Naming::new(), ring());
    while ring.poll_output().is_some() {}
    let (name, value, job) = ("a".into(), "1".into(), "1@h1".parse().unwrap());
    let claim = Claim { name, value, job, lock: None, hold: Hold::Shared };
    ring.handle(NOW, Input::Publish { request: RequestId(1), claim });
    while ring.poll_output().is_some() {}
    let take = |naming: &mut Naming, value: &str| {
        naming.take_back(&ring, "a", &"1@h1".parse().unwrap(), value).is_some()
    };
    assert!(take(&mut naming, "1") && !take(&mut naming, "2"));
    let operation = NameOperation::Unpublish { name: "a".into(), key: None };
    naming.request(name_request("2@h1", 5, operation));
    let effects = naming.serve(NOW, &ring, true, |_| true);
    let lost = ManagerOrder::NameLost { name: "a".into(), to: None };
    let [Effect::Report(message), Effect::Post(Input::Unpublish { .. })] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(message.order, lost);
}

#[test]
fn the_publisher_of_a_name_is_informed_of_refused_keys_once_a_second() {
    let (mut naming, mut ring) = (Naming::new(), ring());
    while ring.poll_output().is_some() {}
    let (name, value, job) = ("a".to_owned(), "1".into(), "1@h1".parse().unwrap());
    let lock = Some(Lock::new([7; SALT], &NameKey::new("a", b"deep")));
    let claim = Claim { name, value, job, lock, hold: Hold::Job };
    ring.handle(NOW, Input::Publish { request: RequestId(1), claim });
    while ring.poll_output().is_some() {}
    let mut told = |now, lookups| {
        for request in 0..lookups {
            let operation = NameOperation::Lookup { name: "a".into(), key: None };
            naming.request(name_request("2@h1", request, operation));
        }
        let effects = naming.serve(now, &ring, true, |_| true);
        let orders = effects.into_iter().filter_map(|effect| match effect {
            Effect::Report(message) => Some(message.order),
            Effect::Log(_) => None,
            other => panic!("{other:?}"),
        });
        let all: Vec<ManagerOrder> = orders.collect();
        let unknown = |order: &&ManagerOrder| {
            matches!(order, ManagerOrder::Named { answer: NameAnswer::Unknown, .. })
        };
        assert_eq!(all.iter().filter(unknown).count(), lookups as usize, "no port is given");
        let counts = all.into_iter().filter_map(|order| match order {
            ManagerOrder::NameRefused(refusal) => Some(refusal.count),
            _ => None,
        });
        (counts.collect::<Vec<_>>(), naming.next_deadline())
    };
    let later = NOW + Duration::from_secs(1);
    assert_eq!(told(NOW, 1), (vec![1], Some(later)));
    assert_eq!(told(NOW, 500), (vec![], Some(later)));
    assert_eq!(told(later, 0), (vec![500], Some(later + Duration::from_secs(1))));
    assert_eq!(told(later + Duration::from_secs(1), 0), (vec![], None));
}

#[test]
fn the_end_of_a_manager_is_sent_to_the_daemon_in_the_id_of_its_job() {
    let (job, end) = ("7@h3".parse::<JobId>().unwrap(), ManagerEnd::OutOfMemory);
    let effect = Launches::new(4).manager_ended(job.clone(), end);
    let Some(Effect::Post(Input::Send(_, to, payload))) = effect else { panic!("{effect:?}") };
    assert_eq!(to, name("h3"));
    let order = read_payload::<RingOrder>(&payload).unwrap();
    assert_eq!(order, RingOrder::ManagerEnded { job, end });
}

#[test]
fn a_name_that_is_read_and_taken_back_before_its_publication_is_complete_is_not_kept() {
    let (mut naming, ring) = (Naming::new(), ring());
    let (name, value, hold) = ("a".into(), "1".into(), Hold::Shared);
    let operation = NameOperation::Publish { name, value, key: None, hold };
    naming.request(name_request("1@h1", 5, operation));
    let effects = naming.serve(NOW, &ring, true, |_| true);
    let [Effect::Post(Input::Publish { request, .. })] = &effects[..] else {
        panic!("{effects:?}")
    };
    let effects = naming.published(*request, Publication::Refused(UNPUBLISHED));
    let [Effect::Report(answer), Effect::Report(lost)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(answer.order, ManagerOrder::Named { request: 5, answer: NameAnswer::Done });
    assert_eq!(lost.order, ManagerOrder::NameLost { name: "a".into(), to: None });
}

fn stay() -> Stay {
    let (saved, _) = Saved::new(None, "", "h1");
    let named = vec![Address::new("192.0.2.1:7").unwrap()];
    let entrance = Entrance::new(NOW, Duration::from_secs(1), false, named);
    Stay::new(entrance, saved, None, None)
}

#[test]
fn a_departing_daemon_still_connects_to_others_and_one_that_leaves_with_all_does_not() {
    for (how, connects) in [(Farewell::Depart, true), (Farewell::WithAll, false)] {
        let mut stay = stay();
        stay.leave(NOW, how);
        assert_eq!(stay.connects(), connects, "{how:?}");
        let effects = stay.review_leaving(NOW, &ring());
        let [Effect::Perform(RingAction::ForgetRing { key }), leave] = &effects[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(*key, !connects, "the key goes with the whole ring");
        assert_eq!(matches!(leave, Effect::Post(Input::Leave)), connects);
        assert_eq!(matches!(leave, Effect::End), !connects);
    }
}

#[test]
fn a_daemon_that_cannot_enter_anywhere_gives_up_with_the_last_reason() {
    let mut stay = stay();
    let (me, late) = (name("h1"), NOW + Duration::from_secs(10));
    let last = "192.0.2.1:7: connection refused";
    assert_eq!(stay.failure(NOW, &me, last), None);
    let failure = stay.failure(late, &me, last).unwrap();
    assert_eq!(failure, format!("cannot enter the ring: {last}"));
    stay.note(&Event::Entered { members: 2 });
    assert_eq!(stay.failure(late, &me, last), None);
    stay.note(&Event::SteppedDown);
    assert!(stay.failure(late, &me, last).unwrap().contains("a daemon named h1 is in the ring"));
}

#[test]
fn a_daemon_that_waits_gives_up_ten_pulses_after_its_introduction() {
    let named = vec![Address::new("192.0.2.1:7").unwrap()];
    let entrance = Entrance::new(NOW, Duration::from_secs(1), true, named);
    let mut stay = Stay::new(entrance, Saved::new(None, "", "h1").0, None, None);
    let after = |seconds| NOW + Duration::from_secs(seconds);
    assert_eq!(stay.failure(after(100), &name("h1"), "x"), None);
    stay.introduced(after(100));
    assert_eq!(stay.failure(after(109), &name("h1"), "x"), None);
    let problem = stay.failure(after(110), &name("h1"), "x").unwrap();
    assert_eq!(problem, "cannot link to the neighbours in the ring: x");
}
