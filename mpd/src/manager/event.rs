//! What owners report. The loop delivers each event before the machine's next output.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use mpd_job::manager::Input;
use mpd_machine::Time;
use mpd_wire::job::Share;
use mpd_wire::message::{
    Down, JobNews, ManagerReport, NameAnswer, Phase, Placing, Span, TreeKind, Up,
};
use mpd_wire::{JobId, Rank, RankSet, Stream};
use nix::unistd::Pid;
use pmi_proto::SpawnRequest;

use super::links::End;
use super::pmi::Asker;
use super::spawns::Announced;
use super::stdio::Pipes;

/// An edge of a span of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Begin,
    End,
}

/// Which PMI connection a rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// That of a program that this manager started.
    Program,
    /// That of a program that runs under a debugger and may be started once more.
    Debugged,
    /// That of a program that ran before its job.
    Adopted,
}

/// See the module. Names say what happened or what is wanted, and the comment who takes it.
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
    /// The command to start the ranks goes to the managers below.
    GoPassedOn(Time),
    /// Spans of the manager at a place, by way of the one at `child`, with the times when that one took the
    /// command to start and when it sent this.
    Spans {
        child: usize,
        place: u32,
        times: (u64, u64),
        spans: Vec<Span>,
    },
    /// All that this manager has measured goes to the root.
    TraceEnds,

    // For `pmi`.
    /// Our end of a PMI connection.
    Pmi(Rank, Client, UnixStream),
    /// Keys and values of other hosts.
    Keys(End, Vec<u8>),
    /// What came of the spawn of a rank here: the name of the world's key-value space and an error code per
    /// process.
    SpawnAnswer(Asker, Result<(String, Vec<i32>), &'static str>),
    /// A rank that was adopted is no part of the job any more.
    Released(Rank),
    /// The daemon's answer about a name.
    Named(u32, NameAnswer),
    /// That name is that job's now.
    NameLost(String, JobId),

    // For `spawns`.
    /// A rank here wants further processes.
    Spawn(Asker, SpawnRequest),
    /// A piece of a request or of an order.
    WorldPiece(End, Vec<u8>),
    /// Where spawned processes go.
    Placed(u32, Placing),

    // For `ending`.
    /// A signal for the groups of all ranks here.
    SignalAll(i32),

    // For `ranks`.
    /// A signal for the process of one rank.
    Signal(Rank, i32),
    /// A rank of the first world speaks PMI.
    Speaks,
    /// A rank has called for the end of the job.
    Aborts(Rank),
    /// The adopted rank has finalized and closed its connection.
    Parts,
    /// Both streams of a rank have ended.
    Silent(Rank),
    /// A process of ours cannot be killed.
    Unkillable(Pid),
    /// The programs are here that had to be brought; or why nothing can be started.
    Staged(Option<String>),

    // For more than one.
    /// The ranks of this host are about to be started.
    Going,
    /// A daemon has taken us over.
    Registered,
    /// A process of the job was started here.
    Started(Pid),
    /// The process of a rank has ended.
    Ended(Rank),
    /// Nothing is left of a spawned rank.
    Retired(Rank),
    /// Everything here is about to be killed.
    Killing,
    /// A spawned world is to be started here or below.
    Announced(Box<Announced>),
    /// All ranks of a spawned world have ended.
    WorldOver(Rank),
    /// Hosts join the job, at the places from here on.
    Grow(u32, Vec<Share>),
    /// The programs of a job that is debugged start once more.
    Restart,

    // For the loop.
    /// Children may have ended.
    Reap,
    /// Nothing remains to be done: the exit code.
    Over(u8),
}

/// What is for `links`.
#[derive(Debug)]
pub(super) enum ForLinks {
    /// For the manager above.
    Up(Up),
    /// For the manager above, unless too much waits already.
    UpIfRoom(Up),
    /// For the manager below at this place.
    Down(usize, Down),
    /// For the managers below at these places, without delay.
    DownNow(Vec<usize>, Down),
    Bytes(End, TreeKind, Vec<u8>),
    /// A manager of the job has connected by way of the daemon: the connection and its hello.
    Connected(OwnedFd, Vec<u8>),
    /// A manager broke the protocol.
    Broken(End, String),
    /// The daemon has died.
    DaemonGone,
}

/// What is for `stdio`.
#[derive(Debug)]
pub(super) enum ForStdio {
    /// The pipes of a rank that was started.
    Pipes(Rank, Box<Pipes>),
    /// Standard input; empty at its end.
    Stdin(Vec<u8>),
    /// Encoded standard input of the manager above.
    StdinPiece(Vec<u8>),
    /// Who receives standard input from now on.
    SwitchStdin(RankSet),
    /// Records of output from the place below.
    Output(usize, Stream, Vec<u8>),
    /// The manager above takes so many bytes more of a stream.
    OutputCredit(Stream, u32),
    /// The manager below at that place takes so many bytes of standard input more.
    StdinCredit(usize, u32),
    /// The ranks there take no more standard input, after so many changes of its receivers.
    StdinUnwanted(usize, u32),
    /// No more output comes from that place.
    FlowDrained(usize),
    /// A manager joins below at that place.
    BelowJoined(usize),
    /// The manager below at that place is out of reach.
    BelowGone(usize),
    /// These ranks were started here.
    Begun(Vec<Rank>),
    /// These ranks, of whichever host, run as these processes.
    Running(Vec<(Rank, u32)>),
    /// The daemon asks how much ranks have written.
    CountOutput,

    /// Ranks that have not come to an end of their own: nothing says when their output ends.
    Unheard(Vec<Rank>),
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
