//! Groups of ranks (`-g K`): ranks that follow each other, run on one host and share a name there.

use std::fmt;

use crate::id::Rank;
use crate::job::JobSpec;

/// Hexadecimal digits of a cookie that a key begins at.
const DIGITS: usize = 8;

/// The largest `key_t` that is no negative number.
const LARGEST: u32 = i32::MAX as u32;

/// A rank's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Which group, from 0.
    pub number: u32,
    /// The rank's number within it, from 0.
    pub rank: u32,
    /// How many ranks it has; the last group can have fewer than the others.
    pub size: u32,
}

/// The group of `rank`; none without groups.
pub fn group_of(spec: &JobSpec, rank: Rank) -> Option<Group> {
    let most = spec.placement.group?.max(1);
    let (number, at) = (rank.0 / most, rank.0 % most);
    let left = spec.size().checked_sub(rank.0 - at).filter(|&left| left > at)?;
    Some(Group { number, rank: at, size: left.min(most) })
}

/// What the ranks of a group call their shared memory, in two forms: as text the name of a POSIX object
/// (`/mpd-0001e240`), and its hexadecimal digits as a number the key of a System V object, above 0.
///
/// The groups of one job have different keys, on whatever machine they run; keys of two jobs are as far
/// from each other as the random digits of their cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey(u32);

impl GroupKey {
    /// The key of group `number` in the job whose processes carry `cookie`.
    pub fn new(cookie: &str, number: u32) -> Self {
        let random = cookie.get(..DIGITS).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let sum = u64::from(random.unwrap_or(0)) + u64::from(number);
        let below = u32::try_from(sum % u64::from(LARGEST)).unwrap_or(0);
        Self(below + 1)
    }

    /// The key for System V objects.
    pub const fn number(self) -> i32 {
        self.0.cast_signed()
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/mpd-{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_digits_of_a_key_are_its_number() {
        let key = GroupKey::new("0001e23f77777777-3", 0);
        assert_eq!((key.to_string().as_str(), key.number()), ("/mpd-0001e240", 123_456));
    }

    #[test]
    fn no_two_groups_of_a_job_share_a_key_and_none_is_private_or_negative() {
        for cookie in ["00000000-0", "7ffffffe-1", "ffffffff-0", "fffffff0aaaa", "short"] {
            let keys: BTreeSet<i32> =
                (0..5000).map(|n| GroupKey::new(cookie, n).number()).collect();
            assert_eq!(keys.len(), 5000, "{cookie}");
            assert!(keys.iter().all(|&key| key > 0), "{cookie}");
        }
        assert_eq!(GroupKey::new("00000005-0", 2), GroupKey::new("00000005-9", 2), "of any host");
    }
}
