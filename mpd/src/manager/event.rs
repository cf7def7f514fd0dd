//! The events that owners report. The loop delivers each event before the machine's next output.

use std::os::fd::OwnedFd;

use mpd_clients::{Caller, Client, ClientSpawn, FromJob};
use mpd_job::manager::Input;
use mpd_leftovers::record::Registered;
use mpd_machine::Time;
use mpd_placement::binding::Bindings;
use mpd_wire::job::HostSlice;
use mpd_wire::message::{Down, JobNews, JobOrder, ManagerReport, Phase, Span, TreeKind, Up};
use mpd_wire::{Rank, RankSet, Stream};
use nix::unistd::Pid;

use super::links::branches::LinkEnd;
use super::pmi_socket::PmiSocket;
use super::stdio::answer::Answer;
use super::stdio::pipes::Pipes;

/// An edge of a span of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Begin,
    End,
}

/// An event of an owner. The section comments name the receiver.
#[derive(Debug)]
pub(super) enum Event {
    /// For the machine.
    Input(Input),
    Links(ForLinks),
    Stdio(ForStdio),

    // For `upstream`.
    ToConsole(JobNews),
    ToDaemon(ManagerReport),
    Span(Mark, Time, Phase, Option<Rank>),
    /// The command to start the ranks is passed to the children.
    GoPassedOn(Time),
    /// Spans of the manager at `tree_index`, through the child `child`. `times` are when the child got the command
    /// to start, and when it sent the spans.
    Spans {
        child: usize,
        tree_index: u32,
        times: (u64, u64),
        spans: Vec<Span>,
    },
    /// The spans of this manager go to the root.
    TraceEnds,

    // For `pmi`.
    /// The manager's end of a PMI connection.
    Pmi(Rank, Client, PmiSocket),
    /// For its machine.
    Clients(mpd_clients::Input<'static>),

    // For `spawning`.
    /// A rank here requests further processes.
    Spawn(Caller, ClientSpawn),

    // For `ending`.
    /// A signal for the groups of all ranks here.
    SignalAll(i32),
    /// A program has registered files or directories for removal at the end.
    ToRemove(Registered),

    // For `ranks`.
    /// A signal for the process of one rank.
    Signal(Rank, i32),
    /// A rank of the first world uses PMI.
    Speaks,
    /// A rank has called `MPI_Abort`.
    Aborts(Rank),
    /// The adopted rank has finalized and closed its connection, so it leaves the job.
    Leaves,
    /// Both streams of a rank have ended.
    OutputEnded(Rank),
    /// A process of ours cannot be killed.
    Unkillable(Pid),
    /// Output of a debugged rank was read: marks that belong into it are wanted.
    ReadMarks(Rank),
    /// A mark of a debugged rank was passed on.
    MarkTaken(Rank),
    /// The programs to be brought have arrived; or why nothing can be started.
    Staged(Option<String>),

    // For more than one.
    /// The CPUs to which the ranks of a world here will be bound.
    Bound(Rank, Bindings),
    /// The ranks of this host are about to be started.
    Going,
    /// A daemon has adopted this manager.
    Registered,
    /// A process of the job was started here; and its begin in milliseconds since boot, if that is known.
    Started(Pid, Option<u64>),
    /// The process of a rank has ended.
    Ended(Rank),
    /// A spawned rank has ended completely.
    Retired(Rank),
    /// All processes here are about to be killed.
    Killing,
    /// All ranks of a spawned world have ended.
    WorldOver(Rank),
    /// Hosts join the job; the first of them gets this tree index.
    Grow(u32, Vec<HostSlice>),
    /// The programs of a debugged job start again.
    Restart,
    /// An order of a user.
    Order(JobOrder),

    // For the loop.
    /// A user requests the state of the machine, by this request of the daemon.
    State(u32),
    /// Children may have ended.
    Reap,
    /// The job is over here, with this exit code.
    Over(u8),
}

/// An event for `links`.
#[derive(Debug)]
pub(super) enum ForLinks {
    /// For the parent.
    Up(Up),
    /// For the parent, unless too much waits already.
    UpIfRoom(Up),
    /// For the child at this tree index.
    Down(usize, Down),
    /// For the children at these tree indices, without delay.
    DownNow(Vec<usize>, Down),
    Bytes(LinkEnd, TreeKind, Vec<u8>),
    /// A manager of the job has connected through the daemon: the connection and its hello.
    Connected(OwnedFd, Vec<u8>),
    /// A manager broke the protocol.
    Broken(LinkEnd, String),
    /// The daemon has died.
    DaemonGone,
}

/// An event for `stdio`.
#[derive(Debug)]
pub(super) enum ForStdio {
    /// The pipes of a started rank.
    Pipes(Rank, Box<Pipes>),
    /// Standard input; no bytes mean its end.
    Stdin(Vec<u8>),
    /// Encoded standard input from the parent.
    StdinPiece(Vec<u8>),
    /// Records of output of the child at this tree index.
    Output(usize, Stream, Vec<u8>),
    /// The parent accepts this many more bytes of a stream.
    OutputCredit(Stream, u32),
    /// The parent asks whether these ranks are behind in a stream.
    LookAt(Stream, RankSet),
    /// A child answers such a question.
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
    /// These ranks were started here.
    Begun(Vec<Rank>),
    /// The processes of these ranks, which may run on any host.
    Running(Vec<(Rank, u32)>),
    /// The daemon requests the number of bytes that ranks have written.
    CountOutput,
    /// The debuggers of these ranks answer a command.
    Asked(RankSet),
    /// A mark of a rank's debugger, after that number of bytes of its output.
    Mark(Rank, u64, String),
    /// All marks that belong into the output read so far have come.
    MarksRead(Rank),
    /// Ranks without a reported end. The end of their output is not reported either.
    Unreported(Vec<Rank>),
}

impl From<mpd_clients::Input<'static>> for Event {
    fn from(input: mpd_clients::Input<'static>) -> Self {
        Self::Clients(input)
    }
}

impl From<FromJob> for Event {
    fn from(event: FromJob) -> Self {
        Self::Clients(mpd_clients::Input::Job(event))
    }
}

impl From<ForLinks> for Event {
    fn from(event: ForLinks) -> Self {
        Self::Links(event)
    }
}

impl From<ForStdio> for Event {
    fn from(event: ForStdio) -> Self {
        Self::Stdio(event)
    }
}
