//! The resources that ranks and hosts use, for monitoring.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::World;
use crate::message::jobs::{MAX_RUN, MAX_RUNS};
use crate::{DaemonName, JobId, Rank};

/// A host's resources, as one of its daemons measured them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUse {
    /// The time of measurement, in microseconds by a monotonic clock of the daemon.
    pub at_us: u64,
    pub cpus: u32,
    /// Average number of running and runnable processes in the last minute, times 100.
    pub load_hundredths: u64,
    /// The speed of its CPUs in hundredths of that of an ordinary host.
    pub speed_hundredths: u32,
    /// CPU time of all its CPUs since boot, in milliseconds.
    pub busy_ms: u64,
    pub memory_kib: u64,
    /// The memory available to a new program, in KiB.
    pub available_kib: u64,
}

/// A rank's resources: those of its process and all descendants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankUse {
    /// The rank, numbered through the job.
    pub rank: Rank,
    /// The id of its process.
    pub pid: u32,
    /// The state of that process by the kernel's letter; `X` if it has ended.
    pub state: char,
    /// CPU time of all its processes, in milliseconds.
    pub cpu_ms: u64,
    /// Resident memory of all its processes, in KiB; each process counts shared pages.
    pub memory_kib: u64,
    pub processes: u32,
    /// Bytes of its output and error that the manager had read at the last count.
    pub written: u64,
}

/// Ranks of one host that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUse {
    pub job: JobId,
    /// The job's alias.
    pub alias: Option<String>,
    /// The user that owns the job.
    pub user: String,
    /// Their world, if it was spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// The program as the user wrote it.
    pub program: String,
    /// The time of measurement, by the same clock as [`HostUse::at_us`].
    pub at_us: u64,
    /// The time of the manager's last count of output; `None` before the first.
    pub counted_us: Option<u64>,
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
    pub ranks: Vec<RankUse>,
}

/// A host and the ranks there, or some of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTop {
    /// The daemon there.
    pub host: DaemonName,
    /// The host's resources.
    pub machine: HostUse,
    /// The ranks' resources.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
    pub runs: Vec<RunUse>,
}
