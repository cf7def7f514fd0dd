//! What the owners of a manager report to the node.

use mpd_clients::{Caller, ClientSpawn, FromJob};
use mpd_job::manager::{Input, LinkEnd};
use mpd_placement::binding::Bindings;
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::{JobInput, JobNews, ManagerOrder, ManagerReport, Phase, Up};

use crate::news::News;
use crate::output::{ForLinks, Output, Work};

/// An edge of a span of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Begin,
    End,
}

/// An event of an owner.
#[derive(Debug)]
pub enum Event {
    /// For the machine.
    Input(Input),
    /// For one owner or machine.
    Work(Work),

    // Of the connections to console and daemon.
    /// A message of the console.
    Console(JobInput),
    /// The console has sent an order of this kind, which is unknown here.
    UnknownOrder(String),
    /// An order of the daemon.
    Daemon(ManagerOrder),
    /// The daemon has died, or has closed the connection.
    DaemonGone,
    /// The answer to [`Output::Register`]: whether a daemon has adopted this manager.
    Registered(bool),

    // Of the job tree.
    News(News),
    /// A manager broke the protocol, for this reason.
    Broken(LinkEnd, String),
    /// For the parent, unless too much waits already.
    UpIfRoom(Up),

    // The timeline.
    Span(Mark, Time, Phase, Option<Rank>),
    /// The spans of this manager go to the root.
    TraceEnds,

    // Of the ranks here.
    /// A rank here requests further processes.
    Spawn(Caller, ClientSpawn),
    /// The CPUs to which the ranks of a world here will be bound.
    Bound(Rank, Bindings),
    /// The ranks of this host are about to be started.
    Going,
    /// The answer to [`Output::Listen`]: the port for PMIx clients, if there is one.
    Listening(Option<u16>),
    /// The process of a rank has ended.
    Ended(Rank),
    /// A spawned rank has ended completely.
    Retired(Rank),
    /// All processes here are about to be killed.
    Killing,
    /// The owners have forgotten the world with this first rank.
    Forgotten(Rank),
}

impl<T: Into<Work>> From<T> for Event {
    fn from(work: T) -> Self {
        Self::Work(work.into())
    }
}

impl From<Output> for Work {
    fn from(output: Output) -> Self {
        Self::Perform(output)
    }
}

impl From<mpd_ranks::Input> for Work {
    fn from(input: mpd_ranks::Input) -> Self {
        Self::Ranks(input)
    }
}

impl From<mpd_ending::Input> for Work {
    fn from(input: mpd_ending::Input) -> Self {
        Self::Ending(input)
    }
}

impl From<ForLinks> for Work {
    fn from(it: ForLinks) -> Self {
        Self::Perform(Output::Links(it))
    }
}

impl From<mpd_stdio::machine::Input> for Work {
    fn from(it: mpd_stdio::machine::Input) -> Self {
        Self::Perform(Output::Stdio(it))
    }
}

impl From<JobNews> for Work {
    fn from(it: JobNews) -> Self {
        Self::Perform(Output::Console(it))
    }
}

impl From<ManagerReport> for Work {
    fn from(it: ManagerReport) -> Self {
        Self::Perform(Output::Daemon(it))
    }
}

impl From<mpd_clients::Input<'static>> for Work {
    fn from(it: mpd_clients::Input<'static>) -> Self {
        Self::Clients(it)
    }
}

impl From<FromJob> for Work {
    fn from(it: FromJob) -> Self {
        Self::Clients(mpd_clients::Input::Job(it))
    }
}
