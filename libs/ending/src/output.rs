//! What the machine wants: actions of the owner, answers, and steps of others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mpd_leftovers::FileId;
use mpd_leftovers::record::{Note, Registered};
use mpd_wire::message::Phase;
use mpd_wire::{Pid, Rank};

use crate::signal_target::SignalTarget;
use crate::text::Line;

/// What the machine wants, or reports. Only an answer and an [`Action`] are system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer this now, with [`Input::Answer`](crate::Input::Answer). It is the last output of a call.
    Ask(Question),

    Act(Action),

    // Of the ranks.
    /// Kill the adopted process, if there is one.
    KillAdopted,
    /// End the search for MPI libraries of ranks for now: it starts processes.
    PauseSearch,
    /// Look for children to reap.
    Reap,

    // Reports.
    /// A span of the timeline begins.
    Begin(Phase),
    /// A span of the timeline ends.
    End(Phase),
    /// No span follows.
    TraceEnds,
    /// All processes are about to be killed.
    Killing,
    /// Everything is stopped.
    TreeStopped,
    /// No process is left.
    TreeGone,
    /// These processes cannot be killed. They are left to the user.
    LeftRunning(Vec<Pid>),
    /// This process is given up.
    Unkillable(Pid),
    /// The kernel refused this signal to these processes.
    SignalRefused(i32, Vec<Pid>),
    /// A world may leave its fence.
    ReleaseFence(Rank),
    /// The clean-up is complete.
    CleanedUp,
}

/// An action of the owner. The section comments name its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    // Processes.
    /// Send SIGCONT to these processes.
    Continue(BTreeSet<Pid>),
    /// Send SIGCONT to every descendant.
    ContinueDescendants,
    /// Send SIGCONT to the adopted process, if there is one.
    ContinueAdopted,
    /// Let the frozen control group run again.
    Unfreeze,
    /// Kill the control group.
    KillGroup,

    // The helper.
    /// End the running helper.
    StopHelper,

    // The record and the log.
    /// Write this note.
    Note(Note),
    /// Write this note together with the next one.
    NoteLater(Note),
    /// A line of the log, of [`Line::level`].
    Log(Line),

    // Leftovers.
    /// Remove the System V objects that [`Ending::known`](crate::Ending::known) proves to be the job's.
    RemoveObjects,
    /// Remove this file under all these names.
    RemoveFile(FileId, Vec<PathBuf>),
    /// Remove what a program has registered.
    RemoveRegistered(Registered),
    /// Remove the objects of groups of ranks.
    RemoveRankGroups,
    /// Remove the job's directory.
    RemoveDirectory,
    /// Remove the control group and everything below it.
    RemoveGroup,
    /// Remove the job's record in the run directory.
    RemoveRecord,
}

/// A question about processes or files, or an action whose result decides how to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    // With `Answer::Pids`.
    /// The children of this process.
    Children,
    /// The children of that process.
    ChildrenOf(Pid),
    /// All descendants of this process.
    Descendants,
    /// Send this signal. Which living processes belong to another user now, so that the kernel refused it?
    Signal(i32, SignalTarget),

    // With `Answer::Is`.
    /// Is this process stopped or dead? The flag: a child that another process traces counts, too.
    IsStill(Pid, bool),
    /// Send SIGSTOP. Did that succeed?
    Stop(Pid),
    /// Freeze the control group. Did that succeed?
    Freeze,
    /// Is the whole control group frozen?
    IsFrozen,
    /// Remove the control group if it is empty. Did that succeed?
    RemoveEmptyGroup,
    /// Start a helper that finds the users of these inodes. Did that succeed?
    StartHelper(FileKind, Vec<u64>),

    // With other answers.
    /// The members of the frozen control group.
    Members,
    /// The rank whose process this is, or (the flag) whose process group it is in.
    RankOf(Pid, bool),
    /// The effect of a signal on a process.
    Effect(Pid, i32),
    /// Kill all children but these.
    KillChildren(BTreeSet<Pid>),
    /// The lifetime of a process until now. The second value is when the process began, if that is known. The flag says
    /// whether it is about to be reaped.
    Life(Pid, Option<u64>, bool),
    Clocks,
    /// When a file of `/dev/shm` was last created or removed.
    ShmTime,
    /// The files of `/dev/shm`.
    ShmFiles,
}

/// The files whose users are to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// New files. A user is a process of the job, which descends from the manager, or another one.
    New,
    /// Files that the job left. All users are the same.
    Left,
}
