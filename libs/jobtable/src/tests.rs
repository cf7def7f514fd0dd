//! The table on a host that answers its questions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey, ManagerEnd, namespace_mark};
use mpd_wire::message::{
    ConsoleReply, HostLimits, JobRef, Launch, ManagerOrder, ManagerReport, Opening, RankRun,
    VERSION,
};
use mpd_wire::{ConsoleId, DaemonName, Instance, JobId, Pid, RankSet};

use crate::{
    Action, Answer, Beginning, Event, Given, Input, JobTable, Marked, Output, Question, RecordState,
};

const KILLED: ManagerEnd = ManagerEnd::Signaled { signal: 9, core: false };

/// The daemon h2 and its processes.
struct Host {
    table: JobTable,
    now: Time,
    last: i32,
    /// The answers to [`Question::HandOver`]; a new process if there is none.
    hand_overs: VecDeque<Result<Pid, String>>,
    /// What the fork server has made.
    copies: Vec<Result<Pid, String>>,
    /// The control group of each job that starts.
    group: Option<String>,
    /// The records of jobs of an earlier daemon.
    records: BTreeMap<JobId, RecordState>,
    /// The children of the daemon, for searches for orphans. A kill removes the others.
    children: BTreeSet<Pid>,
    /// Children of other users.
    immune: BTreeSet<Pid>,
    /// Children that come from no manager.
    strangers: BTreeSet<Pid>,
    is_stopped: bool,
    is_oom: bool,
    /// What the table has done and asked, in its order.
    log: Vec<String>,
    events: Vec<Event>,
}

impl Host {
    fn new() -> Self {
        Self::with(|beginning| beginning)
    }

    fn with(change: impl FnOnce(Beginning) -> Beginning) -> Self {
        let beginning = Beginning {
            name: "h2".to_owned(),
            instance: Instance::from_bytes([2; 16]),
            host: "h2".to_owned(),
            user: Some("user".to_owned()),
            rundir: None,
            limits: HostLimits::default(),
            wanted: 0,
            patience: None,
            first: None,
            inherited: Vec::new(),
        };
        Self {
            table: JobTable::new(change(beginning), Time::ZERO),
            now: Time::ZERO,
            last: 100,
            hand_overs: VecDeque::new(),
            copies: Vec::new(),
            group: None,
            records: BTreeMap::new(),
            children: BTreeSet::new(),
            immune: BTreeSet::new(),
            strangers: BTreeSet::new(),
            is_stopped: false,
            is_oom: false,
            log: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Gives an input. Returns what the table has done and asked, without lines of the log.
    fn give(&mut self, input: Input) -> Vec<String> {
        self.table.handle(self.now, input);
        self.settle();
        std::mem::take(&mut self.log)
    }

    fn pass(&mut self, ms: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(ms);
        self.table.handle_timeout(self.now);
        self.settle();
        std::mem::take(&mut self.log)
    }

    fn settle(&mut self) {
        while let Some(output) = self.table.poll_output() {
            match output {
                Output::Ask(question) => {
                    let answer = self.answer(question);
                    self.table.handle(self.now, Input::Answer(answer));
                }
                Output::Event(event) => self.events.push(event),
                Output::Log(_) => {}
                Output::Perform(Action::RemoveRecord(job)) => {
                    self.log.push(format!("remove the record of {job}"))
                }
                Output::Perform(Action::CloseRecord(job)) => {
                    self.log.push(format!("close the record of {job}"))
                }
                Output::Perform(Action::RemoveGroup(path)) => {
                    self.log.push(format!("remove {path}"))
                }
                Output::Perform(Action::Kill(pid)) => self.log.push(format!("kill {pid}")),
                Output::Perform(Action::Terminate(pid)) => {
                    self.log.push(format!("terminate {pid}"))
                }
                Output::Perform(Action::LeftBehind(pid)) => self.log.push(format!("leave {pid}")),
                Output::Perform(Action::Guard { manager, .. }) => {
                    self.log.push(format!("guard {manager}"))
                }
                Output::Perform(Action::GiveUpCopies) => self.log.push("give up copies".to_owned()),
                Output::Perform(Action::DropForkServer) => {
                    self.log.push("drop the fork server".to_owned())
                }
                Output::Perform(Action::EndWaiting) => {
                    self.log.push("end those in waiting".to_owned());
                }
            }
        }
    }

    fn answer(&mut self, question: Question) -> Answer {
        let mut note = |text: String| self.log.push(text);
        match question {
            Question::MakeGroup => {
                note("make a group".to_owned());
                Answer::Group(self.group.clone())
            }
            Question::WriteRecord(record) => {
                note(format!("write the record of {}", record.job));
                Answer::Done(Ok(()))
            }
            Question::HandOver { job, waiting, .. } => {
                note(format!("give {job} to {waiting:?}"));
                let result = self.hand_overs.pop_front();
                Answer::Started(
                    result.unwrap_or_else(|| Ok(waiting.unwrap_or_else(|| self.new_process()))),
                )
            }
            Question::StartForkServer => {
                note("start the fork server".to_owned());
                Answer::Started(Ok(Pid(50)))
            }
            Question::RequestCopy => {
                note("request a copy".to_owned());
                Answer::Done(Ok(()))
            }
            Question::Copies => Answer::Copies(std::mem::take(&mut self.copies)),
            Question::IsStopped(pid) => {
                note(format!("look at {pid}"));
                Answer::Is(self.is_stopped)
            }
            Question::RanOutOfMemory(_) => Answer::Is(self.is_oom),
            Question::Record(job) => {
                Answer::Record(self.records.get(&job).copied().unwrap_or(RecordState::Gone))
            }
            Question::Sweep { job, just_died } => {
                note(format!("sweep {job}, just died: {just_died}"));
                Answer::Started(Ok(self.new_process()))
            }
            Question::Children => Answer::Pids(self.children.iter().copied().collect()),
            Question::Orphans(unknown, _) => {
                let ours = unknown.into_iter().filter(|pid| !self.strangers.contains(pid));
                Answer::Pids(ours.collect())
            }
            Question::KillChildren(spared) => {
                let killed = |pid: &Pid| !spared.contains(pid) && !self.immune.contains(pid);
                let killed: Vec<Pid> = self.children.extract_if(.., |pid| killed(pid)).collect();
                self.log
                    .push(format!("kill {:?}", killed.iter().map(|pid| pid.0).collect::<Vec<_>>()));
                let immune = self.children.intersection(&self.immune);
                Answer::Pids(immune.filter(|pid| !spared.contains(pid)).copied().collect())
            }
        }
    }

    fn new_process(&mut self) -> Pid {
        self.last += 1;
        Pid(self.last)
    }

    fn start(&mut self, job: &JobId, tree_index: usize) -> Vec<String> {
        let launch = Box::new(launch(job));
        match tree_index {
            0 => self.give(Input::StartRoot(launch, Given::default())),
            _ => self.give(Input::StartBranch(launch, tree_index)),
        }
    }

    fn report(&mut self, job: &JobId, report: ManagerReport) {
        self.give(Input::Reported { job: job.clone(), report });
    }

    /// The manager `pid` of a job dies, and its last reports were read.
    fn die(&mut self, job: &JobId, pid: i32, is_unread: bool) -> Vec<String> {
        self.give(Input::ChildDied(Pid(pid), Some(KILLED)));
        assert!(matches!(self.events.pop(), Some(Event::ManagerDied(dead)) if dead == *job));
        self.give(Input::ManagerGone { job: job.clone(), is_unread })
    }

    /// The job of the only event about the end of a manager, and that end.
    fn cause(&mut self) -> Option<(JobId, ManagerEnd)> {
        let cause = |event| match event {
            Event::ManagerEnded { job, end } => Some((job, end)),
            _ => None,
        };
        std::mem::take(&mut self.events).into_iter().find_map(cause)
    }
}

fn job(text: &str, instance: u8) -> JobId {
    text.parse::<JobId>().unwrap().of(Instance::from_bytes([instance; 16]))
}

fn launch(job: &JobId) -> Launch {
    let host_slice = |host: u8| HostSlice {
        member: DaemonName::new(&format!("h{host}")).unwrap(),
        manager: Instance::from_bytes([host; 16]),
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(u32::from(host) - 1, u32::from(host) - 1)]),
    };
    Launch {
        job: job.clone(),
        key: JobKey::from_bytes([3; 32]),
        cookie: Cookie::from_bytes([1; 16]),
        kvsname: "k".into(),
        tmpdir: "/tmp".into(),
        host_slices: HostSlices::new((1..=2).map(host_slice).collect(), 2).unwrap(),
        universe: None,
        first: 0,
    }
}

fn record(job: &JobId, tree_index: u32) -> JobRecord {
    JobRecord { job: job.clone(), cookie: Cookie::from_bytes([1; 16]), tree_index, cgroup: None }
}

fn registers(job: &JobId, tree_index: u32) -> Input {
    let opening = Opening::Register {
        version: VERSION,
        job: job.clone(),
        cookie: Cookie::from_bytes([1; 16]),
        tree_index,
        manager: Instance::from_bytes([4; 16]),
        key: JobKey::from_bytes([3; 32]),
    };
    Input::Registers { connection: ConsoleId(7), opening, pid: Pid(9) }
}

fn ended() -> ManagerReport {
    ManagerReport::Ended { code: 0, unlinked: false }
}

// ----- starts -----

#[test]
fn a_start_makes_the_group_and_the_record_before_a_manager_gets_the_job() {
    let mut host = Host::new();
    let own = job("1@h2", 2);
    let order = ["make a group", "write the record of 1@h2", "give 1@h2 to None"];
    assert_eq!(host.start(&own, 0), order);
    assert!(matches!(host.events[..], [Event::Started(Ok(()))]));
    assert_eq!(host.table.root(&own), Some(true));
    assert_eq!(host.table.new_id(None).unwrap(), job("2@h2", 2));
}

#[test]
fn a_failed_start_leaves_neither_record_nor_group_nor_job() {
    let mut host = Host::new();
    host.group = Some("/g".to_owned());
    host.hand_overs.push_back(Err("no more processes".to_owned()));
    let done = host.start(&job("1@h2", 2), 0);
    assert_eq!(done[3..], ["remove the record of 1@h2", "remove /g"]);
    assert!(matches!(&host.events[..], [Event::Started(Err(why))] if why == "no more processes"));
    assert!(host.table.is_idle());
}

#[test]
fn a_manager_that_died_in_waiting_is_passed_over() {
    let mut host = Host::with(|beginning| Beginning { wanted: 2, ..beginning });
    host.pass(100);
    host.pass(0);
    host.copies = vec![Ok(Pid(61)), Ok(Pid(62))];
    host.hand_overs.push_back(Err("its connection is closed".to_owned()));
    let done = host.start(&job("1@h2", 2), 0);
    assert_eq!(done[2..], ["give 1@h2 to Some(Pid(61))", "give 1@h2 to Some(Pid(62))"]);
    assert!(matches!(host.events[..], [Event::Started(Ok(()))]));
}

#[test]
fn a_branch_that_runs_is_not_started_again_and_one_of_another_job_of_its_name_is_refused() {
    let mut host = Host::new();
    let of_h1 = job("7@h1", 1);
    assert_eq!(host.start(&of_h1, 1).len(), 3);
    assert!(host.start(&of_h1, 1).is_empty());
    let other = Launch { cookie: Cookie::from_bytes([9; 16]), ..launch(&of_h1) };
    assert!(host.give(Input::StartBranch(Box::new(other), 1)).is_empty());
    assert!(host.give(Input::StartBranch(Box::new(launch(&job("8@h1", 1))), 5)).is_empty());
    let results: Vec<bool> =
        host.events.iter().map(|event| matches!(event, Event::Started(Ok(())))).collect();
    assert_eq!(results, [true, true, false, false]);
}

#[test]
fn a_job_of_a_private_ring_is_named_by_its_console_and_is_there_once() {
    let mut host = Host::new();
    let id = host.table.new_id(Some(77)).unwrap();
    assert_eq!(host.table.new_id(Some(77)).unwrap(), id);
    host.start(&id, 0);
    assert!(host.table.new_id(Some(77)).unwrap_err().contains("running already"));
    assert_eq!(host.table.new_id(None).unwrap(), job("1@h2", 2), "it has no number");
}

#[test]
fn a_manager_in_waiting_is_copied_from_a_fork_server_that_guards_the_groups_of_jobs() {
    let mut host = Host::with(|beginning| Beginning { wanted: 1, ..beginning });
    host.group = Some("/g".to_owned());
    host.start(&job("1@h2", 2), 0);
    let order = ["start the fork server", "request a copy", "guard 101"];
    assert_eq!(host.pass(100), order);
    host.copies.push(Ok(Pid(61)));
    assert!(host.start(&job("2@h2", 2), 0).contains(&"give 2@h2 to Some(Pid(61))".to_owned()));
    assert_eq!(host.give(Input::ChildDied(Pid(50), None)), ["drop the fork server"]);
    assert_eq!(host.pass(1000)[0], "start the fork server");
}

#[test]
fn managers_in_waiting_of_an_idle_host_end_and_their_deaths_are_no_failures() {
    let patience = Some(Duration::from_secs(10));
    let mut host = Host::with(|beginning| Beginning { wanted: 1, patience, ..beginning });
    host.pass(100);
    host.copies.push(Ok(Pid(61)));
    assert!(host.pass(9_000).is_empty());
    assert_eq!(host.pass(900), ["end those in waiting"]);
    assert!(host.table.is_idle());
    for pid in [61, 50] {
        assert!(host.give(Input::ChildDied(Pid(pid), None)).is_empty());
    }
    assert!(host.pass(60_000).is_empty() && host.table.poll_timeout().is_none());
    host.start(&job("1@h2", 2), 0);
    assert_eq!(host.pass(250), ["start the fork server", "request a copy"]);
}

// ----- ends -----

#[test]
fn the_job_of_a_dead_manager_is_swept_unless_it_had_ended() {
    let mut host = Host::new();
    let (running, over) = (job("1@h2", 2), job("2@h2", 2));
    host.start(&running, 0);
    host.start(&over, 0);
    host.report(&over, ended());
    assert!(!host.table.is_running(&over) && host.table.count() == 2);
    host.events.clear();
    assert_eq!(host.die(&over, 102, false), ["remove the record of 2@h2"]);
    assert_eq!(host.die(&running, 101, false), ["sweep 1@h2, just died: true"]);
    assert!(host.table.is_helper(Pid(103)) && !host.table.is_idle());
    host.give(Input::ChildDied(Pid(103), None));
    host.pass(0);
    assert!(host.table.is_idle());
}

#[test]
fn the_root_manager_on_another_host_gets_the_cause_unless_the_job_has_ended_here() {
    let mut host = Host::new();
    let (running, over, own) = (job("7@h1", 1), job("8@h1", 1), job("9@h2", 2));
    for (job, tree_index) in [(&running, 1), (&over, 1), (&own, 0)] {
        host.start(job, tree_index);
    }
    host.report(&over, ended());
    host.events.clear();
    host.die(&over, 102, false);
    assert_eq!(host.cause(), None);
    host.die(&own, 103, false);
    assert_eq!(host.cause(), None, "its console detects the end");
    host.die(&running, 101, false);
    assert_eq!(host.cause(), Some((running, KILLED)));
}

#[test]
fn the_end_of_a_manager_is_its_signal_or_code_or_the_lack_of_memory() {
    let cause = |end, is_oom| {
        let mut host = Host::new();
        host.is_oom = is_oom;
        let of_h1 = job("7@h1", 1);
        host.start(&of_h1, 1);
        host.give(Input::ChildDied(Pid(101), end));
        host.give(Input::ManagerGone { job: of_h1, is_unread: false });
        host.cause().map(|(_, end)| end)
    };
    assert_eq!(cause(Some(KILLED), false), Some(KILLED));
    assert_eq!(cause(Some(KILLED), true), Some(ManagerEnd::OutOfMemory));
    let failed = ManagerEnd::Exited(101);
    assert_eq!(cause(Some(failed), false), Some(failed));
    assert_eq!(cause(Some(ManagerEnd::Exited(0)), false), None, "an exit with 0 explains nothing");
    assert_eq!(cause(None, false), None);
}

#[test]
fn a_silent_manager_is_killed_and_its_job_goes_to_a_new_one_if_it_was_not_read() {
    let mut host = Host::new();
    let of_h1 = job("7@h1", 1);
    host.group = Some("/g".to_owned());
    host.start(&of_h1, 1);
    host.is_stopped = true;
    assert_eq!(
        host.table.silent(Time::ZERO + Duration::from_secs(1)),
        std::slice::from_ref(&of_h1)
    );
    assert_eq!(host.pass(1000), ["look at 101", "kill 101"]);
    host.events.clear();
    let done = host.die(&of_h1, 101, true);
    let again =
        ["remove the record of 7@h1", "remove /g", "make a group", "write the record of 7@h1"];
    assert_eq!(done[..4], again);
    assert_eq!(done[4], "give 7@h1 to None");
    assert!(host.events.is_empty() && host.table.has_branch(&of_h1), "nobody waits for the result");
    host.report(&of_h1, ManagerReport::Begun);
    assert!(host.pass(20_000).is_empty());
}

#[test]
fn a_silent_manager_that_has_read_its_job_has_no_successor() {
    let mut host = Host::new();
    let of_h1 = job("7@h1", 1);
    host.start(&of_h1, 1);
    assert_eq!(host.pass(8000), ["look at 101", "kill 101"]);
    host.events.clear();
    assert_eq!(host.die(&of_h1, 101, false), ["sweep 7@h1, just died: true"]);
    assert!(!host.table.has_branch(&of_h1));
}

// ----- orphans -----

#[test]
fn children_of_a_dead_manager_are_killed_and_managers_helpers_and_inherited_ones_are_not() {
    let mut host = Host::with(|beginning| Beginning { inherited: vec![Pid(5)], ..beginning });
    let (one, two) = (job("1@h2", 2), job("2@h2", 2));
    host.start(&one, 0);
    host.start(&two, 0);
    host.give(Input::Helper(Pid(6)));
    host.events.clear();
    host.children = [5, 6, 102, 900, 901].map(Pid).into();
    host.immune = [Pid(901)].into();
    host.die(&one, 101, false);
    assert_eq!(host.pass(0), ["kill [900]", "leave 901"]);
    assert!(host.pass(900).is_empty(), "no further look follows");
}

#[test]
fn the_first_process_of_a_container_spares_children_that_come_from_no_manager() {
    let mut host = Host::new();
    let one = job("1@h2", 2);
    host.start(&one, 0);
    host.events.clear();
    host.children = [900, 950].map(Pid).into();
    host.strangers = [Pid(950)].into();
    host.die(&one, 101, false);
    assert_eq!(host.pass(0), ["kill [900]"]);
    assert!(host.children.contains(&Pid(950)));
}

#[test]
fn a_new_manager_in_waiting_is_no_orphan_for_a_tenth_of_a_second() {
    let mut host = Host::with(|beginning| Beginning { wanted: 1, ..beginning });
    let one = job("1@h2", 2);
    host.start(&one, 0);
    host.events.clear();
    host.pass(100);
    host.children = [50, 900].map(Pid).into();
    host.die(&one, 101, false);
    assert!(host.pass(99).is_empty());
    assert_eq!(host.pass(2), ["kill [900]", "give up copies"]);
}

// ----- jobs of an earlier daemon -----

#[test]
fn a_job_of_an_earlier_daemon_is_adopted_swept_or_forgotten_by_its_record() {
    let mut host = Host::new();
    let [held, free, gone] = ["7@h2", "8@h2", "9@h2"].map(|text| job(text, 9));
    host.records = [(held.clone(), RecordState::Held), (free.clone(), RecordState::Free)].into();
    let records = [&held, &free, &gone].map(|job| record(job, 0)).to_vec();
    let order = ["sweep 8@h2, just died: false", "close the record of 9@h2"];
    assert_eq!(host.give(Input::Found(records)), order);
    assert!(!host.table.are_known());
    assert_eq!(host.table.new_id(None).unwrap(), job("10@h2", 2), "numbers go on");
    host.give(registers(&held, 0));
    assert!(
        matches!(&host.events[..], [Event::Registered { connection: ConsoleId(7), result: Ok(job) }] if *job == held)
    );
    host.pass(1000);
    assert!(host.table.are_known() && host.table.root(&held) == Some(true));
    // It is not a child, so the end of its connection is its end.
    let order = ["sweep 7@h2, just died: true"];
    assert_eq!(host.give(Input::ManagerClosed(held)), order);
}

#[test]
fn a_manager_with_another_cookie_is_refused() {
    let mut host = Host::new();
    let one = job("7@h2", 9);
    host.records = [(one.clone(), RecordState::Held)].into();
    let other = JobRecord { cookie: Cookie::from_bytes([8; 16]), ..record(&one, 0) };
    host.give(Input::Found(vec![other]));
    host.give(registers(&one, 0));
    assert!(matches!(&host.events[..], [Event::Registered { result: Err(_), .. }]));
    assert_eq!(host.table.root(&one), Some(false));
}

#[test]
fn a_job_of_an_earlier_daemon_has_its_mark_once_its_manager_has_registered() {
    let mut host = Host::new();
    let one = job("7@h1", 9);
    host.records = [(one.clone(), RecordState::Held)].into();
    host.give(Input::Found(vec![record(&one, 0)]));
    let mark = namespace_mark(&JobKey::from_bytes([3; 32]).pmix_secret());
    assert_eq!(host.table.find_by_mark(&mark), Marked::Unregistered(one.clone()));
    host.give(registers(&one, 0));
    assert_eq!(host.table.find_by_mark(&mark), Marked::Job(one));
    assert_eq!(host.table.find_by_mark("0f"), Marked::None);
}

#[test]
fn a_root_manager_is_found_by_the_whole_id_of_its_job() {
    let mut host = Host::new();
    let (own, other, over) = (job("9@h2", 2), job("7@h1", 1), job("8@h2", 2));
    host.start(&own, 0);
    host.start(&other, 1);
    host.start(&over, 0);
    host.report(&over, ended());
    assert!(host.table.root(&own).is_some());
    for id in [other, over, job("9@h2", 3), "9@h2".parse().unwrap()] {
        assert!(host.table.root(&id).is_none(), "{}", id.in_full());
    }
}

// ----- consoles and orders -----

#[test]
fn a_console_gets_the_state_of_a_manager_or_the_reason_why_there_is_none() {
    let mut host = Host::new();
    let one = job("1@h2", 2);
    let ask = |job: &str| Input::StateAsked {
        console: ConsoleId(20),
        job: JobRef::Id(job.parse().unwrap()),
    };
    host.give(ask("1@h2"));
    let is_refusal = |event: &Event| {
        matches!(
            event,
            Event::Answer {
                console: ConsoleId(20),
                reply: ConsoleReply::Refused { .. },
                is_last: true
            }
        )
    };
    assert!(matches!(&host.events[..], [refusal] if is_refusal(refusal)), "{:?}", host.events);
    host.start(&one, 0);
    host.events.clear();
    host.give(ask("1@h2"));
    let Some(Event::ToManager(message)) = host.events.pop() else { panic!("no question") };
    let ManagerOrder::State { request } = message.order else { panic!("{message:?}") };
    host.report(&one, ManagerReport::State { request, text: "all".to_owned(), more: true });
    assert!(matches!(
        host.events.pop(),
        Some(Event::Answer { console: ConsoleId(20), is_last: false, .. })
    ));
    host.give(Input::ManagerClosed(one));
    assert!(host.events.pop().is_some_and(|event| is_refusal(&event)));
}

#[test]
fn debuggers_end_when_the_job_of_the_private_ring_is_over() {
    let mut host = Host::new();
    let target = host.table.new_id(Some(77)).unwrap();
    let debugger = host.table.new_id(Some(78)).unwrap();
    host.start(&target, 0);
    host.start(&debugger, 0);
    host.events.clear();
    host.give(Input::OwnerGone(77));
    assert!(host.events.is_empty(), "the job still runs");
    host.report(&target, ended());
    host.die(&target, 101, false);
    for _ in 0..2 {
        host.give(Input::OwnerGone(77));
    }
    let [Event::ToManager(message)] = &host.events[..] else { panic!("{:?}", host.events) };
    assert_eq!((&message.job, &message.order), (&debugger, &ManagerOrder::Kill));
}

#[test]
fn a_manager_counts_output_once_until_it_has_answered() {
    let mut host = Host::new();
    let one = job("1@h2", 2);
    host.start(&one, 0);
    host.events.clear();
    host.give(Input::CountOutput);
    assert!(host.events.is_empty(), "it has no ranks");
    let run = RankRun {
        world: None,
        parent: None,
        program: "a".to_owned(),
        ranks: RankSet::below(1),
        pids: vec![7],
    };
    host.report(&one, ManagerReport::Ranks { alias: None, held: false, runs: vec![run] });
    host.give(Input::CountOutput);
    host.give(Input::CountOutput);
    assert_eq!(host.events.len(), 1);
    host.report(&one, ManagerReport::Written { counts: vec![(mpd_wire::Rank(0), 8)] });
    let (samples, more) = host.table.usage(host.now, 0);
    assert_eq!((samples.len(), more), (1, false));
    assert_eq!((samples[0].run.ranks[0].written, samples[0].manager), (8, Some(Pid(101))));
    host.give(Input::CountOutput);
    assert_eq!(host.events.len(), 2);
}

#[test]
fn a_job_that_ended_before_all_its_managers_had_connected_is_cancelled_and_managers_end_on_request()
{
    let mut host = Host::new();
    let one = job("1@h2", 2);
    host.start(&one, 0);
    assert_eq!(host.give(Input::Terminate), ["terminate 101"]);
    host.events.clear();
    host.report(&one, ManagerReport::Ended { code: 1, unlinked: true });
    assert!(matches!(&host.events[..], [Event::Cancelled(job)] if *job == one));
    host.events.clear();
    host.report(&job("5@h2", 2), ManagerReport::Ended { code: 1, unlinked: true });
    assert!(host.events.is_empty(), "it is not known");
}
