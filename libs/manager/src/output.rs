//! What the owners of a manager perform.

use mpd_clients as clients;
use mpd_ending as ending;
use mpd_job::manager::LinkEnd;
use mpd_ranks::{self as ranks, Way};
use mpd_stdio::machine as stdio;
use mpd_wire::Rank;
use mpd_wire::job::{Parts, World};
use mpd_wire::message::{Down, JobNews, ManagerReport, Preload, TreeKind, Up};

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
    Stdio(stdio::Input),
    /// The process of a rank has ended: report it to the machine of output, with the input that the rank has not read.
    RankEnded(Rank),
    /// Open the files for the output of a spawned world with these parts.
    OpenFiles(World, Parts),
    /// Discard the rest of the output.
    DiscardOutput,
    Clients(clients::Action),
    /// Listen for PMIx clients. Report [`Event::Listening`](crate::Event::Listening).
    Listen,
    // Of the processes of the ranks.
    Ranks(ranks::Action),
    /// Answer this with [`Node::give_ranks`](crate::Node::give_ranks), before anything else.
    AskRanks(ranks::Question),
    /// Send this signal to a rank, in that way.
    Send(Rank, Way, i32),
    /// Output of a debugged rank was read: read the marks that belong into it, and report [`MarksRead`](stdio::Input::MarksRead).
    ReadMarks(Rank),

    // Of the end of processes.
    Ending(ending::Action),
    /// Answer this with [`Node::give_ending`](crate::Node::give_ending), before anything else.
    AskEnding(ending::Question),
    /// Look for children to reap.
    Reap,
    /// Pass on the next descriptors that an owner has handed over.
    PassOn,
    /// A line of the log.
    Log(Level, String),
}

/// What an event leads to.
#[derive(Debug)]
pub enum Work {
    Perform(Output),
    // Inputs of machines.
    Ranks(ranks::Input),
    Ending(ending::Input),
    Clients(clients::Input<'static>),
    /// A signal for the process of one rank.
    Signal(Rank, i32),
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
