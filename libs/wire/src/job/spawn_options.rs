//! The options of a job for its spawned processes.

use serde::{Deserialize, Serialize};

/// The options of a job for its spawned processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpawnOptions {
    /// Their hosts.
    pub policy: SpawnPolicy,
    /// See [`SpawnPlacement::limit`](crate::job::SpawnPlacement::limit).
    pub limit: Option<u32>,
    /// How much a spawned process adds to the niceness of its spawner.
    pub nice_step: i8,
    /// The longest chain of spawns: how many worlds may descend from the first one, each spawned by the one before.
    /// `None`: 100.
    pub depth: Option<u32>,
}

/// The longest chain of spawns, unless the user names another one. A program that takes its children for the first
/// world and spawns again, without end, stops here.
pub(super) const DEFAULT_DEPTH: u32 = 100;

impl SpawnOptions {
    /// The longest chain of spawns.
    pub fn longest_chain(&self) -> u32 {
        self.depth.unwrap_or(DEFAULT_DEPTH)
    }
}

/// How spawned processes are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnPolicy {
    /// Each process goes to the next host after the one used last.
    #[default]
    #[serde(rename = "rr")]
    RoundRobin,
    /// Each process goes to the host with the fewest processes of the job per CPU.
    #[serde(rename = "load")]
    Load,
    /// The slots of the host used last are filled, then those of the next.
    #[serde(rename = "pack")]
    Pack,
}

impl SpawnPolicy {
    /// All values.
    pub const ALL: [Self; 3] = [Self::RoundRobin, Self::Load, Self::Pack];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "rr",
            Self::Load => "load",
            Self::Pack => "pack",
        }
    }

    /// The policy called `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
