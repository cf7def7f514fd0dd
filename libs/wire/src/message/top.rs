//! What ranks and hosts use of their machines, for those who watch.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::World;
use crate::message::jobs::{MAX_RUN, MAX_RUNS};
use crate::{DaemonName, JobId, Rank};

/// A host, as one of its daemons sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostUse {
    /// When that was, in microseconds by a clock of the daemon's own that nobody sets.
    pub at_us: u64,
    /// CPUs.
    pub cpus: u32,
    /// Processes that ran or waited to run in the last minute, on average, times 100.
    pub load_hundredths: u64,
    /// What all its CPUs have worked since it was booted, in milliseconds.
    pub busy_ms: u64,
    /// Its memory.
    pub memory_kib: u64,
    /// What of it a new program could have.
    pub available_kib: u64,
}

/// A rank: its process and all that descend from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankUse {
    /// Which, numbered through the job.
    pub rank: Rank,
    /// Its process.
    pub pid: u32,
    /// The state of that process by the kernel's letter; `X` if it has ended.
    pub state: char,
    /// What all its processes have worked, in milliseconds.
    pub cpu_ms: u64,
    /// What they have in memory; shared pages count for each.
    pub memory_kib: u64,
    /// How many they are.
    pub processes: u32,
    /// Bytes of its output and error that its manager had read when it counted last.
    pub written: u64,
}

/// Ranks of one host that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunUse {
    /// Their job.
    pub job: JobId,
    /// What its user calls it.
    pub alias: Option<String>,
    /// Whose it is.
    pub user: String,
    /// Their world, if it was spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// As the user wrote it.
    pub program: String,
    /// When that was, by the same clock as [`HostUse::at_us`].
    pub at_us: u64,
    /// When the manager counted their output last; none: not yet.
    pub counted_us: Option<u64>,
    /// The ranks.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
    pub ranks: Vec<RankUse>,
}

/// A host and what runs there, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTop {
    /// The daemon there.
    pub host: DaemonName,
    /// The machine.
    pub machine: HostUse,
    /// The ranks.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
    pub runs: Vec<RunUse>,
}
