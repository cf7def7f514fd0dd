//! The decisions of a farm; see [the crate](crate).
//!
//! **Batches.** A host gets as many tasks as its slots run, and further ones for a quarter of a second of work, by the
//! mean time of its tasks. So short tasks reach it in batches, and long tasks wait here, where every host can get them.
//!
//! **Losses.** A worker says that a task begins before it begins. If a host is lost, what it has said last may be lost too. So as
//! many of its tasks as run at a time count as begun.
//!
//! **Taking back.** If nothing waits here and a host has a free slot, the host with most waiting tasks returns half of
//! them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_sansio::{Machine, Time, UNDRAINED};

use crate::frame::MAX_RETURNED;
use crate::halt::{Halt, Kind, When};
use crate::{End, HostId, Outcome, Task, TaskId};

/// The work that a host has in reserve, in microseconds of each slot.
const RESERVE_US: u64 = 250_000;
/// Most tasks that a host has beyond those that run.
const MAX_RESERVE: usize = 1024;
/// How often a worker is started on a host before the farm gives the host up.
const MAX_STARTS: u32 = 4;
/// The pause before the second start. It doubles each time.
const PAUSE: Duration = Duration::from_secs(1);
/// How many tasks are looked at to find one for another host.
const LOOKED_AT: usize = 16;
/// The end of a line that can be no task: its command cannot be executed.
const UNFIT: Outcome = Outcome::Exited(126);
/// The greatest number of failures that the exit code shows.
const MAX_FAILURES: u64 = 100;

/// How a farm works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The slots of each task; at least 1.
    pub per_task: u32,
    /// How often a task that failed is repeated.
    pub retries: u32,
    /// The rule for an early end.
    pub halt: Option<Halt>,
}

/// A host's place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It may get a worker and tasks.
    Live,
    /// It gets no further task.
    Draining,
    /// Others hold its slots. It gets tasks when some are free.
    Full,
    /// It is not in the ring now. Its worker, if it has one, works on.
    Absent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A host is or is not in the ring.
    Member(HostId, Membership),
    /// The worker of a host is ready.
    Up(HostId, u32),
    /// A host has so many slots for tasks from now on.
    Slots(HostId, u32),
    /// The worker of a host has ended, or could not be started.
    Lost(HostId),
    /// A task was read.
    Task(Task),
    /// A line that can be no task was read. It has failed.
    Unfit,
    /// A task was read that an earlier run of the farm has recorded as failed. It does not run again.
    FailedBefore,
    /// There are no further tasks.
    InputEnded,
    /// A task has begun.
    Started(HostId, TaskId),
    /// A task has ended.
    Ended(HostId, TaskId, End),
    /// A host has returned tasks.
    Returned(HostId, Vec<TaskId>),
    /// The user wants the end; the second time at once.
    Interrupt,
}

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start a worker on this host.
    Start(HostId),
    /// Send a task to a host.
    Give(HostId, Task),
    /// Ask a host to return tasks.
    TakeBack(HostId, u32),
    /// Tell a host how many slots it has for tasks.
    Slots(HostId, u32),
    /// Ask a host to end its running tasks.
    Kill(HostId),
    /// A task has its result. It occurs once for each task.
    Result {
        task: Task,
        /// The host on which it ran last.
        host: HostId,
        /// What became of it.
        verdict: Verdict,
    },
    /// What a task has written so far is discarded: it will run again.
    Again(TaskId, HostId),
    /// End all workers at once.
    Abandon,
    /// The farm is over. Tasks without a result did not run.
    Done(Close),
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ended(End),
    /// Its host was lost while it ran.
    Lost,
    /// The farm has ended it, because the farm itself was ended.
    Cancelled,
}

/// How a farm ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// All tasks have results; so many failed.
    Complete(u64),
    /// By the rule for an early end. If failures ended it, this is the exit code of the last one.
    Halted(Option<u8>),
    /// The user ended it.
    Interrupted,
    /// No host is left.
    NoHost,
    /// No host has enough slots for a task.
    TooSmall,
}

impl Close {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete(failed) => u8::try_from(failed.min(MAX_FAILURES + 1)).unwrap_or(u8::MAX),
            Self::Halted(code) => code.unwrap_or(0),
            Self::Interrupted => 130,
            Self::NoHost | Self::TooSmall => 125,
        }
    }
}

/// A task that waits here.
#[derive(Debug)]
struct Waiting {
    task: Task,
    /// How often it has run.
    runs: u32,
    /// The host where it failed.
    avoid: Option<HostId>,
}

/// A task that a host has.
#[derive(Debug)]
struct Given {
    task: Task,
    /// Its place in the order in which tasks were given. A host begins them in this order.
    order: u64,
    /// How often it has run, with this time.
    runs: u32,
    started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has no worker, and gets one only if it comes into the ring again.
    Out,
    /// It gets a worker then.
    Later(Time),
    /// Its worker was started.
    Starting,
    /// Its worker is ready.
    Up,
}

#[derive(Debug)]
struct Host {
    state: State,
    membership: Membership,
    /// Starts of workers since the last end of a task.
    starts: u32,
    /// How many tasks run here at a time.
    most: usize,
    given: BTreeMap<TaskId, Given>,
    /// The mean time of its tasks, in microseconds; `None` before the first end.
    mean: Option<u64>,
    taking_back: bool,
}

impl Host {
    const fn new() -> Self {
        Self {
            state: State::Out,
            membership: Membership::Absent,
            starts: 0,
            most: 0,
            given: BTreeMap::new(),
            mean: None,
            taking_back: false,
        }
    }

    fn takes_tasks(&self) -> bool {
        let may = !matches!(self.membership, Membership::Draining | Membership::Full);
        self.state == State::Up && may && self.most > 0
    }

    fn is_idle(&self) -> bool {
        self.takes_tasks() && self.given.len() < self.most
    }

    /// Tasks beyond those that run.
    fn surplus(&self) -> usize {
        self.given.len().saturating_sub(self.most)
    }

    /// How many tasks it may have beyond those that run.
    fn reserve(&self) -> usize {
        let Some(mean) = self.mean else { return 0 };
        let each = usize::try_from(RESERVE_US / mean.max(1)).unwrap_or(usize::MAX);
        each.saturating_mul(self.most).min(MAX_RESERVE)
    }

    fn note_time(&mut self, took: u64) {
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => mean - mean / 8 + took / 8,
        });
    }
}

/// Why no further task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Halt(Option<u8>),
    Interrupt,
}

/// See the module.
#[derive(Debug)]
pub struct Farm {
    options: Options,
    hosts: BTreeMap<HostId, Host>,
    /// Tasks that were given before. They are given first.
    again: VecDeque<Waiting>,
    waiting: VecDeque<Waiting>,
    input_ended: bool,
    /// How many tasks were given so far.
    gifts: u64,
    stop: Option<Stop>,
    /// Running tasks were killed.
    killing: bool,
    failed: u64,
    /// Ends that count for [`Options::halt`].
    counted: u64,
    done: bool,
    outputs: VecDeque<Output>,
}

impl Farm {
    /// A farm without hosts and tasks.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            hosts: BTreeMap::new(),
            again: VecDeque::new(),
            waiting: VecDeque::new(),
            input_ended: false,
            gifts: 0,
            stop: None,
            killing: false,
            failed: 0,
            counted: 0,
            done: false,
            outputs: VecDeque::new(),
        }
    }

    /// How many tasks wait here. The owner reads further tasks while these are few.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.again.len()
    }

    /// Whether a task that is read now may begin.
    pub const fn wants_tasks(&self) -> bool {
        self.stop.is_none()
    }

    /// How many tasks hosts have.
    pub fn given(&self) -> usize {
        self.hosts.values().map(|host| host.given.len()).sum()
    }

    /// How many tasks run at a time at most, and on how many hosts.
    pub fn capacity(&self) -> (usize, usize) {
        let up = self.hosts.values().filter(|host| host.state == State::Up);
        up.fold((0, 0), |(slots, hosts), host| (slots + host.most, hosts + 1))
    }

    /// How many results were failures.
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// When the next deadline is.
    pub fn poll_timeout(&self) -> Option<Time> {
        let later = |host: &Host| match host.state {
            State::Later(at) => Some(at),
            _ => None,
        };
        self.hosts.values().filter_map(later).min()
    }

    fn host(&mut self, id: HostId) -> &mut Host {
        self.hosts.entry(id).or_insert_with(Host::new)
    }

    fn member(&mut self, id: HostId, membership: Membership) {
        let stopped = self.stop.is_some();
        let host = self.host(id);
        let before = std::mem::replace(&mut host.membership, membership);
        match (membership, host.state) {
            (Membership::Live, State::Out) if before != Membership::Live && !stopped => {
                host.starts = 0;
                self.start(id);
            }
            (Membership::Absent | Membership::Draining | Membership::Full, State::Later(_)) => {
                host.state = State::Out;
            }
            (Membership::Draining | Membership::Full, State::Up) if before != membership => {
                self.take_all_back(id);
            }
            (
                Membership::Live | Membership::Draining | Membership::Full | Membership::Absent,
                State::Out | State::Later(_) | State::Starting | State::Up,
            ) => {}
        }
    }

    fn resize(&mut self, id: HostId, slots: u32) {
        let most = usize::try_from(slots / self.options.per_task.max(1)).unwrap_or(0);
        let stopped = self.stop.is_some();
        let host = self.host(id);
        if host.state == State::Up && !stopped {
            host.most = most;
            self.outputs.push_back(Output::Slots(id, slots));
        }
    }

    fn start(&mut self, id: HostId) {
        let host = self.host(id);
        host.state = State::Starting;
        host.starts += 1;
        self.outputs.push_back(Output::Start(id));
    }

    fn lost(&mut self, now: Time, id: HostId) {
        let stopped = self.stop.is_some();
        let host = self.host(id);
        let mut given: Vec<Given> = std::mem::take(&mut host.given).into_values().collect();
        given.sort_unstable_by_key(|given| given.order);
        // The reports of their begin may be lost with the host.
        given.iter_mut().take(host.most).for_each(|given| given.started = true);
        host.taking_back = false;
        host.mean = None;
        host.state = if stopped || host.membership != Membership::Live || host.starts >= MAX_STARTS
        {
            State::Out
        } else {
            State::Later(now + PAUSE * 2_u32.saturating_pow(host.starts.saturating_sub(1)))
        };
        for Given { task, runs, started, .. } in given.into_iter().rev() {
            if !started {
                self.again.push_front(Waiting { task, runs: runs - 1, avoid: None });
            } else if runs <= self.options.retries && !stopped {
                self.outputs.push_back(Output::Again(task.id, id));
                self.again.push_front(Waiting { task, runs, avoid: Some(id) });
            } else {
                let verdict = if self.killing { Verdict::Cancelled } else { Verdict::Lost };
                self.result(task, id, verdict);
            }
        }
    }

    fn ended(&mut self, id: HostId, task: TaskId, end: End) {
        let stopped = self.stop.is_some();
        let host = self.host(id);
        // A late message of a worker that was lost.
        let Some(Given { task, runs, .. }) = host.given.remove(&task) else { return };
        host.note_time(end.took);
        host.starts = 0;
        let success = end.outcome.is_success();
        if self.killing && !success {
            self.result(task, id, Verdict::Cancelled);
        } else if !success && runs <= self.options.retries && !stopped {
            self.outputs.push_back(Output::Again(task.id, id));
            self.again.push_back(Waiting { task, runs, avoid: Some(id) });
        } else {
            self.result(task, id, Verdict::Ended(end));
        }
    }

    fn result(&mut self, task: Task, host: HostId, verdict: Verdict) {
        self.outputs.push_back(Output::Result { task, host, verdict });
        let outcome = match verdict {
            Verdict::Ended(end) => Some(end.outcome),
            Verdict::Lost => None,
            Verdict::Cancelled => return,
        };
        self.count(outcome);
    }

    /// Counts an end.
    fn count(&mut self, outcome: Option<Outcome>) {
        if !outcome.is_some_and(Outcome::is_success) {
            self.failed += 1;
        }
        let Some(halt) = self.options.halt.filter(|halt| halt.counts(outcome)) else { return };
        self.counted += 1;
        if self.counted >= halt.count && self.stop.is_none() {
            let code = (halt.kind == Kind::Fail).then(|| outcome.map_or(125, Outcome::code));
            self.end_early(Stop::Halt(code), halt.when == When::Now);
        }
    }

    /// No further task begins. With `kill` the running ones are ended.
    fn end_early(&mut self, stop: Stop, kill: bool) {
        self.stop = Some(stop);
        self.killing |= kill;
        let up: Vec<HostId> = self.up().map(|(id, _)| id).collect();
        for id in up {
            self.take_all_back(id);
            if kill {
                self.outputs.push_back(Output::Kill(id));
            }
        }
        for host in self.hosts.values_mut() {
            if let State::Later(_) = host.state {
                host.state = State::Out;
            }
        }
    }

    fn up(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().filter(|(_, host)| host.state == State::Up).map(|(id, host)| (*id, host))
    }

    fn take_all_back(&mut self, id: HostId) {
        // One message returns a limited number, which is more than a host has in reserve.
        let count = u32::try_from(MAX_RETURNED).unwrap_or(u32::MAX);
        let host = self.host(id);
        if host.state == State::Up && !host.given.is_empty() {
            host.taking_back = true;
            self.outputs.push_back(Output::TakeBack(id, count));
        }
    }

    fn returned(&mut self, id: HostId, tasks: Vec<TaskId>) {
        let host = self.host(id);
        host.taking_back = false;
        let given: Vec<Given> = tasks.iter().filter_map(|task| host.given.remove(task)).collect();
        for Given { task, runs, .. } in given {
            // It has not begun there.
            self.again.push_front(Waiting { task, runs: runs - 1, avoid: None });
        }
    }

    /// A waiting task for this host. A task that failed there goes to another host, if there is one.
    fn next_for(&mut self, id: HostId, alone: bool) -> Option<Waiting> {
        let fits = |waiting: &Waiting| alone || waiting.avoid != Some(id);
        match self.again.iter().take(LOOKED_AT).position(fits) {
            Some(at) => self.again.remove(at),
            None => self.waiting.pop_front(),
        }
    }

    fn give(&mut self, id: HostId, alone: bool) -> bool {
        let Some(waiting) = self.next_for(id, alone) else { return false };
        let Waiting { task, runs, .. } = waiting;
        self.outputs.push_back(Output::Give(id, task.clone()));
        self.gifts += 1;
        let given = Given { runs: runs + 1, started: false, order: self.gifts, task };
        self.host(id).given.insert(given.task.id, given);
        true
    }

    /// Gives the waiting tasks to hosts: first one to each free slot in turn, then the reserves.
    fn spread(&mut self) {
        let takers: Vec<HostId> =
            self.up().filter(|(_, host)| host.takes_tasks()).map(|(id, _)| id).collect();
        let alone = takers.len() == 1;
        let mut idle = takers.clone();
        while !idle.is_empty() && self.waiting() > 0 {
            idle.retain(|id| self.hosts[id].is_idle() && self.give(*id, alone));
        }
        for &id in &takers {
            let host = &self.hosts[&id];
            // The last tasks stay here, where every host can get them.
            let share = self.waiting() / (2 * takers.len());
            let room = host.reserve().min(share).saturating_sub(host.surplus());
            if !host.taking_back {
                (0..room).take_while(|_| self.give(id, alone)).for_each(drop);
            }
        }
        // What waits here now has failed on every host that is free.
        if self.waiting.is_empty() {
            self.steal();
        }
    }

    /// If a slot is free, asks the host with most waiting tasks for half of them.
    fn steal(&mut self) {
        if !self.hosts.values().any(Host::is_idle)
            || self.hosts.values().any(|host| host.taking_back)
        {
            return;
        }
        let loaded = self.up().max_by_key(|(_, host)| host.surplus());
        let Some((id, surplus)) = loaded.map(|(id, host)| (id, host.surplus())) else { return };
        if surplus > 0 {
            let count = u32::try_from(surplus.div_ceil(2)).unwrap_or(u32::MAX);
            self.host(id).taking_back = true;
            self.outputs.push_back(Output::TakeBack(id, count));
        }
    }

    /// Decides whether the farm is over.
    fn close(&mut self) {
        if self.done || self.given() > 0 {
            return;
        }
        let close = match self.stop {
            Some(Stop::Halt(code)) => Close::Halted(code),
            Some(Stop::Interrupt) => Close::Interrupted,
            None if self.waiting() == 0 && self.input_ended => Close::Complete(self.failed),
            None if self.waiting() == 0 => return,
            None if self
                .hosts
                .values()
                .any(|host| matches!(host.state, State::Starting | State::Later(_))) =>
            {
                return;
            }
            None if self.hosts.values().any(Host::takes_tasks) => return,
            None if self.hosts.values().any(|host| host.membership == Membership::Full) => return,
            None if self.up().any(|(_, host)| host.most == 0) => Close::TooSmall,
            None => Close::NoHost,
        };
        self.done = true;
        self.outputs.push_back(Output::Done(close));
    }
}

impl Machine for Farm {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Member(host, membership) => self.member(host, membership),
            Input::Up(id, slots) => {
                let per_task = self.options.per_task.max(1);
                let stopped = self.stop.is_some();
                let host = self.host(id);
                host.state = State::Up;
                host.most =
                    if stopped { 0 } else { usize::try_from(slots / per_task).unwrap_or(0) };
            }
            Input::Slots(id, slots) => self.resize(id, slots),
            Input::Lost(host) => self.lost(now, host),
            Input::Task(task) => {
                let waiting = Waiting { task, runs: 0, avoid: None };
                self.waiting.push_back(waiting);
            }
            Input::Unfit => self.count(Some(UNFIT)),
            Input::FailedBefore => self.failed += 1,
            Input::InputEnded => self.input_ended = true,
            Input::Started(host, task) => {
                if let Some(given) = self.host(host).given.get_mut(&task) {
                    given.started = true;
                }
            }
            Input::Ended(host, task, end) => self.ended(host, task, end),
            Input::Returned(host, tasks) => self.returned(host, tasks),
            Input::Interrupt if self.stop == Some(Stop::Interrupt) => {
                self.outputs.push_back(Output::Abandon);
            }
            Input::Interrupt => self.end_early(Stop::Interrupt, true),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        let due = |host: &Host| matches!(host.state, State::Later(at) if at <= now);
        let due: Vec<HostId> =
            self.hosts.iter().filter(|(_, host)| due(host)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.start(id));
    }

    /// Gives tasks to hosts. Called after the inputs of a turn, so that tasks go in batches.
    fn end_turn(&mut self, _: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.stop.is_none() {
            self.spread();
        }
        self.close();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
