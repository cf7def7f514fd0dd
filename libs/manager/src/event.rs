//! What the owners of a manager report to the node.

use mpd_clients::FromJob;
use mpd_job::manager::{Input, LinkEnd};
use mpd_placement::binding::Bindings;
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::{JobInput, JobNews, ManagerOrder, ManagerReport, Phase, Up};

use crate::news::News;
use crate::output::{ForLinks, ForRanks, ForStdio, Output};

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
    /// For one owner, which performs it.
    Perform(Output),

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
    /// An output of the machine of the clients that does not concern their connections.
    Clients(mpd_clients::Output),
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

impl<T: Into<Output>> From<T> for Event {
    fn from(output: T) -> Self {
        Self::Perform(output.into())
    }
}

impl From<ForLinks> for Output {
    fn from(output: ForLinks) -> Self {
        Self::Links(output)
    }
}

impl From<ForRanks> for Output {
    fn from(output: ForRanks) -> Self {
        Self::Ranks(output)
    }
}

impl From<ForStdio> for Output {
    fn from(output: ForStdio) -> Self {
        Self::Stdio(output)
    }
}

impl From<JobNews> for Output {
    fn from(news: JobNews) -> Self {
        Self::Console(news)
    }
}

impl From<ManagerReport> for Output {
    fn from(report: ManagerReport) -> Self {
        Self::Daemon(report)
    }
}

impl From<mpd_clients::Input<'static>> for Output {
    fn from(input: mpd_clients::Input<'static>) -> Self {
        Self::Clients(input)
    }
}

impl From<FromJob> for Output {
    fn from(event: FromJob) -> Self {
        Self::Clients(mpd_clients::Input::Job(event))
    }
}

impl From<mpd_ending::Input> for Output {
    fn from(input: mpd_ending::Input) -> Self {
        Self::Ending(input)
    }
}
