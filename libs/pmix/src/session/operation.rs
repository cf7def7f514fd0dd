//! The operations of a session, and the answers of its manager.

use pmi_proto::SpawnRequest;

use crate::connect::Introduction;
use crate::error::ProtocolError;
use crate::message::Put;
use crate::status::Status;
use crate::view::{Info, Pair, Proc, Published, Query};

/// An order or a report for the manager.
///
/// Each operation up to `Log` needs exactly one [`Answer`](super::Answer) with its ticket.
/// [`Operation::Connecting`] needs a decision. The other operations need no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Describe the job: [`describe`](crate::job_info::describe).
    JobInfo,
    /// Keep pairs of the rank.
    Commit {
        /// The pairs.
        puts: Vec<Put>,
    },
    /// The rank arrived at a fence.
    Fence {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Whether every host needs the committed data of the members.
        collect: bool,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Find the committed data of a process. With a wildcard as rank: the facts about a job.
    Get {
        /// The process whose data are requested.
        proc: Proc,
        key: Option<Vec<u8>>,
        /// Answer at once with the data on this host.
        immediate: bool,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Publish pairs for other jobs.
    Publish {
        pairs: Vec<Pair>,
        /// The processes that may read them.
        range: Range,
        /// The lifetime of the pairs.
        persistence: Persistence,
    },
    /// Find published pairs.
    Lookup {
        keys: Vec<Vec<u8>>,
        /// The publishers.
        range: Range,
        /// The number of keys for which the answer waits; `None`: no wait.
        wait: Option<usize>,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Withdraw published pairs.
    Unpublish {
        /// The keys. An empty list means all keys of the rank.
        keys: Vec<Vec<u8>>,
        /// The publishers.
        range: Range,
    },
    /// Start a job.
    Spawn(Spawn),
    /// Connect with other processes.
    Connect {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Disconnect from other processes.
    Disconnect {
        /// The members, sorted.
        procs: Vec<Proc>,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Form a group.
    Construct {
        /// The name of the group.
        group: Vec<u8>,
        /// The members, sorted.
        procs: Vec<Proc>,
        /// Whether the group needs a number that no other group has.
        wants_context: bool,
        /// The contribution of this member. It is valid only for this group.
        contribution: Vec<Info>,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Dissolve a group.
    Destruct {
        /// The name of the group.
        group: Vec<u8>,
        /// The members, sorted.
        procs: Vec<Proc>,
        /// The time in seconds after which the answer is a timeout.
        timeout: Option<u32>,
    },
    /// Deliver an event to other processes, but not to its sender.
    Notify(Event),
    /// Answer questions about the system.
    Query(Vec<Query>),
    /// Remove files when the job has ended.
    CleanUp(CleanUp),
    /// Write a text of the library for the user.
    Log {
        /// Whether the text is for standard error; otherwise for standard output.
        to_stderr: bool,
        text: Vec<u8>,
    },
    /// Decide on a client: [`Session::admit`](super::Session::admit) or [`refuse`](super::Session::refuse).
    Connecting(Introduction),
    /// The client has registered for events: [`notify`](super::Session::notify) it of all kept events.
    Registered {
        /// The codes that the client has never registered before.
        codes: Vec<Status>,
    },
    /// The client has finalized. The session has answered.
    Finalized,
    /// The client requests the end of processes. The session has answered; the client may wait for the end.
    Abort {
        /// The exit status.
        status: i32,
        /// A text for the user.
        message: Vec<u8>,
        /// The processes. An empty list means all processes of the job.
        procs: Vec<Proc>,
    },
    /// The client violated the protocol.
    Misbehaved {
        error: ProtocolError,
        /// Whether the manager must close the connection and end the rank. Then no more bytes are decoded.
        is_fatal: bool,
    },
}

/// The processes that may read published pairs or receive an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Only the resource manager.
    Manager,
    /// The processes of the same host.
    Local,
    /// The processes of the same namespace.
    Namespace,
    /// The processes of the session: all jobs of one user in this ring.
    Session,
    /// All processes.
    Global,
    /// The processes of a list.
    Custom,
    /// Only the process itself.
    Own,
}

/// The lifetime of published pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Until they are withdrawn.
    Indefinite,
    /// Until the first lookup.
    FirstRead,
    /// Until the end of the process.
    Process,
    /// Until the end of the application: the processes that were started together.
    Application,
    /// Until the end of the session: all that one `mpirun` runs.
    Session,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The code of the event.
    pub status: Status,
    /// The source of the event.
    pub source: Proc,
    /// The range of the receivers.
    pub range: Range,
    /// The receivers of a custom range.
    pub targets: Vec<Proc>,
    /// Details.
    pub info: Vec<Info>,
}

/// A job to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The programs. Their hints have the keys of PMI-1 and PMI-2.
    pub request: SpawnRequest,
    /// The variables of each program, as `NAME=VALUE`.
    pub environments: Vec<Vec<Vec<u8>>>,
    /// Hints for the whole job, with the same keys.
    pub hints: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Files to remove when the job has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanUp {
    pub files: Vec<Vec<u8>>,
    pub directories: Vec<Vec<u8>>,
    /// Whether the contents of the directories are removed too.
    pub is_recursive: bool,
    /// Patterns of names that are not removed.
    pub ignored: Vec<Vec<u8>>,
    /// Whether the directories themselves are not removed.
    pub keeps_top: bool,
}

/// The manager's answer to an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To an operation without results; also every failure.
    Done(Status),
    /// To [`Operation::JobInfo`]: the pairs that [`describe`](crate::job_info::describe) made.
    JobInfo(&'a [u8]),
    /// To [`Operation::Get`]: data of processes as [`blob`](crate::job_info::blob) makes them.
    Data(&'a [u8]),
    /// The same, with data of processes that the client will probably get next: they save it the requests.
    AllData(&'a [Vec<u8>]),
    /// To [`Operation::Lookup`].
    Found(&'a [Published]),
    /// To [`Operation::Spawn`].
    Spawned {
        /// The namespace of the new job.
        namespace: &'a [u8],
        /// The pairs that describe the job for the node of the client.
        info: &'a [u8],
    },
    /// To [`Operation::Connect`]: the result of [`answer`](crate::job_info::answer) for each other namespace.
    Connected(&'a [Vec<u8>]),
    /// To [`Operation::Query`].
    Answers(Status, &'a [Info]),
    /// To [`Operation::Construct`].
    Group {
        /// All members.
        members: &'a [Proc],
        /// The number of the group, if it was requested.
        context: Option<u64>,
    },
}

impl Range {
    /// The value with this number.
    pub(crate) const fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Manager,
            2 => Self::Local,
            3 => Self::Namespace,
            4 => Self::Session,
            // An undefined range is the widest.
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
    /// The value with this number.
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
