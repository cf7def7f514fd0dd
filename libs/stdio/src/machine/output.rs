//! What the machine wants: actions of the owner, and steps of others.

use mpd_wire::message::{Down, JobNews, ManagerReport, Up};
use mpd_wire::{Rank, Stream};

/// What the machine reports, or wants. Only an [`Action`] is a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Act(Action),

    // Other managers, the console and the daemon.
    /// Send records of output to the parent.
    Records(Stream, Vec<u8>),
    /// Send encoded standard input to the child at this tree index.
    StdinPiece(usize, Vec<u8>),
    ToParent(Up),
    /// Send this to the parent, unless too much waits already.
    ToParentIfRoom(Up),
    ToChild(usize, Down),
    ToConsole(JobNews),
    ToDaemon(ManagerReport),
    /// The child at this tree index broke the protocol.
    Broken(usize, String),

    // Ranks here.
    /// Both streams of a rank have ended.
    Ended(Rank),
    /// Output of a debugged rank was read: read the marks that belong into it.
    ReadMarks(Rank),
    /// A mark of a debugged rank was passed on.
    MarkTaken(Rank),

    // The job.
    /// The reader of the standard output has closed it.
    OutputClosed,
    OutputFailed(String),
    Notice(String),
    /// The drain makes progress.
    DrainGoesOn,
    Drained,
}

/// An action of the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Close the pipe of an output stream of a rank, if it is open.
    CloseSource(Rank, Stream),
    /// Close the standard input of a rank after its last byte.
    EndInput(Rank),
    /// Close the output of this number.
    CloseSink(usize),
    /// Write this line to the log.
    Log(Level, String),
}

/// The level of a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Warn,
    Debug,
}

/// The destination of bytes that the machine gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The output of this number.
    Sink(usize),
    /// The standard input of a rank.
    Input(Rank),
}

/// The next step of reading.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// Read this source into this room. [`Stdio::was_read`](super::Stdio::was_read) gets the result.
    Source(Rank, Stream, &'a mut [u8]),
    /// Something that was read earlier was passed on.
    Passed,
}
