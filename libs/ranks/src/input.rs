//! What the owner of the machine reports and answers.

use mpd_debug::shim::Abilities;
use mpd_ending::Pid;
use mpd_wire::job::{Failure, RankEnd};
use mpd_wire::message::ShimReport;
use mpd_wire::{Rank, RankSet};

use crate::failures::StartProblem;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The answer to the question that was the last output.
    Answer(Answer),

    // The start.
    /// The first phase: check the ranks here, unless this problem is already known.
    Check(Option<String>),
    /// Check the ranks of a spawned world that run here. The flag: its order is known.
    Prepare(Rank, bool),
    /// All hosts are ready: start the ranks of the first world.
    Go,
    /// Start the ranks of a world that run here.
    StartWorld(Rank),
    /// A turn of the loop in which ranks can be started: no process is being stopped or ended.
    Turn,
    /// Start no more ranks of a spawned world that cannot be started, and end those that run here.
    EndWorld(Rank),
    /// The ranks of a spawned world have ended.
    ForgetWorld(Rank),
    /// Start no more ranks: all processes here are about to be killed.
    Killing,
    /// The system has refused a niceness of the session.
    NicenessRefused,

    // Ranks that run.
    /// A daemon has adopted this manager.
    Registered,
    /// The size of the ranks' terminals: columns and lines.
    Resize(u16, u16),
    /// A rank of the first world uses PMI.
    UsesPmi,
    /// Processes are about to be stopped, so no helper may run.
    PauseSearch,
    /// The helper has ended. A rank that runs alone and the file of its MPI library, if it has found one.
    SearchEnded(Option<(Rank, String)>),

    // Shims.
    /// The shim of a rank has sent these.
    Reports(Rank, Vec<ShimReport>),
    /// The shim of a rank has broken the protocol, and is ignored from now on.
    ShimBroken(Rank),
    /// A mark of a rank's debugger was passed on.
    MarkTaken(Rank),
    /// Held crashed processes may die.
    ReleaseCrashed,
    /// A command of the console for the debuggers of these ranks.
    Command(RankSet, String),
    /// All debugged programs start again.
    Restart,

    // Ends.
    /// Both output streams of a rank have ended.
    OutputEnded(Rank),
    /// The process of a rank was reaped. The reports of its shim were read before. The flag: all processes are being killed.
    Reaped(Pid, RankEnd, bool),
    /// A child cannot be killed.
    Unkillable(Pid),
    /// The adopted rank has called `MPI_Abort`.
    Aborts(Rank),
    /// The adopted process has ended or left the job.
    AdoptedLeft,
    /// Kill the adopted process, if it still belongs to the job.
    KillAdopted,
}

/// The answer to a [`Question`](crate::Question).
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Yes or no; whether the action succeeded.
    Is(bool),
    /// Why the job cannot be limited; a text for people.
    Limited(Result<(), String>),
    Started(Result<Started, StartProblem>),
    /// The number of the adopted process.
    Adopted(Result<u32, Failure>),
    Sent(Sent),
}

/// The process of a rank runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// Its number.
    pub pid: Pid,
    /// Its begin in milliseconds since boot, if that is known.
    pub begin: Option<u64>,
    /// The abilities of its shim, if it is one.
    pub shim: Option<Abilities>,
    /// A line for the user about its CPUs, if these are to be reported.
    pub cpus: Option<String>,
    /// Why its descriptors cannot be used.
    pub unwatched: Option<StartProblem>,
}

/// Whether an order for a shim was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Yes,
    /// Too many wait. It can be sent again later.
    Later,
    /// The shim has ended.
    Gone,
}
