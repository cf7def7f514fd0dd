//! The managers of a simulated host, and what the process of its daemon does for the table of jobs.
//!
//! Managers and records outlive daemons. The children of a daemon are its managers, those in waiting, helpers, and the
//! ranks of managers that died.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_jobtable::{Action, Answer, Beginning, Input, JobTable, Question, RecordState};
use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_tests::random::Random;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{
    HostLimits, ManagerOrder, ManagerReport, Opening, RankRun, StartJob, VERSION,
};
use mpd_wire::{ConsoleId, Instance, JobId, Pid, RankSet};

const KILLED: ManagerEnd = ManagerEnd::Signaled { signal: 9, core: false };

/// Why a manager in waiting gets no job.
pub(crate) const DIED: &str = "it has died";

/// The fork server of each daemon. Other processes have greater numbers.
const FORK_SERVER: Pid = Pid(1);

/// A manager of a job, or one in waiting.
#[derive(Clone, Debug)]
struct Manager {
    /// Its order; `None` while it waits.
    job: Option<Box<StartJob>>,
    /// It was stopped before it has read its job.
    is_stopped: bool,
    /// Whether its daemon knows it.
    is_connected: bool,
    /// Whether its daemon has started it.
    is_child: bool,
}

/// What runs on a host, and its records of jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    last: i32,
    all: BTreeMap<Pid, Manager>,
    /// The ranks of all jobs, also of those whose managers died.
    ranks: BTreeMap<Pid, JobId>,
    records: BTreeMap<JobId, JobRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// The fork server reports this manager.
    Copied(Pid),
    /// This manager has read its job, and starts its ranks.
    Begins(Pid),
    /// This manager has no daemon and registers.
    Registers(Pid),
    /// This helper has removed what the job left.
    Swept(Pid),
    /// The daemon reaps this child.
    Reaped(Pid),
}

/// The processes of a daemon for its jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    host: Managers,
    random: Random,
    helpers: BTreeMap<Pid, JobId>,
    /// Ranks that are children of the daemon, because their manager died.
    orphans: BTreeSet<Pid>,
    has_fork_server: bool,
    /// Children that have died and were not reaped.
    dead: BTreeMap<Pid, ManagerEnd>,
    alarms: BTreeSet<(Time, Alarm)>,
    /// The copies that the fork server has reported since the last question.
    copies: Vec<Pid>,
    /// What happens next, before anything else.
    pub(crate) next: VecDeque<Input>,
    /// The jobs of other daemons that have got a manager here, until the world takes them.
    pub(crate) started: Vec<JobId>,
    pub(crate) violations: Vec<String>,
    /// For the trace.
    pub(crate) lines: Vec<String>,
}

impl Managers {
    /// Everything on the host has ended.
    pub(crate) fn lose_power(&mut self) {
        self.all.clear();
        self.ranks.clear();
    }

    fn new_process(&mut self) -> Pid {
        self.last += 1;
        Pid(FORK_SERVER.0 + self.last)
    }

    fn of(&self, job: &JobId) -> Option<Pid> {
        let is_it = |manager: &Manager| manager.job.as_ref().is_some_and(|of| of.job == *job);
        self.all.iter().find(|(_, manager)| is_it(manager)).map(|(pid, _)| *pid)
    }

    /// A helper removes what a job left.
    fn sweep(&mut self, job: &JobId) {
        self.records.remove(job);
        self.ranks.retain(|_, of| of != job);
    }
}

impl Jobs {
    /// Those of a new daemon, which takes over what an earlier one has left.
    pub(crate) fn new(now: Time, instance: Instance, host: Managers) -> Self {
        let [first, ..] = instance.to_bytes();
        let mut jobs = Self {
            host,
            random: Random::new(u64::from(first)),
            helpers: BTreeMap::new(),
            orphans: BTreeSet::new(),
            has_fork_server: false,
            dead: BTreeMap::new(),
            alarms: BTreeSet::new(),
            copies: Vec::new(),
            next: VecDeque::new(),
            started: Vec::new(),
            violations: Vec::new(),
            lines: Vec::new(),
        };
        jobs.give(Input::Found(jobs.host.records.values().cloned().collect()));
        let managers: Vec<Pid> = jobs.host.all.keys().copied().collect();
        for pid in managers {
            jobs.set_alarm(now, 1000, Alarm::Registers(pid));
            jobs.set_alarm(now, 500, Alarm::Begins(pid));
        }
        jobs
    }

    /// The daemon has ended. Managers in waiting end with it, and helpers finish.
    pub(crate) fn into_host(mut self) -> Managers {
        self.helpers.values().for_each(|job| self.host.sweep(job));
        self.host.all.retain(|_, manager| manager.job.is_some() && !manager.is_stopped);
        for manager in self.host.all.values_mut() {
            (manager.is_child, manager.is_connected) = (false, false);
        }
        self.host
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Does the next thing that is due. `false`: nothing is.
    pub(crate) fn turn(&mut self, now: Time) -> bool {
        let Some(&(at, alarm)) = self.alarms.first().filter(|(at, _)| *at <= now) else {
            return false;
        };
        self.alarms.remove(&(at, alarm));
        self.ring(alarm);
        true
    }

    fn set_alarm(&mut self, now: Time, most_ms: usize, alarm: Alarm) {
        let delay = Duration::from_millis(1 + self.random.below(most_ms) as u64);
        self.alarms.insert((now + delay, alarm));
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Copied(pid) => self.copies.push(pid),
            Alarm::Begins(pid) => self.begin(pid),
            Alarm::Registers(pid) => self.register(pid),
            Alarm::Swept(pid) => {
                let Some(job) = self.helpers.remove(&pid) else { return };
                if self.host.of(&job).is_some() {
                    self.violations
                        .push(format!("a helper removes the record of {job}, which runs"));
                }
                let orphans = &self.orphans;
                self.host.records.remove(&job);
                self.host.ranks.retain(|rank, of| *of != job || orphans.contains(rank));
                self.give(Input::ChildDied(pid, None));
            }
            Alarm::Reaped(pid) => {
                let end = self.dead.remove(&pid);
                self.give(Input::ChildDied(pid, end));
            }
        }
    }

    /// A manager has read its job, and its ranks run.
    fn begin(&mut self, pid: Pid) {
        let Some(manager) = self.host.all.get(&pid) else { return };
        let Some(order) = manager.job.as_ref().filter(|_| !manager.is_stopped) else { return };
        if self.host.ranks.values().any(|of| *of == order.job) {
            return;
        }
        let job = order.job.clone();
        let is_connected = manager.is_connected;
        let ranks: Vec<Pid> = (0..2).map(|_| self.host.new_process()).collect();
        self.host.ranks.extend(ranks.iter().map(|pid| (*pid, job.clone())));
        if is_connected {
            self.report_ranks(job);
        }
    }

    fn report_ranks(&mut self, job: JobId) {
        let of_job = self.host.ranks.iter().filter(|(_, of)| **of == job);
        let pids: Vec<u32> = of_job.map(|(pid, _)| pid.0.unsigned_abs()).collect();
        let ranks = RankSet::below(u32::try_from(pids.len()).expect("few ranks"));
        let run = RankRun { world: None, parent: None, program: "a".to_owned(), ranks, pids };
        let report = match run.pids.is_empty() {
            true => ManagerReport::Begun,
            false => ManagerReport::Ranks { alias: None, held: false, runs: vec![run] },
        };
        self.give(Input::Reported { job, report });
    }

    /// A manager without a daemon registers.
    fn register(&mut self, pid: Pid) {
        let Some(manager) = self.host.all.get(&pid).filter(|m| !m.is_connected) else { return };
        let Some(order) = &manager.job else { return };
        let opening = Opening::Register {
            version: VERSION,
            job: order.job.clone(),
            cookie: order.cookie.clone(),
            tree_index: order.tree_index,
            manager: instance_of(order),
            key: order.key.clone(),
        };
        let connection = ConsoleId(usize::try_from(pid.0).expect("a process"));
        self.give(Input::Registers { connection, opening, pid });
    }

    /// The answer to [`Input::Registers`].
    pub(crate) fn registered(
        &mut self,
        now: Time,
        ConsoleId(connection): ConsoleId,
        result: &Result<JobId, String>,
    ) {
        let pid = Pid(i32::try_from(connection).expect("a process"));
        match (result, self.host.all.get_mut(&pid)) {
            (Ok(job), Some(manager)) => {
                manager.is_connected = true;
                self.report_ranks(job.clone());
            }
            (Err(_), Some(_)) => self.set_alarm(now, 1000, Alarm::Registers(pid)),
            (_, None) => {}
        }
    }

    // ----- jobs -----

    /// Whether the manager of a job was stopped before it has read it.
    pub(crate) fn is_stopped(&self, job: &JobId) -> bool {
        self.host.of(job).is_some_and(|pid| self.host.all[&pid].is_stopped)
    }

    /// The manager of a job is ordered to end it, and leaves nothing. `false`: it gets no orders now.
    pub(crate) fn end(&mut self, now: Time, job: &JobId) -> bool {
        let Some(pid) = self.host.of(job) else { return false };
        let manager = &self.host.all[&pid];
        if !manager.is_connected || manager.is_stopped {
            return false;
        }
        self.host.ranks.retain(|_, of| of != job);
        let unlinked = manager.job.as_ref().is_some_and(|order| order.tree_index == 0);
        let report = ManagerReport::Ended { code: 1, unlinked };
        self.give(Input::Reported { job: job.clone(), report });
        self.host.records.remove(job);
        self.die(now, pid, ManagerEnd::Exited(0));
        true
    }

    /// One of the managers here is killed.
    pub(crate) fn lose_one(&mut self, now: Time) {
        let managers: Vec<Pid> = self.host.all.keys().copied().collect();
        if !managers.is_empty() {
            let pid = managers[self.random.below(managers.len())];
            self.lines.push(format!("> manager {pid} is killed"));
            self.die(now, pid, KILLED);
        }
    }

    fn die(&mut self, now: Time, pid: Pid, end: ManagerEnd) {
        let Some(manager) = self.host.all.remove(&pid) else { return };
        let job = manager.job.map(|order| order.job);
        if let Some(job) = job.clone().filter(|_| manager.is_connected) {
            self.next.push_back(Input::ManagerClosed(job));
        }
        if manager.is_child {
            let is_its = |(rank, of): (&Pid, &JobId)| (Some(of) == job.as_ref()).then_some(*rank);
            self.orphans.extend(self.host.ranks.iter().filter_map(is_its));
            self.dead.insert(pid, end);
            self.set_alarm(now, 300, Alarm::Reaped(pid));
        }
    }

    // ----- inputs and outputs of the table -----

    fn give(&mut self, input: Input) {
        self.next.push_back(input);
    }

    /// The manager of a job is dead, and has no last reports.
    pub(crate) fn bury(&mut self, job: JobId) {
        // Only one that was stopped has not read its job; it has no record of ranks.
        let is_unread = !self.host.ranks.values().any(|of| *of == job);
        self.next.push_front(Input::ManagerGone { job, is_unread });
    }

    pub(crate) fn perform(&mut self, now: Time, action: Action) {
        match action {
            Action::RemoveRecord(job) => {
                if self.host.of(&job).is_some() {
                    self.violations.push(format!("the record of {job} is removed while it runs"));
                }
                self.host.records.remove(&job);
            }
            Action::Kill(pid) => self.die(now, pid, KILLED),
            Action::Terminate(pid) => self.die(now, pid, ManagerEnd::Exited(0)),
            Action::GiveUpCopies => self.lose_copies(),
            Action::DropForkServer => {
                self.lose_copies();
                self.alarms.retain(|(_, alarm)| !matches!(alarm, Alarm::Copied(_)));
            }
            // There are no groups here, every process can be killed, and no ring rests.
            Action::CloseRecord(_)
            | Action::RemoveGroup(_)
            | Action::LeftBehind(_)
            | Action::Guard { .. }
            | Action::EndWaiting => {}
        }
    }

    /// The copies end of which the daemon does not know the process.
    fn lose_copies(&mut self) {
        let of_alarm = |(_, alarm): &(Time, Alarm)| match alarm {
            Alarm::Copied(pid) => Some(*pid),
            _ => None,
        };
        for pid in self.alarms.iter().filter_map(of_alarm).chain(self.copies.iter().copied()) {
            if self.host.all.remove(&pid).is_some() {
                self.next.push_back(Input::ChildDied(pid, None));
            }
        }
    }

    pub(crate) fn answer(&mut self, now: Time, question: Question) -> Answer {
        match question {
            Question::MakeGroup => Answer::Group(None),
            Question::WriteRecord(record) => {
                self.host.records.insert(record.job.clone(), record);
                Answer::Done(Ok(()))
            }
            Question::HandOver { job, waiting, order } => {
                Answer::Started(self.hand_over(now, &job, waiting, *order))
            }
            Question::StartForkServer => {
                self.has_fork_server = true;
                Answer::Started(Ok(FORK_SERVER))
            }
            Question::RequestCopy => {
                let pid = self.host.new_process();
                let (is_connected, is_child) = (false, true);
                let waits = Manager { job: None, is_stopped: false, is_connected, is_child };
                self.host.all.insert(pid, waits);
                self.set_alarm(now, 120, Alarm::Copied(pid));
                Answer::Done(Ok(()))
            }
            Question::Copies => {
                let lives = |pid: Pid| match self.host.all.contains_key(&pid) {
                    true => Ok(pid),
                    false => Err("it was given up".to_owned()),
                };
                Answer::Copies(std::mem::take(&mut self.copies).into_iter().map(lives).collect())
            }
            Question::IsStopped(pid) => {
                Answer::Is(self.host.all.get(&pid).is_some_and(|manager| manager.is_stopped))
            }
            Question::RanOutOfMemory(_) => Answer::Is(self.random.one_in(4)),
            Question::Record(job) => Answer::Record(match self.host.records.contains_key(&job) {
                false => RecordState::Gone,
                true if self.host.of(&job).is_some() => RecordState::Held,
                true => RecordState::Free,
            }),
            Question::Sweep { job, .. } => {
                let pid = self.host.new_process();
                self.helpers.insert(pid, job);
                self.set_alarm(now, 300, Alarm::Swept(pid));
                Answer::Started(Ok(pid))
            }
            Question::Children => Answer::Pids(self.children()),
            Question::Orphans(unknown, _) => Answer::Pids(unknown),
            Question::KillChildren(spared) => {
                self.kill_children(&spared);
                Answer::Pids(Vec::new())
            }
        }
    }

    fn hand_over(
        &mut self,
        now: Time,
        job: &JobId,
        waiting: Option<Pid>,
        order: ManagerOrder,
    ) -> Result<Pid, String> {
        let ManagerOrder::Start(order) = order else { return Err("no start".to_owned()) };
        if self.host.of(job).is_some() {
            self.violations.push(format!("a second manager of {job}"));
        }
        if !self.host.records.contains_key(job) {
            self.violations.push(format!("a manager gets {job}, which has no record"));
        }
        let pid = match waiting {
            Some(pid) if self.host.all.contains_key(&pid) => pid,
            Some(_) => return Err(DIED.to_owned()),
            None if self.random.one_in(10) => return Err("no more processes".to_owned()),
            None => self.host.new_process(),
        };
        let is_stopped = self.random.one_in(10);
        let (is_connected, is_child) = (true, true);
        self.started.extend((order.tree_index > 0).then(|| job.clone()));
        let manager = Manager { job: Some(order), is_stopped, is_connected, is_child };
        self.host.all.insert(pid, manager);
        self.set_alarm(now, 500, Alarm::Begins(pid));
        Ok(pid)
    }

    fn children(&self) -> Vec<Pid> {
        let managers = self.host.all.iter().filter(|(_, manager)| manager.is_child);
        let mut all: Vec<Pid> = managers.map(|(pid, _)| *pid).collect();
        all.extend(self.has_fork_server.then_some(FORK_SERVER));
        all.extend(self.helpers.keys());
        all.extend(&self.orphans);
        all
    }

    fn kill_children(&mut self, spared: &BTreeSet<Pid>) {
        for pid in self.children().into_iter().filter(|pid| !spared.contains(pid)) {
            let is_new = self.alarms.iter().any(|(_, alarm)| *alarm == Alarm::Copied(pid))
                || self.copies.contains(&pid);
            if self.orphans.remove(&pid) {
                self.host.ranks.remove(&pid);
            } else if is_new {
                self.host.all.remove(&pid);
            } else {
                self.violations.push(format!("process {pid} is killed and is no orphan"));
            }
            self.next.push_back(Input::ChildDied(pid, None));
        }
    }

    /// In calm, the table has exactly the jobs with a living manager, and nothing else is left.
    pub(crate) fn after_calm(&self, table: &JobTable) -> Vec<String> {
        let mut violations = Vec::new();
        let mut jobs = 0;
        for (pid, manager) in &self.host.all {
            let Some(order) = &manager.job else { continue };
            jobs += 1;
            if manager.is_stopped {
                violations.push(format!("manager {pid} of {} is stopped", order.job));
            }
            if table.find_manager(instance_of(order)).is_none() {
                violations.push(format!("manager {pid} of {} is not known", order.job));
            }
        }
        if table.count() != jobs {
            violations.push(format!("{} jobs are known, {jobs} run", table.count()));
        }
        if !table.are_known() {
            violations.push("a job of an earlier daemon is still looked for".to_owned());
        }
        let left = self.host.ranks.iter().filter(|(_, job)| self.host.of(job).is_none());
        violations.extend(left.map(|(pid, job)| format!("rank {pid} of {job} has no manager")));
        let records = self.host.records.keys().filter(|job| self.host.of(job).is_none());
        violations.extend(records.map(|job| format!("{job} is gone and its record is not")));
        violations
    }
}

/// The table of a new daemon, without jobs. `wanted`: how many managers wait for jobs.
pub(crate) fn table(now: Time, name: &str, instance: Instance, wanted: u8) -> JobTable {
    let beginning = Beginning {
        name: name.to_owned(),
        instance,
        host: name.to_owned(),
        user: Some("user".to_owned()),
        rundir: None,
        limits: HostLimits::default(),
        wanted,
        patience: None,
        first: None,
        inherited: Vec::new(),
    };
    JobTable::new(beginning, now)
}

fn instance_of(order: &StartJob) -> Instance {
    let tree_index = usize::try_from(order.tree_index).expect("an index");
    order.host_slices.get(tree_index).expect("its host slice").manager
}
