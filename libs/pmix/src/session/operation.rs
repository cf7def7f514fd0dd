//! What passes between a session and its manager.

use pmi_proto::SpawnRequest;

use crate::connect::Introduction;
use crate::error::ProtocolError;
use crate::message::Put;
use crate::status::Status;
use crate::view::{Info, Pair, Proc, Published, Query};

/// What the manager has to do or to know.
///
/// All up to `Log` want exactly one [`Answer`](super::Answer), which goes with their ticket. The others want none;
/// [`Operation::Connecting`] wants a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Describe the job: [`describe`](crate::job_info::describe).
    JobInfo,
    /// Keep these pairs of the rank.
    Commit {
        /// The pairs.
        puts: Vec<Put>,
    },
    /// The rank arrived at a fence.
    Fence {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Whether what the members have committed is wanted everywhere.
        collect: bool,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Find what another process has committed; or facts of a job, where the rank is a wildcard.
    Get {
        /// Whose data.
        proc: Proc,
        /// The wanted key.
        key: Option<Vec<u8>>,
        /// Answer at once what is known on this host.
        immediate: bool,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Publish pairs for other jobs.
    Publish {
        /// The pairs.
        pairs: Vec<Pair>,
        /// Their readers.
        range: Range,
        /// How long they stay.
        persistence: Persistence,
    },
    /// Find published pairs.
    Lookup {
        /// The keys.
        keys: Vec<Vec<u8>>,
        /// Among which publishers.
        range: Range,
        /// Answer when at least this number of keys is there; `None`: at once.
        wait: Option<usize>,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Take published pairs back.
    Unpublish {
        /// The keys; empty are all of the rank.
        keys: Vec<Vec<u8>>,
        /// Among which publishers.
        range: Range,
    },
    /// Start a job.
    Spawn(Spawn),
    /// Join with other processes.
    Connect {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Part from them.
    Disconnect {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Form a group.
    Construct {
        /// Its name.
        group: Vec<u8>,
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Whether it wants a number that no other group has.
        wants_context: bool,
        /// What this member has for the others, to be kept with the number of the group.
        contribution: Vec<Info>,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Dissolve a group.
    Destruct {
        /// Its name.
        group: Vec<u8>,
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Seconds after which to answer with a timeout.
        timeout: Option<u32>,
    },
    /// Deliver an event to other processes, never to its sender.
    Notify(Event),
    /// Answer questions about the system.
    Query(Vec<Query>),
    /// Remove files when the job has ended.
    CleanUp(CleanUp),
    /// Write a text of the library for the user.
    Log {
        /// To standard error, or to standard output.
        to_stderr: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// Decide about a client: [`Session::admit`](super::Session::admit) or [`refuse`](super::Session::refuse).
    Connecting(Introduction),
    /// The client is registered for events from now on: deliver what was kept of them.
    Registered {
        /// The codes that it never had before.
        codes: Vec<Status>,
    },
    /// The client finalized, and was answered.
    Finalized,
    /// The client wants processes killed. It was answered, and may wait for the end.
    Abort {
        /// The exit status.
        status: i32,
        /// A text for the user.
        message: Vec<u8>,
        /// Which; empty are all of its job.
        procs: Vec<Proc>,
    },
    /// The client violated the protocol.
    Misbehaved {
        /// What it did.
        error: ProtocolError,
        /// Nothing more is decoded: end the connection, and the rank.
        is_fatal: bool,
    },
}

/// Which processes may read published pairs, or receive an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// The resource manager alone.
    Manager,
    /// Those of the same host.
    Local,
    /// Those of the same namespace.
    Namespace,
    /// Those of the session: all jobs of one user here.
    Session,
    /// All.
    Global,
    /// Those of a list.
    Custom,
    /// The process itself.
    Own,
}

/// How long published pairs stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Until they are taken back.
    Indefinite,
    /// Until the first lookup.
    FirstRead,
    /// As long as the process.
    Process,
    /// As long as the job.
    Application,
    /// As long as the session.
    Session,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub status: Status,
    /// Where it comes from.
    pub source: Proc,
    /// Its receivers.
    pub range: Range,
    /// The receivers of a custom range.
    pub targets: Vec<Proc>,
    /// Details.
    pub info: Vec<Info>,
}

/// A job to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The programs, with hints under the keys that the other dialects use.
    pub request: SpawnRequest,
    /// For each program the variables that it gets, `NAME=VALUE`.
    pub environments: Vec<Vec<Vec<u8>>>,
    /// Hints for the whole job, under those keys.
    pub hints: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Files to remove when the job has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanUp {
    /// Files.
    pub files: Vec<Vec<u8>>,
    /// Directories.
    pub directories: Vec<Vec<u8>>,
    /// Whether the contents of the directories go, too.
    pub is_recursive: bool,
    /// Patterns of names that stay.
    pub ignored: Vec<Vec<u8>>,
    /// Whether the directories themselves stay.
    pub keeps_top: bool,
}

/// The manager's answer to an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To an operation without results, and every failure.
    Done(Status),
    /// To [`Operation::JobInfo`]: the pairs that [`describe`](crate::job_info::describe) made.
    JobInfo(&'a [u8]),
    /// To [`Operation::Get`]: data of processes as [`blob`](crate::job_info::blob) makes them.
    Data(&'a [u8]),
    /// To [`Operation::Lookup`].
    Found(&'a [Published]),
    /// To [`Operation::Spawn`].
    Spawned {
        /// The namespace of the new job.
        namespace: &'a [u8],
        /// The pairs that describe it to the node of the asker.
        info: &'a [u8],
    },
    /// To [`Operation::Connect`]: for each other namespace what [`answer`](crate::job_info::answer) makes.
    Connected(&'a [Vec<u8>]),
    /// To [`Operation::Query`].
    Answers(Status, &'a [Info]),
    /// To [`Operation::Construct`].
    Group {
        /// All members.
        members: &'a [Proc],
        /// The number of the group, if one was wanted.
        context: Option<u64>,
    },
}

impl Range {
    /// By its number.
    pub(crate) const fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Manager,
            2 => Self::Local,
            3 => Self::Namespace,
            4 => Self::Session,
            // Undefined is the widest.
            0 | 5 => Self::Global,
            6 => Self::Custom,
            7 => Self::Own,
            _ => return None,
        })
    }

    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Manager => 1,
            Self::Local => 2,
            Self::Namespace => 3,
            Self::Session => 4,
            Self::Global => 5,
            Self::Custom => 6,
            Self::Own => 7,
        }
    }
}

impl Persistence {
    /// By its number.
    pub(crate) const fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Indefinite,
            1 => Self::FirstRead,
            2 => Self::Process,
            3 => Self::Application,
            4 => Self::Session,
            _ => return None,
        })
    }
}
