//! The decisions of a worker: which task starts, which one is killed, and when reports are sent.
//!
//! A task starts only when the report of its begin was sent. So the farm knows of it, even if the task kills the worker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mpd_sansio::{Machine, Time, Timers, UNDRAINED};

use crate::frame::MAX_RETURNED;
use crate::{Outcome, Task, TaskId};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How a worker runs tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The slots of this host.
    pub slots: u32,
    /// The slots of each task.
    pub per_task: u32,
    /// The time limit of each task.
    pub limit: Option<Duration>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerInput {
    /// A task arrived.
    Task(Task),
    /// The farm wants so many tasks back.
    TakeBack(u32),
    /// The host has so many slots from now on.
    Slots(u32),
    /// The farm wants all running tasks ended.
    Kill,
    /// The process of a task ended.
    Ended(TaskId, Outcome),
    /// The reports were sent.
    Sent,
}

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Report that a task begins.
    Announce(TaskId),
    /// Start the process of a task. If that is not possible, its end is reported as any other.
    Start(Task),
    /// Send the process group of a task SIGTERM, or SIGKILL.
    End(TaskId, bool),
    /// Report the end of a task.
    Report(TaskId, Outcome),
    /// Report that these tasks are returned.
    Return(Vec<TaskId>),
    /// Send the reports now.
    Send,
}

/// A running task.
#[derive(Debug)]
struct Running {
    /// The signal that it got at its time limit.
    overdue: Option<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Worker {
    setup: Setup,
    /// How many tasks may run at a time.
    most: usize,
    queue: VecDeque<Task>,
    /// Tasks whose begin is reported, but was not sent yet.
    beginning: Vec<Task>,
    running: BTreeMap<TaskId, Running>,
    timers: Timers<TaskId>,
    killing: bool,
    /// Whether reports wait.
    unsent: bool,
    outputs: VecDeque<Order>,
}

impl Worker {
    /// A worker without tasks.
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            most: fitting(setup),
            queue: VecDeque::new(),
            beginning: Vec::new(),
            running: BTreeMap::new(),
            timers: Timers::default(),
            killing: false,
            unsent: false,
            outputs: VecDeque::new(),
        }
    }

    /// When the next deadline is.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// How many tasks run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Reports the begin of as many tasks as there is room for.
    fn announce(&mut self) {
        while self.running.len() + self.beginning.len() < self.most && !self.killing {
            let Some(task) = self.queue.pop_front() else { break };
            self.unsent = true;
            self.outputs.push_back(Order::Announce(task.id));
            self.beginning.push(task);
        }
    }

    /// Starts the tasks whose begin was sent.
    fn sent(&mut self, now: Time) {
        self.unsent = false;
        for task in std::mem::take(&mut self.beginning) {
            if let Some(limit) = self.setup.limit {
                self.timers.set(task.id, now + limit);
            }
            self.running.insert(task.id, Running { overdue: None });
            self.outputs.push_back(Order::Start(task));
        }
    }

    fn kill(&mut self, now: Time) {
        self.killing = true;
        let ids: Vec<TaskId> = self.beginning.drain(..).map(|task| task.id).collect();
        if !ids.is_empty() {
            self.outputs.extend([Order::Return(ids), Order::Send]);
        }
        let running: Vec<TaskId> = self.running.keys().copied().collect();
        running.into_iter().for_each(|id| self.end(now, id));
    }

    fn take_back(&mut self, count: u32) {
        let count =
            usize::try_from(count).unwrap_or(usize::MAX).min(self.queue.len()).min(MAX_RETURNED);
        let kept = self.queue.len() - count;
        let ids = self.queue.drain(kept..).map(|task| task.id).collect();
        self.outputs.extend([Order::Return(ids), Order::Send]);
    }

    /// Sends SIGTERM to a task, and SIGKILL some time later.
    fn end(&mut self, now: Time, id: TaskId) {
        self.timers.set(id, now + GRACE);
        self.outputs.push_back(Order::End(id, false));
    }

    fn ended(&mut self, id: TaskId, outcome: Outcome) {
        let Some(running) = self.running.remove(&id) else { return };
        self.timers.stop(id);
        let outcome = match (running.overdue, outcome) {
            // It may catch SIGTERM and exit.
            (Some(signal), _) => Outcome::TimedOut(signal),
            (None, outcome) => outcome,
        };
        self.unsent = true;
        self.outputs.push_back(Order::Report(id, outcome));
    }

    fn send(&mut self) {
        if self.unsent {
            self.outputs.push_back(Order::Send);
        }
    }
}

/// How many tasks fit.
fn fitting(Setup { slots, per_task, .. }: Setup) -> usize {
    usize::try_from(slots / per_task.max(1)).unwrap_or(usize::MAX)
}

impl Machine for Worker {
    type Input = WorkerInput;
    type Output = Order;

    fn handle(&mut self, now: Time, input: WorkerInput) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            WorkerInput::Task(task) => {
                self.queue.push_back(task);
                self.announce();
            }
            WorkerInput::TakeBack(count) => self.take_back(count),
            WorkerInput::Slots(slots) => {
                self.setup.slots = slots;
                self.most = fitting(self.setup);
                self.announce();
            }
            WorkerInput::Kill => self.kill(now),
            WorkerInput::Ended(id, outcome) => {
                self.ended(id, outcome);
                self.announce();
            }
            WorkerInput::Sent => self.sent(now),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        while let Some(id) = self.timers.pop_expired(now) {
            let Some(running) = self.running.get_mut(&id) else { continue };
            if self.killing || running.overdue.is_some() {
                if let Some(signal) = &mut running.overdue {
                    *signal = 9;
                }
                self.outputs.push_back(Order::End(id, true));
            } else {
                running.overdue = Some(15);
                self.end(now, id);
            }
        }
        self.send();
    }

    fn end_turn(&mut self, _: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.send();
    }

    fn poll_output(&mut self) -> Option<Order> {
        self.outputs.pop_front()
    }
}

impl Task {
    pub fn new(id: TaskId, command: impl Into<Arc<[u8]>>) -> Self {
        Self { id, command: command.into() }
    }
}
