//! What the owners of a manager perform.

use mpd_clients as clients;
use mpd_ending as ending;
use mpd_job::manager::LinkEnd;
use mpd_wire::job::{LabelFormat, Parts, World};
use mpd_wire::message::{Down, JobNews, ManagerReport, Preload, TreeKind, Up};
use mpd_wire::{Pid, Rank, RankSet, Stream};

pub use mpd_clients::Level;

/// An action of one owner.
#[derive(Debug)]
pub enum Output {
    // For the connections to console and daemon.
    /// Queue this for the console, if there is one.
    Console(JobNews),
    /// Write to the console what it accepts.
    FlushConsole,
    /// Queue this for the daemon, if it is connected.
    Daemon(ManagerReport),
    /// Write to the daemon what it accepts.
    FlushDaemon,
    /// Look for a daemon and register with it. Report [`Event::Registered`](crate::Event::Registered).
    Register,

    // For the other owners.
    Links(ForLinks),
    Stdio(ForStdio),
    Ranks(ForRanks),
    Clients(clients::Input<'static>),
    /// Listen for PMIx clients. Report [`Event::Listening`](crate::Event::Listening).
    Listen,
    Ending(ending::Input),
    /// Look for children to reap.
    Reap,
    /// Pass on the next descriptors that an owner has handed over.
    PassOn,
    /// A line of the log.
    Log(Level, String),
}

/// For the job links, and for the programs on their way to other hosts.
#[derive(Debug)]
pub enum ForLinks {
    /// For the parent.
    Up(Up),
    /// For the child at this tree index.
    Down(usize, Down),
    /// For the children at these tree indices, without delay.
    DownNow(Vec<usize>, Down),
    /// For all children, without delay, since this host may need time for it.
    DownAll(Down),
    Bytes(LinkEnd, TreeKind, Vec<u8>),
    /// Close this link after everything is sent.
    Close(LinkEnd),
    /// Await these children, which have joined, and send them the specification. Report each.
    Join(Vec<usize>),
    /// A part of the parent's list of programs, and whether more follow.
    Listed(Vec<Preload>, bool),
    /// The child at this tree index lacks these files.
    Lacks(usize, Vec<u32>),
    /// A piece of a program.
    File(Vec<u8>),
    /// Send no programs to this child any more.
    StopSending(usize),
    /// Bring no programs any more, since nothing more is started.
    StopStaging,
}

/// For standard input and output.
#[derive(Debug)]
pub enum ForStdio {
    /// Standard input; no bytes mean its end.
    Stdin(Vec<u8>),
    /// Encoded standard input from the parent.
    StdinPiece(Vec<u8>),
    /// Other ranks receive standard input.
    SwitchStdin(RankSet),
    /// The child at this tree index accepts this many more bytes of standard input.
    StdinCredit(usize, u32),
    /// The ranks of this child accept no more standard input, after this many changes of its receivers.
    StdinUnwanted(usize, u32),

    /// Records of output of the child at this tree index.
    Output(usize, Stream, Vec<u8>),
    /// The parent accepts this many more bytes of a stream.
    OutputCredit(Stream, u32),
    /// The child at this tree index has sent all its output.
    FlowDrained(usize),
    /// A child has joined at this tree index.
    ChildJoined(usize),
    /// The child at this tree index is lost.
    ChildrenGone(usize),
    /// The parent asks whether these ranks are behind in a stream.
    LookAt(Stream, RankSet),
    /// What a child says about ranks in one stream.
    Looked {
        child: usize,
        stream: Stream,
        /// Ranks that get no CPU, or whose output is on its way.
        behind: RankSet,
        others: RankSet,
    },
    /// Report the number of bytes that ranks have written.
    CountOutput,
    /// Lines get labels of this form.
    Label(Option<LabelFormat>),

    /// The ranks of this host are about to be started.
    Go,
    /// A spawned world has these parts.
    PrepareWorld(World, Parts),
    /// These ranks were started here.
    Begun(Vec<Rank>),
    /// The processes of these ranks, which may run on any host.
    Running(Vec<(Rank, u32)>),
    /// The process of a rank has ended.
    Ended(Rank),
    /// A spawned rank has ended completely.
    Remove(Rank),
    /// Ranks without a reported end. The end of their output is not reported either.
    Unreported(Vec<Rank>),
    /// All ranks of a spawned world have ended.
    ForgetWorld(World),

    /// The debuggers of these ranks answer a command.
    Asked(RankSet),
    /// A mark of a rank's debugger, after that number of bytes of its output.
    Mark(Rank, u64, String),
    /// All marks that belong into the output read so far have come.
    MarksRead(Rank),

    /// All processes here are about to be killed.
    PrepareEnd,
    /// No process is left: write the rest of the output.
    Drain,
    /// Discard the rest of the output.
    Discard,
}

/// For the processes of the ranks.
#[derive(Debug)]
pub enum ForRanks {
    /// The programs to be brought have arrived; or why nothing can be started.
    Staged(Option<String>),
    /// All hosts are ready.
    Go,
    /// Check what the start of a world needs. The flag: its order has arrived.
    Prepare(Rank, bool),
    StartWorld(Rank),
    EndWorld(Rank),
    ForgetWorld(Rank),
    /// Start nothing more.
    StopStarting,

    /// A signal for the process of one rank.
    Signal(Rank, i32),
    /// The terminals have this size: columns, lines.
    Resize(u16, u16),
    /// A line for the debuggers of these ranks.
    Debug(RankSet, String),
    /// Let ranks die that crashed and were stopped for the user.
    ReleaseCrashed,
    /// Output of a debugged rank was read: read the marks that belong into it, and report
    /// [`ForStdio::MarksRead`].
    ReadMarks(Rank),
    /// A mark of a debugged rank was passed on.
    MarkTaken(Rank),
    /// Make the PMI connections of debugged ranks again.
    Reconnect,

    /// A rank of the first world uses PMI.
    Speaks,
    /// A rank has called `MPI_Abort`.
    Aborts(Rank),
    /// The adopted rank has finalized and closed its connection, so it leaves the job.
    Leaves,
    /// Both streams of a rank have ended.
    OutputEnded(Rank),
    /// This process cannot be killed.
    Unkillable(Pid),
    /// Report all ranks to the new daemon.
    ReportAll,
}
