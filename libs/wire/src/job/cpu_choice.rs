//! CPUs that the user names for ranks. The numbers are evaluated on each host, where the CPUs are known.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::bounds::{MAX_RANKS, Misfit};

/// Most lists of CPUs in a job: one for each rank.
const MAX_LISTS: usize = MAX_RANKS as usize;

/// Most ranges in one list.
const MAX_RANGES: usize = 4096;

/// More CPUs than any kernel supports.
pub const MAX_CPU: u32 = (1 << 16) - 1;

/// The CPUs of one rank: all that its ranges name. Without ranges the rank is not bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuChoice(#[serde(deserialize_with = "at_most::<_, _, MAX_RANGES>")] pub Vec<CpuRange>);

/// Neighbours among the CPUs of a host, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuRange {
    /// The part of the host that is counted.
    pub of: CpuNumbers,
    /// The first number.
    pub low: u32,
    /// The last number.
    pub high: u32,
}

/// The meaning of the numbers of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuNumbers {
    /// The system's numbers of hardware threads.
    System,
    /// Cores of the host, counted as for a binding to cores.
    Cores,
    /// Cores of the socket with this index.
    CoresOf(u32),
    /// Whole sockets, by their index.
    Sockets,
}

/// Which CPUs the user names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuChoices {
    /// The CPUs of ranks, one list after the other; empty: the binding decides.
    #[serde(deserialize_with = "at_most::<_, _, MAX_LISTS>")]
    pub lists: Vec<CpuChoice>,
    /// Whether the lists belong to the ranks of the job, and not to the ranks of each host in turn.
    pub by_rank: bool,
    /// The only CPUs of each host that count.
    pub only: Option<CpuChoice>,
}

impl CpuChoices {
    /// Checks the bounds.
    pub(super) fn check(&self) -> Result<(), Misfit> {
        let is_sound = |range: &CpuRange| {
            let socket = if let CpuNumbers::CoresOf(socket) = range.of { socket } else { 0 };
            range.low <= range.high && range.high <= MAX_CPU && socket <= MAX_CPU
        };
        let fits =
            |choice: &CpuChoice| choice.0.len() <= MAX_RANGES && choice.0.iter().all(is_sound);
        let is_empty = self.only.as_ref().is_some_and(|only| only.0.is_empty());
        let is_short = self.lists.len() <= MAX_LISTS && !is_empty;
        match is_short && self.lists.iter().chain(&self.only).all(fits) {
            true => Ok(()),
            false => Err(Misfit::Cpus),
        }
    }
}
