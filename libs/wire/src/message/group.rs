//! Groups of ranks with a fence of their own: barriers of PMI-1.2.

use serde::{Deserialize, Serialize};

use crate::RankSet;

/// A fence of some ranks of a world. Ranks that name equal groups wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FenceGroup {
    /// The ranks.
    pub members: FenceMembers,
    /// Distinguishes fences of the same ranks; chosen by the program.
    pub tag: i32,
    /// What is done together, by PMIx. Empty for barriers of PMI-1.2. Ranks of several worlds may be members of a group
    /// with a name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl FenceGroup {
    /// How the name of a group begins whose members meet ranks of other jobs.
    pub const ACROSS_JOBS: &str = "meet ";

    /// Whether the members meet ranks of other jobs. They are released when those have arrived too.
    pub fn is_across_jobs(&self) -> bool {
        self.name.starts_with(Self::ACROSS_JOBS)
    }
}

/// The ranks of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceMembers {
    /// All ranks of the world.
    World,
    /// The ranks of the world at this index of the job tree.
    TreeIndex(u32),
    /// These ranks, numbered through the job.
    Ranks(RankSet),
}
