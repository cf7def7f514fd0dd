//! Between a daemon and the managers of its host; and what opens a connection to the daemon's socket.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Cookie, JobKey, MAX_SHARES, Notice, Share, Shares, SpawnWish};
use crate::message::console::RingRequest;
use crate::message::jobs::{MAX_RUN, MAX_RUNS, RankRun};
use crate::message::order::Launch;
use crate::message::trace::Span;
use crate::names::NameKey;
use crate::{DaemonName, Instance, JobId, Rank, RankSet};

/// First message on a connection to the daemon's Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Opening {
    /// A console submits a job; `spec_bytes` bytes of specification follow as frames. Its standard
    /// output and error travel with the first byte as descriptors.
    Submit {
        /// [`crate::message::VERSION`] of the console.
        version: u32,
        /// Size of the specification that follows.
        spec_bytes: u32,
    },
    /// A console asks how the daemon is.
    Status {
        /// [`crate::message::VERSION`] of the console.
        version: u32,
    },
    /// A console wants something of the ring.
    Ring {
        /// [`crate::message::VERSION`] of the console.
        version: u32,
        /// What.
        request: RingRequest,
    },
    /// A manager whose daemon died offers itself to the new one.
    Register {
        /// [`crate::message::VERSION`] of the manager.
        version: u32,
        /// Its job.
        job: JobId,
        /// The cookie of the job, known to the daemon that started it and in the job's record.
        cookie: Cookie,
        /// See [`StartJob::place`].
        place: u32,
        /// The manager's instance, for which job links ask.
        manager: Instance,
        /// The key of the job's links: a daemon keeps it in memory only.
        key: JobKey,
    },
}

/// Daemon to manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ManagerOrder {
    /// The job to run. The root manager's specification follows as frames; the others get theirs from
    /// the manager above.
    Start(Box<StartJob>),
    /// Kill the job and end.
    Kill,
    /// Count what the ranks here have written: [`ManagerReport::Written`].
    CountOutput,
    /// A request by way of a daemon: send the signal to every rank. For the root manager.
    Signal {
        /// Its number.
        signal: u8,
        /// Only to the rank's own process, not to its process group.
        single: bool,
    },
    /// A request by way of a daemon: these ranks receive standard input from now on. For the root
    /// manager.
    SwitchStdin {
        /// Who receives.
        ranks: RankSet,
    },
    /// A manager of this job connected to the daemon's port; the connection travels with the first byte
    /// as a descriptor.
    Link {
        /// What was read from it so far: its hello, as hexadecimal digits.
        hello: String,
    },
    /// All hosts that answer have been told of the job. For the root manager, if the specification
    /// asks for the timeline.
    Launched {
        /// How long that took.
        scatter: Span,
        /// Most forwarding steps to any member.
        depth: u32,
    },
    /// What came of a wish: [`ManagerReport::Name`].
    Named {
        /// Whose.
        request: u32,
        /// How it ended.
        answer: NameAnswer,
    },
    /// A name that this job had published here is another's: two halves of a ring met, and each had it.
    NameLost {
        /// The name.
        name: String,
        /// The job that has it.
        to: JobId,
    },
    /// Where spawned processes go: [`ManagerReport::Place`]. For the root manager.
    Placed {
        /// Whose.
        request: u32,
        /// What came of it.
        outcome: Placing,
    },
    /// Hosts of the job that could not be told of it, whether it is new or grows. For the root manager.
    Missing {
        /// Their daemons, and why, for people.
        members: Vec<(DaemonName, String)>,
    },
}

/// What a manager must know besides the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartJob {
    /// The job.
    pub job: JobId,
    /// What the environment of every process of the job is marked with (`MPD_JOB_COOKIE`), so that processes
    /// without a manager are found. The mark is [`Cookie::at`] the manager's place.
    pub cookie: Cookie,
    /// Name of the key-value space: random, never used before or after on any host.
    pub kvsname: String,
    /// This host's name.
    pub host: String,
    /// Control group of the ranks, if one could be made.
    pub cgroup: Option<String>,
    /// The run directory of the daemons of this ring on this host; none in a private ring.
    pub rundir: Option<String>,
    /// Below which the job's directory is made.
    pub tmpdir: String,
    /// The key of the job's links.
    pub key: JobKey,
    /// Who runs what.
    pub shares: Shares,
    /// Which of the shares is this manager's; 0 is the root.
    pub place: u32,
    /// Size of the specification that follows; 0 for all but the root.
    pub spec_bytes: u32,
    /// What placement has to say to the user, a line each; for the root.
    pub notices: Vec<Notice>,
    /// What the daemon did for the launch before this, if the specification asks for it; for the root.
    pub spans: Vec<Span>,
}

/// Manager to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ManagerReport {
    /// Ranks of the job that run here: when they were started, and for each new daemon. Later ones add
    /// to earlier ones.
    Ranks {
        /// What its user calls the job.
        alias: Option<String>,
        /// The ranks.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        runs: Vec<RankRun>,
    },
    /// All ranks of a spawned world have ended, some of which ran here.
    Forgotten {
        /// The world's first rank.
        first: Rank,
    },
    /// Which ranks can receive standard input if they are told to: of the root manager, once its ranks
    /// are started and for each new daemon.
    Receivers {
        /// They, of the ranks that there are.
        can: RankSet,
        /// How many ranks the job has.
        size: u32,
    },
    /// What ranks here have written to output and error so far, as far as it was read.
    Written {
        /// Bytes of each.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
        counts: Vec<(Rank, u64)>,
    },
    /// A rank here wants something about a published name: answered by [`ManagerOrder::Named`], by another
    /// daemon if this one ends before, to which the manager then says it again.
    Name {
        /// Counted by the manager.
        request: u32,
        /// What it wants.
        wish: NameWish,
    },
    /// Where do further processes of the job go? Of the root manager: answered by
    /// [`ManagerOrder::Placed`], by another daemon if this one ends before, to which the manager then says
    /// it again.
    Place {
        /// Counted by the manager.
        request: u32,
        /// The processes.
        wish: SpawnWish,
    },
    /// The job has further hosts, at the end of its list: they are to start managers. Of the root manager;
    /// hosts that cannot be told come back as [`ManagerOrder::Missing`].
    Grow {
        /// The job, with all its hosts and the place of the first new one.
        launch: Box<Launch>,
    },
    /// The job is over and nothing of it is left.
    Ended {
        /// The exit code given to the console.
        code: u8,
        /// Whether managers below had not connected: they may be about to, in vain.
        unlinked: bool,
    },
}

/// What a rank wants about a name that jobs find each other by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NameWish {
    /// Everybody in the ring is to find this.
    Publish {
        /// The name.
        name: String,
        /// What it stands for.
        value: String,
        /// Only who has this key is to find it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
    },
    /// What it stands for.
    Lookup {
        /// The name.
        name: String,
        /// The key that it was published with: what was published otherwise is not wanted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
    },
    /// Nobody is to find it any more.
    Unpublish {
        /// The name.
        name: String,
        /// The key that it was published with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<NameKey>,
    },
}

/// What came of a [`NameWish`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NameAnswer {
    /// Published, or taken back.
    Done,
    /// Found.
    Value(String),
    /// There is no such name, or not with that key, or not of this job.
    Unknown,
    /// Somebody has published it before.
    Taken,
    /// It can never be done; why, for people.
    Failed(String),
    /// It cannot be done now, and may be soon; why, for people.
    Later(String),
}

/// What came of a [`SpawnWish`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Placing {
    /// Every process has its host.
    Done {
        /// The hosts in the order in which they were first used, each with its ranks, counted from 0
        /// over all blocks. The managers are new ones: where the job has one already it stays.
        #[serde(deserialize_with = "at_most::<_, _, MAX_SHARES>")]
        shares: Vec<Share>,
        /// The host used last, for [`SpawnWish::last`] of the next.
        last: DaemonName,
    },
    /// They have none; why, for people.
    Failed(String),
}
