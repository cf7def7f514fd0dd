//! Between a daemon and the managers of its host, and the first message on the daemon's socket.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::frame::Versions;
use crate::job::{
    Cookie, HostSlice, HostSlices, JobKey, MAX_HOST_SLICES, ManagerEnd, Notice, SpawnPlacement,
};
use crate::message::console::RingRequest;
use crate::message::events::{HostChange, JobEvent, MAX_EVENTS, MAX_HOST_CHANGES};
use crate::message::job_order::JobOrder;
use crate::message::jobs::{MAX_RUN, MAX_RUNS, RankRun, SpawnState};
use crate::message::meeting::{MeetingAnswer, MeetingOperation};
use crate::message::order::Launch;
use crate::message::ring::Payload;
use crate::message::trace::Span;
use crate::names::{Hold, NameKey, Refusal};
use crate::{DaemonName, Instance, JobId, Rank, RankSet};

/// First message on a connection to the daemon's Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// A console submits a job; `spec_bytes` bytes of specification follow as frames. Its standard
    /// output and error are passed as descriptors with the first byte.
    Submit {
        /// [`crate::message::VERSION`] of the console.
        version: Versions,
        /// Size of the specification that follows.
        spec_bytes: u32,
    },
    /// A console asks for the daemon's status.
    Status {
        /// [`crate::message::VERSION`] of the console.
        version: Versions,
    },
    /// A console sends a request about the ring.
    Ring {
        /// [`crate::message::VERSION`] of the console.
        version: Versions,
        request: RingRequest,
    },
    /// A manager whose daemon died registers with the new daemon.
    Register {
        /// [`crate::message::VERSION`] of the manager.
        version: Versions,
        job: JobId,
        /// The cookie of the job. The daemon that started the job knows it, and so does the job's
        /// record.
        cookie: Cookie,
        /// See [`StartJob::tree_index`].
        tree_index: u32,
        /// The manager's instance, which job links name.
        manager: Instance,
        /// The key of the job's links. Daemons keep it in memory only.
        key: JobKey,
    },
}

/// Daemon to manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagerOrder {
    /// Run this job. The root manager's specification follows as frames. The other managers receive
    /// the specification from their parents. The first byte carries descriptors: the locked record of
    /// the job. For the root also the console's connection, its standard output and its standard error,
    /// and [`StartJob::adopts`].
    Start(Box<StartJob>),
    /// Kill the job and end.
    Kill,
    /// The manager cannot register here. This is [`ConsoleReply::Refused`](crate::message::ConsoleReply::Refused), which
    /// the daemon sends to any peer.
    Refused {
        /// Why, for people.
        problem: String,
    },
    /// Count the bytes that the ranks here have written: [`ManagerReport::Written`].
    CountOutput,
    /// An order of a user to the job. For the root manager.
    Job(JobOrder),
    /// A manager of this job has connected to the daemon's port. The connection is passed as a
    /// descriptor with the first byte.
    Link {
        /// The bytes received so far, as hexadecimal digits: the other manager's hello.
        hello: String,
    },
    /// All hosts that answered have received the launch. For the root manager, if the specification
    /// asks for the timeline.
    Launched {
        /// The time that this took.
        scatter: Span,
        /// Most forwarding steps to any member.
        depth: u32,
    },
    /// The result of a [`ManagerReport::Name`].
    Named {
        request: u32,
        /// The result.
        answer: NameAnswer,
    },
    /// The answer to a [`ManagerReport::Meeting`].
    Met { request: u32, answer: MeetingAnswer },
    /// Bytes of the root manager of another job of this user. For the root manager.
    Passed {
        /// The other job.
        from: JobId,
        /// The bytes.
        payload: Payload,
    },
    /// A name that this job published here no longer belongs to it.
    NameLost {
        name: String,
        /// The job that has it: two parts of a ring merged, and both parts had the name. None: another job took it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<JobId>,
    },
    /// Requests for a name that this job published here were refused.
    NameRefused(Refusal),
    /// The manager of this job on another host has ended without its last report. For the root manager.
    ManagerEnded {
        /// The daemon of that host.
        member: DaemonName,
        /// How the manager ended.
        end: ManagerEnd,
    },
    /// The hosts of spawned processes: the answer to [`ManagerReport::Place`]. For the root
    /// manager.
    Placed {
        request: u32,
        /// The result.
        outcome: Placing,
    },
    /// A user's request: the state of the manager's machine, by [`ManagerReport::State`].
    State { request: u32 },
    /// Hosts of the ring have changed. For the root manager, which gives the changes their place among the events of the
    /// job.
    HostsChanged {
        /// The changes, in their order.
        #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_CHANGES>")]
        changes: Vec<HostChange>,
        /// Hosts that a new daemon has found again. They are added only for a job that has lost them.
        #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_CHANGES>")]
        found: Vec<DaemonName>,
    },
    /// The events of the job have a subscriber: report the kept ones, and all later ones, by [`ManagerReport::Events`].
    /// For the root manager.
    ReportEvents,
    /// Hosts of a new or growing job that did not receive the launch. For the root manager.
    Missing {
        /// Their daemons, and the reasons for people.
        members: Vec<(DaemonName, String)>,
    },
}

/// The data that a manager needs besides the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartJob {
    pub job: JobId,
    /// Marks the environment of every process of the job (`MPD_JOB_COOKIE`), so that processes
    /// without a manager are found. The mark is [`Cookie::at`] the manager's tree index.
    pub cookie: Cookie,
    /// Name of the key-value space: random, and never reused on any host.
    pub kvsname: String,
    /// This host's name.
    pub host: String,
    /// Control group of the ranks, if the daemon could make one.
    pub cgroup: Option<String>,
    /// The run directory of the daemons of this ring on this host; `None` in a private ring.
    pub rundir: Option<String>,
    /// The directory in which the job's directory is made.
    pub tmpdir: String,
    /// The key of the job's links.
    pub key: JobKey,
    /// The job's hosts and their ranks.
    pub host_slices: HostSlices,
    /// The universe size, the same on each host. `None` if the job has this host alone, and its CPUs are not counted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub universe: Option<u32>,
    /// What this host has for ranks, by the host file of the boot.
    #[serde(default, skip_serializing_if = "HostLimits::are_unknown")]
    pub limits: HostLimits,
    /// The tree index of this manager's host slice; 0 is the root.
    pub tree_index: u32,
    /// Size of the specification that follows; 0 for all managers except the root.
    pub spec_bytes: u32,
    /// Whether the PMI connection and the pidfd of a running process are passed, which becomes the
    /// job's one rank; for the root.
    pub adopts: bool,
    /// Lines from placement for the user; for the root.
    pub notices: Vec<Notice>,
    /// The spans of the daemon's work for this launch, if the specification asks for the timeline;
    /// for the root.
    pub spans: Vec<Span>,
}

/// What a host has for ranks, as the host file of the boot says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Most ranks of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

impl HostLimits {
    /// Whether the host file says nothing.
    pub fn are_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Manager to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagerReport {
    /// The manager has its job, and nothing else to report for half a second.
    Begun,
    /// Ranks of the job that run here. Sent after their start, and to each new daemon. Later
    /// reports add to earlier ones.
    Ranks {
        /// The job's alias.
        alias: Option<String>,
        /// Whether an allocation holds their slots.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        runs: Vec<RankRun>,
    },
    /// The state of the job's spawns. Sent by the root manager when it has changed, several times a second at most, and to
    /// each new daemon.
    Spawns { state: SpawnState },
    /// All ranks of a spawned world have ended. Some of them ran here.
    Forgotten {
        /// The world's first rank.
        first: Rank,
    },
    /// The ranks that can receive standard input after a switch. Sent by the root manager after the
    /// start of its ranks, and to each new daemon.
    Receivers {
        /// Those ranks, of the existing ones.
        can: RankSet,
        /// How many ranks the job has.
        size: u32,
    },
    /// The bytes of output and error of the ranks here, as far as the manager has read them.
    Written {
        /// Bytes of each rank.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
        counts: Vec<(Rank, u64)>,
    },
    /// A part of the answer to [`ManagerOrder::State`].
    State {
        request: u32,
        text: String,
        /// Whether another part follows.
        more: bool,
    },
    /// A rank's request about a published name: answered by [`ManagerOrder::Named`]. If the daemon
    /// ends before it answers, the manager repeats the request to the next daemon.
    Name {
        /// Number of the request, counted by the manager.
        request: u32,
        /// The request.
        operation: NameOperation,
    },
    /// A request to place further processes of the job: answered by [`ManagerOrder::Placed`]. Sent
    /// by the root manager. If the daemon ends before it answers, the manager repeats the request
    /// to the next daemon.
    Place {
        /// Number of the request, counted by the manager.
        request: u32,
        /// The processes.
        placement: SpawnPlacement,
    },
    /// The job has further hosts, at the end of its list, which must start managers. Sent by the
    /// root manager. [`ManagerOrder::Missing`] returns the hosts that did not receive this.
    Grow {
        /// The job, with all its hosts and the tree index of the first new one.
        launch: Box<Launch>,
    },
    /// A request of the root manager for ranks that meet ranks of another job. The answer is [`ManagerOrder::Met`].
    Meeting {
        request: u32,
        /// The request.
        operation: MeetingOperation,
    },
    /// Events of the job, in their order, after [`ManagerOrder::ReportEvents`]. Each new daemon gets the kept ones again.
    Events {
        #[serde(deserialize_with = "at_most::<_, _, MAX_EVENTS>")]
        events: Vec<JobEvent>,
    },
    /// The job has ended, and nothing of it is left.
    Ended {
        /// The exit code that the console received.
        code: u8,
        /// Whether some descendants had not connected. They may be about to try, and will fail.
        unlinked: bool,
    },
}

/// A rank's request about a published name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameOperation {
    /// Publish the name in the whole ring.
    Publish {
        name: String,
        value: String,
        /// The key that a lookup must have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
        /// When it ends.
        #[serde(default, skip_serializing_if = "Hold::is_usual")]
        hold: Hold,
    },
    /// Look the name up.
    Lookup {
        name: String,
        /// The key under which it was published. A name published otherwise does not match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
    },
    /// Take the name back. It may belong to another job, and be on another host, if its [`Hold`] allows that.
    Unpublish {
        name: String,
        /// The key under which it was published.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
    },
}

impl NameOperation {
    pub const fn name(&self) -> &String {
        match self {
            Self::Publish { name, .. }
            | Self::Lookup { name, .. }
            | Self::Unpublish { name, .. } => name,
        }
    }
}

/// The result of a [`NameOperation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameAnswer {
    /// The name was published or taken back.
    Done,
    Value(String),
    /// The name does not exist, or not with that key, or belongs to another job.
    Unknown,
    /// Another job has published the name before.
    Taken,
    /// The name cannot stay after its job, since the daemon ends with the job.
    NotKept,
    /// The request can never succeed; the reason for people.
    Failed(String),
    /// The request failed, and may succeed soon; the reason for people.
    Later(String),
}

/// The result of a [`SpawnPlacement`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// Every process has its host.
    Done {
        /// The hosts in order of first use, each with its ranks, counted from 0 over all blocks.
        /// The managers' instances are new; a host that has a manager of this job keeps it.
        #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
        host_slices: Vec<HostSlice>,
        /// The host used last, for [`SpawnPlacement::last`] of the next spawn.
        last: DaemonName,
    },
    /// The limit permits no further process now. The manager asks again.
    Full,
    /// The processes have no hosts; the reason for people.
    Failed(String),
}
