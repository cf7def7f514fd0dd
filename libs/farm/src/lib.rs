//! A farm: many independent tasks, each a command, over the slots of several hosts.
//!
//! **Purpose.** [`Farm`] decides which host gets which tasks, takes tasks back from hosts that have too many, repeats
//! tasks, and decides when the farm is over. [`Worker`] is its counterpart on a host: it decides when a task starts, and
//! which task is killed. Both are machines. [`frame`] has the messages between them. The other modules are the
//! functions without state: [`command`] makes and examines command lines, [`joblog`] is the job log, [`halt`] the rule
//! for an early end, and [`Progress`] the rate.
//!
//! The rule about tasks: the farm keeps a task until it has its end. Every task is at one place, either in the farm's
//! queues or at one host. A host that was lost has nothing, and what it still says has no effect. So every task has one
//! result, whatever happens to hosts.
//!
//! **Users.** `mpdfarm`, in `mpdtrace`.
//!
//! **Must not know.** Processes, pipes and files; how a worker gets to its host; what a command does.
#![forbid(unsafe_code)]

pub mod command;
mod farm;
pub mod frame;
pub mod halt;
mod inorder;
pub mod joblog;
mod numbers;
mod progress;
mod shell;
#[cfg(test)]
mod tests;
mod worker;

pub use farm::{Close, Farm, Input, Membership, Options, Output, Verdict};
pub use inorder::InOrder;
pub use numbers::Numbers;
pub use progress::Progress;
pub use worker::{Order, Setup, Worker, WorkerInput};

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The number of a task: that of its line or input, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A host of the farm, by the number that the owner has given it. A host keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// Its command line.
    pub command: Arc<[u8]>,
}

/// How the process of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this code.
    Exited(u8),
    /// This signal ended it.
    Killed(u8),
    /// The worker killed it at its time limit, with this signal.
    TimedOut(u8),
}

impl Outcome {
    /// Whether the task has done its work.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// The exit code that a shell reports for it; 124 after the time limit, as `timeout` does.
    pub const fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
            Self::TimedOut(_) => 124,
        }
    }
}

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// When it began, in microseconds since 1970 by the clock of its host.
    pub began: u64,
    /// How long it ran, in microseconds.
    pub took: u64,
}
