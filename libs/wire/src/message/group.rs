//! Groups of ranks that meet in a fence of their own: barriers of PMI-1.2.

use serde::{Deserialize, Serialize};

use crate::RankSet;

/// Which ranks of a world meet, and in which of their fences. Ranks that name equal groups meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FenceGroup {
    /// Which ranks.
    pub members: FenceMembers,
    /// Tells fences of the same ranks apart; by the program.
    pub tag: i32,
}

/// The ranks of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FenceMembers {
    /// All of the world.
    World,
    /// Those of the world at this place.
    Place(u32),
    /// These, numbered through the job.
    Ranks(RankSet),
}
