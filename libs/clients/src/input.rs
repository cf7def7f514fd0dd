//! What the owner of the machine reports.

use mpd_job::manager::LinkEnd;
use mpd_wire::job::Bytes;
use mpd_wire::message::{Down, FenceGroup, NameAnswer, Up};
use mpd_wire::names::Refusal;
use mpd_wire::{JobId, Rank};

use crate::caller::{Caller, SpawnResult};
use crate::client::{Client, ConnectionId};

/// An event.
#[derive(Debug)]
pub enum Input<'a> {
    /// Of a connection.
    Client(ConnectionId, FromClient<'a>),
    /// Of the job's machine, or of another owner of the manager.
    Job(FromJob),

    // Connections that begin.
    /// A rank has a PMI connection: a new one if it is debugged and starts again.
    Connected(Rank, Client),
    /// PMIx connections have arrived.
    Accepted(Accepted),
    /// A connection that [`Action::Probe`](crate::Action::Probe) named was read once.
    Probed(usize),
    /// There is no port for PMIx clients, for this reason.
    NoPort(String),
    /// The port for PMIx clients is not watched yet, since the system fails.
    NoWatch,

    // Other managers, other jobs, the daemon.
    /// Keys and values of other hosts.
    Keys(LinkEnd, Vec<u8>),
    /// A piece of data of PMIx clients.
    Piece(LinkEnd, Vec<u8>),
    /// An input of the meetings with ranks of other jobs.
    Meeting(mpd_connect::Input),
    /// The daemon's answer about a name.
    Named(u32, NameAnswer),
    /// A name belongs to another job now, or was taken back by another job.
    NameLost(String, Option<JobId>),
    /// Requests for a name that was published here were refused.
    NameRefused(Refusal),
    /// There is a new daemon, which has no request of ours.
    DaemonReplaced,
}

/// An event of a connection.
#[derive(Debug)]
pub enum FromClient<'a> {
    /// These bytes were read; possibly none.
    Received(&'a [u8]),
    /// The end was read.
    Closed,
    /// The answers are about to be written. Requests that the client has sent meanwhile are performed before.
    Writing,
    /// The answers were written, as far as the client accepts them.
    Written,
}

/// An event of the job's machine, or of another owner of the manager.
#[derive(Debug)]
pub enum FromJob {
    /// The world with this first rank is to be started here or in the subtree, with these values of its spawner.
    Prepare(Rank, Vec<(Bytes, Bytes)>),
    /// All ranks of a spawned world have ended.
    Forget(Rank),
    /// The process of a rank has ended, or has left the job.
    Ended(Rank),
    /// A spawned rank has ended completely.
    Removed(Rank),
    /// A rank has failed in a job that continues.
    Dead(Rank),
    /// The programs of a debugged job start again.
    Restart,
    /// Ranks that were held may be read.
    Read,
    /// A world leaves its fence.
    ReleaseFence(Rank),
    /// A group of ranks of a world leaves its fence.
    ReleaseGroup(Rank, FenceGroup),
    /// The children at these tree indices leave a fence of this world by that command.
    ReleaseChildren(Vec<usize>, Rank, Down),
    /// Ranks entered a fence; the report for the parent.
    Entered(Up),
    /// All members of a group that meets ranks of other jobs have arrived. At the root.
    Assembled(Rank, FenceGroup),
    /// The answer to the spawn of a rank here.
    Spawned(Caller, SpawnResult),
}

/// PMIx connections that have arrived in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The numbers of those of this user.
    pub own: Vec<usize>,
    /// There were others, or closed ones.
    pub met_foreign: bool,
    /// It took the kernel long to say whose they are.
    pub was_slow: bool,
    /// The system had no descriptor for a waiting one.
    pub has_failed: bool,
}
