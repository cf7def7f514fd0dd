//! What the machine wants: actions of the owner, and steps of others.

use std::path::PathBuf;

use mpd_job::manager::{Input as JobInput, LinkEnd};
use mpd_leftovers::record::Registered;
use mpd_wire::Rank;
use mpd_wire::message::{Down, ManagerReport, TreeKind, Up};

use crate::caller::{Caller, ClientSpawn};
use crate::client::ConnectionId;

/// What the machine wants, or reports. Only an [`Action`] is a system call.
#[derive(Debug)]
pub enum Output {
    // The job.
    /// An input of the job's machine.
    Job(JobInput),
    /// A message for the daemon.
    Daemon(ManagerReport),
    /// For other managers of the job.
    Links(LinkOutput),
    /// A rank here requests further processes.
    Spawn(Caller, ClientSpawn),
    /// A signal for the process of one rank.
    Signal(Rank, i32),
    /// A rank of the first world uses PMI or PMIx.
    Speaks,
    /// A rank has called `MPI_Abort`.
    Aborts(Rank),
    /// The adopted rank has finalized and closed its connection, so it leaves the job.
    Leaves,
    /// A program has registered files or directories for removal at the end.
    ToRemove(Registered),
    /// The first rank of a fence here has arrived, for the timeline.
    FenceBegins,
    /// A fence has ended, for the timeline.
    FenceEnds,

    Act(Action),
}

/// An action of the owner. The section comments name its subject.
#[derive(Debug)]
pub enum Action {
    // Connections.
    /// Read this PMIx connection again. It was not read for a while, since its client had too many requests.
    Resume(usize),
    /// Read the PMI connections of all ranks. They were not read, because the job was held.
    ResumeAll,
    /// Read this PMIx connection once, now, and report [`Input::Probed`](crate::Input::Probed).
    Probe(usize),
    /// Close this connection. What it could not write yet is dropped.
    Close(ConnectionId),
    /// Accept no PMIx connections until [`Action::Listen`].
    Rest,
    /// Accept PMIx connections again.
    Listen,

    // The host.
    /// Make this directory for the user alone, unless it exists.
    MakeDirectory(PathBuf),
    /// A line of the log.
    Log(Level, String),
}

/// For other managers of the job.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkOutput {
    /// For the parent.
    Up(Up),
    /// For the children at these tree indices, without delay.
    DownNow(Vec<usize>, Down),
    /// Bytes for a neighbour.
    Bytes(LinkEnd, TreeKind, Vec<u8>),
    /// This neighbour broke the protocol, for this reason.
    Broken(LinkEnd, String),
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work that must.
    Error,
    /// Something is lost or refused that should not be.
    Warning,
    /// For the administrator of a host.
    Info,
    /// For developers.
    Debug,
}

impl From<LinkOutput> for Output {
    fn from(output: LinkOutput) -> Self {
        Self::Links(output)
    }
}
