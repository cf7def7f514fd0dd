//! What the machine wants: actions of the owner, answers, and steps of others.

use std::collections::BTreeMap;

use mpd_ending::{Pid, SignalTarget};
use mpd_job::manager::Input as JobInput;
use mpd_placement::binding::Bindings;
use mpd_wire::job::{Allowance, Bytes};
use mpd_wire::message::{ManagerReport, Phase, ShimOrder};
use mpd_wire::{Rank, RankSet};

use crate::launch::Launch;

/// What the machine wants, or reports. Only an answer and an [`Action`] are system calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Answer this now, with [`Input::Answer`](crate::Input::Answer). It is the last output of a call.
    Ask(Question),

    Act(Action),

    // Reports.
    /// The ranks of a world can be started here, with these bindings to CPUs.
    Bound(Rank, Bindings),
    /// Send a signal to ranks that run here.
    Signal(i32, SignalTarget),
    /// A span of the timeline begins.
    Begin(Phase, Option<Rank>),
    /// A span of the timeline ends.
    End(Phase, Option<Rank>),
    /// The ranks of the first world are about to be started.
    Going,
    /// A child was started; its begin in milliseconds since boot, if that is known.
    Started(Pid, Option<u64>),
    /// These ranks were started, and have output.
    OutputBegun(Vec<Rank>),
    /// The debuggers of these ranks answer a command.
    Asked(RankSet),
    /// A mark of a rank's debugger, after that number of bytes of its output.
    Mark(Rank, u64, String),
    /// The process of a rank has ended.
    Ended(Rank),
    /// A spawned rank has ended completely.
    Retired(Rank),
    /// For the job.
    Job(JobInput),
    /// For the daemon.
    ToDaemon(ManagerReport),
}

/// An action of the owner. The section comments name its subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    // The start.
    /// Keep what the ranks of a world are started with, by argset.
    Prepared(Rank, BTreeMap<usize, Launch>),
    /// Some ranks are about to be started.
    BeginStarts {
        /// Whether they are several.
        are_several: bool,
        /// Whether so many ranks will run here that low numbers for descriptors are needed.
        are_many: bool,
    },
    /// Pass on the pipes and the PMI connection of the rank that was just started.
    HandOver(Rank),
    /// No more ranks are started for now.
    EndStarts,
    /// Few ranks are left: give up the low numbers for descriptors.
    FreeLowNumbers,
    /// Set the niceness of the session. If the system refuses: [`Input::NicenessRefused`](crate::Input::NicenessRefused), once.
    SetNiceness(i8),
    /// Forget what was prepared for a world.
    ForgetPrepared(Rank),

    // Processes.
    /// The adopted process has ended or left the job: forget it.
    ReleaseAdopted,
    /// End the helper that looks for ranks which run alone.
    EndSearch,

    // Shims.
    /// Send this order. A shim that does not take it is ignored.
    Tell(Rank, ShimOrder),
    /// Give the program of this rank a new PMI connection.
    Reconnect(Rank, Slot),
    /// Close the control socket of the shim.
    DropShim(Rank),

    Log(Line),
}

/// A line of the log. Only the owner formats it, if its level is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A command for debuggers with that number of bytes is malformed.
    MalformedCommand(usize),
    /// A rank uses an MPI library without PMI.
    Alone(Rank, String),
    /// A shim has started this process.
    ShimStarted(u32),
}

/// An action whose result decides how to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Limit the job on this host. No process runs yet. With `Answer::Limited`.
    Limit(Allowance),
    /// Start the process of a rank. With `Answer::Started`.
    Start(Start),
    /// Make the adopted process a rank. With `Answer::Adopted`.
    Adopt(Slot),
    /// Send a piece of a command. With `Answer::Sent`.
    Send(Rank, ShimOrder),
    /// Start a helper that examines these ranks. Did that succeed?
    Search(Vec<(Rank, Pid)>),
    /// Kill the adopted process, if there is one. Did that succeed?
    KillAdopted,
}

/// The place of a rank among those of this host. It stands for the tokens of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub usize);

/// The start of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub rank: Rank,
    /// The first rank of its world.
    pub first: Rank,
    pub slot: Slot,
    /// The number of its argset.
    pub argset: usize,
    /// The variables that differ from rank to rank.
    pub variables: Vec<String>,
    /// The arguments, if they differ from rank to rank; else none.
    pub arguments: Vec<Bytes>,
    /// The rank is not started outside of the job's control group, which has limits.
    pub is_confined: bool,
    /// Which of standard input, output and error are closed.
    pub closed: [bool; 3],
    /// Standard input is a pipe.
    pub is_fed: bool,
    /// The user discards the output.
    pub is_muted: bool,
    /// Whether the output pipes may become large.
    pub enlarge: bool,
    /// The size of the ranks' terminals, columns and lines, if it has changed since the job began.
    pub size: Option<(u16, u16)>,
}

/// The way of a signal to the processes of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the shim. If it takes no more orders, to this process group.
    Shim(ShimOrder, Pid),
    Process(Pid),
    Group(Pid),
    /// To the adopted process.
    Adopted,
    /// The process ends by itself, so it gets no signal.
    None,
}
