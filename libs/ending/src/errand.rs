//! Steps that follow each other, with questions between them.
//!
//! An [`Errand`] is a step that is still to be done. A [`Waiting`] says what the answer to the open question is for. While
//! a question is open, no errand is done.

use std::collections::{BTreeSet, VecDeque};

use mpd_sansio::Time;
use mpd_wire::{Pid, Rank};

use crate::output::FileKind;
use crate::signal_target::SignalTarget;

/// A pending action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Signal(i32, SignalTarget),
    Continue,
    Kill,
}

/// The purpose of a look at the processes.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// To find the processes that a signal will end. It arrived at that time.
    Signal(Time, (i32, SignalTarget)),
    /// To find whether all are still before a pending action. The look began at the first time, and ends the stop at the second one.
    Action(Time, Time),
    /// To stop everything. The look began at that time.
    Halt(Time),
}

/// A step to be done.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// Act on every deadline at or before that time.
    Expire(Time),

    // Signals and the kill.
    /// Take the next step if it is due.
    Proceed,
    /// The stop is over, in a step that began at the first time; it had to be over at the second one.
    BeginNote(Time, Time),
    /// Decide what is next, in a step that began at that time.
    TakeStep(Time),
    /// Perform the pending actions. The flag: processes are to be continued after them.
    PerformDue(bool),
    /// Perform the pending actions behind the first one.
    PerformNext(bool),
    /// The living processes are noted before they are killed.
    NoteLiving,
    NoteClocks,
    /// Note the lives of these processes until now.
    NoteLives(VecDeque<Pid>),
    /// Kill the control group, or remove it if it is empty.
    KillGroup,
    /// Processes that are still may run again. The flag: others are to be continued as well.
    Release(bool),
    /// Kill the children, if all processes are being killed, in a step that began at the first time. Otherwise the next step is at the second
    /// one, if any.
    Round(Time, Option<Time>),
    /// Look for children to reap.
    Reap,

    // Shared memory.
    /// Look for new files, unless a signal or a kill does that.
    LookWhileRunning,
    /// Look for new files, unless a helper runs.
    FindNew,
    /// Set the time of the next look, after so many.
    SetLook(u8),
    /// A world is to leave its fence.
    HoldFence(Rank),
    /// Let held fences end, unless files have appeared since the last look.
    ReleaseFences,
    /// Let held fences end, unless a helper runs.
    ReleaseUnlessLooking,

    // The clean-up.
    /// Claim files by their names.
    Claim,
    /// Find the files that are left.
    FindLeft,
    /// Have a helper find the users of these files.
    FindUsers(Vec<u64>),
    /// Wait for the helper, if it runs.
    AwaitUsers,
    /// Remove everything except these files in use. If they are unknown, all files of shared memory stay.
    RemoveAll(Option<BTreeSet<u64>>),
    /// Remove System V objects, then files.
    RemoveObjects(Option<BTreeSet<u64>>),
    /// Remove all other leftovers.
    RemoveRest,
}

/// Why the files of `/dev/shm` are listed.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    /// To search for the users of new ones. With the directory's time of change.
    New(Option<u64>),
    /// To claim some by name.
    Claim,
    /// To find those of the job that are left.
    Left,
    /// To remove those of the job that are not in use.
    Remove(BTreeSet<u64>),
}

/// What the answer to the open question is for.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// A look at the processes.
    Look(Purpose),
    /// A signal was sent.
    Signalled(i32),
    /// The ranks were killed, because the system listed no child.
    RanksKilled,
    /// A round of killing, in a step that began at the first time. The round began at the second one.
    Round(Time, Time),
    /// The children, to find whether only survivors are left.
    OnlySurvivors,
    /// The living processes, to note them.
    Living,
    /// The clocks, to note them.
    Clocks,
    /// The life of a child that was started.
    Started(Pid),
    /// The life of a process, to note it.
    Life,
    /// The removal of the control group.
    GroupRemoved,
    /// The directory's time of change, before a search for new files.
    TimeForNew,
    /// The directory's time of change, before files are claimed.
    TimeForClaim,
    Files(Listing),
    /// The start of a helper.
    Helper(FileKind),
}
