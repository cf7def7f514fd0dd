//! Steps that follow each other, with questions between them.
//!
//! An [`Errand`] is a step that is still to be done. An [`Asked`] says what the answer to the open question is for. While
//! a question is open, no errand is done.

use std::collections::{BTreeSet, VecDeque};

use mpd_leftovers::record::JobRecord;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::Launch;
use mpd_wire::{JobId, Pid};

use crate::input::Given;

/// A step to be done.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Ask for the copies that the fork server has made, if some were requested.
    Collect,
    /// Start the root manager of a job.
    Start(Starting),
    /// Start the manager with this tree index, unless it runs already.
    StartBranch(Box<Launch>, usize),
    /// A child was reaped.
    Bury(Pid, Option<ManagerEnd>),
    /// End the managers in waiting, or request one, if it is time.
    Replace,
    LookAtSilent,
    KillOrphans,
    /// Look for the managers of an earlier daemon, if it is time.
    LookForManagers,
    /// Look for the managers of these jobs.
    LookFor(VecDeque<JobId>),
    /// Refuse the consoles that wait for the state of this manager.
    RefuseStates(JobId),
}

/// What the answer to the open question is for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The control group of a job that starts.
    Group(Box<Starting>),
    /// The record of a job that starts.
    Written(Box<Starting>),
    /// A manager for a job that starts. The flag: it is one that waited.
    HandOver(Box<Starting>, bool),
    ForkServer,
    Copy,
    Copies,
    /// Whether the manager of this job is stopped.
    Stopped(JobId),
    /// Why the manager of this job died.
    Cause(JobId, Option<ManagerEnd>),
    Record(JobId),
    /// A helper for this job.
    Sweep(JobId),
    /// The children, to find orphans.
    Children,
    /// Which of the unknown children come from a manager. These are known.
    Orphans {
        known: BTreeSet<Pid>,
        unknown: Vec<Pid>,
    },
    /// The kill of all children but these.
    Kill(BTreeSet<Pid>),
    /// The children after a kill that spared some, and that others survive.
    Survivors {
        known: BTreeSet<Pid>,
        immune: Vec<Pid>,
    },
}

/// A job that is being given to its manager.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) launch: Box<Launch>,
    pub(crate) tree_index: usize,
    pub(crate) given: Given,
    /// Known once the control group is.
    pub(crate) record: Option<JobRecord>,
    /// Whether it replaces a manager that was killed, so that no other part of the daemon waits for the result.
    pub(crate) is_again: bool,
}
