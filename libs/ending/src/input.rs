//! What the owner of the machine reports and answers.

use std::collections::BTreeSet;

use mpd_leftovers::Lifetime;
use mpd_leftovers::Reading;
use mpd_leftovers::record::Registered;
use mpd_wire::{Pid, Rank};

use crate::shm::{ShmFile, User};
use crate::signal_target::SignalTarget;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The answer to the question that was the last output.
    Answer(Answer),

    // Orders of the job.
    /// Send this signal to ranks that run here.
    Signal(i32, SignalTarget),
    /// Stop every process of the job here.
    Stop,
    /// Continue every stopped process of the job here, after the pending actions.
    Continue,
    /// Kill every process of the job here, and each further one that appears among the descendants.
    Kill,
    /// Remove the leftovers of the job, of which no process lives here.
    CleanUp,

    // Processes.
    /// The ranks are about to run.
    Going,
    /// A process of the job was started; its begin in milliseconds since boot, if that is known.
    Started(Pid, Option<u64>),
    /// This process has ended, and is about to be reaped.
    Ended(Pid),
    /// No child is left to reap, and no adopted process. There may be living children.
    NoDeadChild,
    /// There is no child, living or dead, and no adopted process.
    NoChild,

    // What the job makes.
    /// The ranks of a world with this key-value space may run here.
    World(String),
    /// A program has registered paths for removal at the end.
    Register(Registered),
    /// The ranks of this world have all entered a fence, and are about to leave it.
    FenceOver(Rank),

    // The helper.
    /// The running helper has found these users.
    Found(Vec<(u64, User)>),
    /// The helper has ended.
    HelperEnded(Completeness),
}

/// How complete the findings of a helper are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The helper has examined all processes.
    Complete,
    /// The helper ended before.
    Cut,
}

/// The answer to a [`Question`](crate::Question).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes or no; whether the action succeeded.
    Is(bool),
    /// These processes.
    Pids(Vec<Pid>),
    /// The members of the control group, if it can be read.
    Members(Option<BTreeSet<Pid>>),
    /// The rank of a process.
    Rank(Option<Rank>),
    /// The state of a process.
    Effect {
        /// Whether the signal has its default effect on it.
        takes: bool,
        /// Whether the process was stopped already.
        was_stopped: bool,
    },
    /// What a round of killing found.
    Killing(Killing),
    /// The lifetime of a process; `None` if it is gone.
    Life(Option<Lifetime>),
    Clocks(Reading),
    /// When a file of `/dev/shm` was last created or removed, in nanoseconds since 1970, if that is known.
    ShmTime(Option<u64>),
    /// The files of `/dev/shm`, and the time after they were listed, in nanoseconds since 1970.
    ShmFiles(Vec<ShmFile>, u64),
}

/// What a round of killing has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killing {
    /// The living children of other users.
    pub immune: Vec<Pid>,
    /// Whether a child was found at all. There may be children, and the system does not say which.
    pub found_any: bool,
}
