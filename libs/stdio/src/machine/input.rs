//! What the owner of the machine reports and answers.

use mpd_wire::job::{LabelFormat, World};
use mpd_wire::{Rank, RankSet, Stream};

use crate::silence::Task;

/// An event for the machine. The section comments name its source.
#[derive(Debug)]
pub enum Input {
    // Ranks here.
    /// A rank was started here.
    Opened(Rank, Opened),
    /// These ranks were started here.
    Begun(Vec<Rank>),
    /// The process of a rank has ended. If the rank has read nothing of its input, the number of bytes that it got.
    RankEnded(Rank, Option<u64>),
    /// A spawned rank has ended completely.
    Retired(Rank),
    /// The debuggers of these ranks answer a command.
    Asked(RankSet),
    /// A mark of a rank's debugger, after that number of bytes of its output.
    Mark(Rank, u64, String),
    /// All marks that belong into the output read so far have come.
    MarksRead(Rank),
    /// The source of a [`Look`] was read after the look at its writer, which has these threads that are ready to run.
    Seen(Look, Vec<Task>),

    // The console, or the parent.
    /// Standard input; no bytes mean its end.
    Stdin(Vec<u8>),
    /// Encoded standard input from the parent.
    StdinPiece(Vec<u8>),
    /// These ranks get the input that follows.
    SwitchStdin(RankSet),
    /// Lines get this label from now on; `None`: no label. A line that has begun keeps its label.
    Label(Option<LabelFormat>),
    /// The parent accepts this many more bytes of a stream.
    OutputCredit(Stream, u32),
    /// The parent asks whether these ranks are behind in a stream.
    LookAt(Stream, RankSet),

    // The children.
    /// Records of output of the child at this tree index.
    Output(usize, Stream, Vec<u8>),
    /// A child answers the question whether ranks are behind.
    Looked(Answer),
    /// The child at this tree index accepts this many more bytes of standard input.
    StdinCredit(usize, u32),
    /// The ranks of this child accept no more standard input, after this many changes of its receivers.
    StdinUnwanted(usize, u32),
    /// The child at this tree index has sent all its output.
    FlowDrained(usize),
    /// A child has joined at this tree index.
    ChildJoined(usize),
    /// The child at this tree index is lost.
    ChildrenGone(usize),

    // The job and the daemon.
    /// The ranks here are about to start. The text is printed before any output of ranks; only at the root.
    Going(Option<String>),
    /// The processes of these ranks, which may run on any host.
    Running(Vec<(Rank, u32)>),
    /// The daemon requests the number of bytes that ranks have written.
    CountOutput,
    /// Ranks without a reported end. The end of their output is not reported either.
    Unreported(Vec<Rank>),
    /// All ranks of this spawned world have ended.
    WorldOver(World),
    /// The ranks are about to be killed. Merged lines no longer wait for ranks that have not begun.
    Killing,
    /// No process of the job lives, so the pipes get no more data.
    Drain,
}

/// The streams of a rank that was started here.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Whether it has a pipe for input.
    pub has_input: bool,
    /// Whether it has pipes for output.
    pub has_outputs: bool,
    /// Whether a debugger writes to them, with marks in standard output.
    pub is_debugged: bool,
}

/// What a host says about ranks in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The child from which it came; `None` if it is about ranks here.
    pub child: Option<usize>,
    pub stream: Stream,
    /// Ranks that get no CPU, or whose output is on its way.
    pub behind: RankSet,
    pub others: RankSet,
}

/// A look at a rank that is silent: first at the threads of the writer, then into the pipe. The rank is silent if it waited
/// then and had written nothing, however slow this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub rank: Rank,
    pub stream: Stream,
    pub(super) why: Why,
}

/// The reason for a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The deadline of an unfinished line has passed.
    Line,
    /// The parent asks.
    Question,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// This many bytes were accepted.
    Bytes(usize),
    /// Nothing is accepted now.
    Full,
    /// The reader has closed the output.
    Closed,
    /// Writing has failed, with this error.
    Failed(String),
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This many bytes were read; 0 at the end.
    Bytes(usize),
    /// The pipe is empty.
    Nothing,
    /// The read was interrupted.
    Interrupted,
    /// Reading has failed, with this error.
    Failed(String),
}
