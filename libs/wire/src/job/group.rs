//! Groups of ranks (`-g K`): consecutive ranks that run on one host and share a name there.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Rank;
use crate::job::spec::JobSpec;

/// The largest `key_t` that is not negative.
const LARGEST: u32 = i32::MAX as u32;

/// A rank's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's number, from 0.
    pub number: u32,
    /// The rank's number within it, from 0.
    pub rank: u32,
    /// How many ranks the group has; the last group can be smaller.
    pub size: u32,
}

/// The group of `rank`; `None` if the job has no groups.
pub fn group_of(spec: &JobSpec, rank: Rank) -> Option<Group> {
    let most = spec.placement.group?.max(1);
    let (number, at) = (rank.0 / most, rank.0 % most);
    let left = spec.size().checked_sub(rank.0 - at).filter(|&left| left > at)?;
    Some(Group { number, rank: at, size: left.min(most) })
}

/// The names of a group's shared memory: one random number names a POSIX object (`/mpd-` and 16
/// digits), another is the key of System V objects. Neither reveals the other, the job, or another
/// group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupKey {
    name: u64,
    number: i32,
}

impl GroupKey {
    /// The key of these random numbers.
    pub fn new(name: u64, number: u32) -> Self {
        Self { name, number: (number % LARGEST + 1).cast_signed() }
    }

    /// The name of the POSIX object.
    pub fn name(self) -> String {
        format!("/mpd-{:016x}", self.name)
    }

    /// The key for System V objects: above 0, and never `IPC_PRIVATE`.
    pub const fn number(self) -> i32 {
        self.number
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_of_64_bits_and_a_number_above_0_that_does_not_follow_from_it() {
        let key = GroupKey::new(0x0001_e240, 0);
        assert_eq!((key.name().as_str(), key.number()), ("/mpd-000000000001e240", 1));
        assert_eq!(GroupKey::new(u64::MAX, 0).name(), format!("/mpd-{}", "f".repeat(16)));
        for number in [0, 1, LARGEST - 1, LARGEST, LARGEST + 1, u32::MAX] {
            assert!(GroupKey::new(7, number).number() > 0, "{number}");
        }
        assert_eq!(GroupKey::new(7, LARGEST - 1).number(), i32::MAX);
        assert!(!format!("{key:?}").contains("1e240"));
    }
}
