//! Sets of ranks as people write them: `all`, `none`, `3`, `0,2-4`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Rank;

/// A set of ranks, kept as sorted, disjoint, inclusive ranges. In messages it is text in the users'
/// notation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RankSet {
    ranges: Vec<(u32, u32)>,
}

/// The reason why a text is not a set of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRankSet {
    /// A part is neither a number nor `LOW-HIGH`.
    #[error("{0:?} is neither a rank, a range LOW-HIGH, \"all\" nor \"none\"")]
    Part(String),
    /// The end of a range is less than its start.
    #[error("the range {0}-{1} ends before it starts")]
    Backwards(u32, u32),
}

impl RankSet {
    /// Every possible rank.
    pub fn all() -> Self {
        Self { ranges: vec![(0, u32::MAX)] }
    }

    /// No rank.
    pub const fn none() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranks of a world of `size`.
    pub fn below(size: u32) -> Self {
        Self { ranges: size.checked_sub(1).map(|last| (0, last)).into_iter().collect() }
    }

    /// The ranks of `ranges` (inclusive), in any order, overlapping or not.
    pub fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { ranges: merged }
    }

    /// The ranges, sorted, disjoint, inclusive.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// The set in parts of at most `most` ranges, so that the text of a part is bounded.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = Self> + '_ {
        self.ranges.chunks(most).map(|part| Self { ranges: part.to_vec() })
    }

    /// Whether `rank` is in the set.
    pub fn contains(&self, rank: Rank) -> bool {
        let at = self.ranges.partition_point(|&(_, high)| high < rank.0);
        self.ranges.get(at).is_some_and(|&(low, _)| low <= rank.0)
    }

    /// How many ranks are in the set; `u32::MAX` for all.
    pub fn count(&self) -> u32 {
        self.ranges
            .iter()
            .fold(0_u32, |sum, (low, high)| sum.saturating_add((high - low).saturating_add(1)))
    }

    /// Whether no rank is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Each rank, in order. Not for [`RankSet::all`]: it has 2^32 ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranges.iter().flat_map(|&(low, high)| (low..=high).map(Rank))
    }

    /// Whether every rank of the set is in `whole`. Compares ranges, not ranks: a peer may have
    /// sent "all".
    pub fn is_within(&self, whole: &Self) -> bool {
        self.ranges.iter().all(|&(low, high)| {
            let at = whole.ranges.partition_point(|&(_, last)| last < low);
            whole.ranges.get(at).is_some_and(|&(first, last)| first <= low && high <= last)
        })
    }

    /// Whether the two sets have a rank in common.
    pub fn meets(&self, other: &Self) -> bool {
        let after = |low: u32| other.ranges.partition_point(|&(_, high)| high < low);
        self.ranges.iter().any(|&(low, high)| {
            other.ranges.get(after(low)).is_some_and(|&(first, _)| first <= high)
        })
    }

    /// The ranks of both sets.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let (mut outside, mut common) = (self.clone(), self.clone());
        outside.remove(other);
        common.remove(&outside);
        common
    }

    /// Adds all ranks of `other`.
    pub fn join(&mut self, other: &Self) {
        let all = self.ranges.iter().chain(&other.ranges).copied().collect();
        *self = Self::from_ranges(all);
    }

    /// Removes all ranks of `other`.
    pub fn remove(&mut self, other: &Self) {
        let mut left = Vec::with_capacity(self.ranges.len());
        for &(mut low, high) in &self.ranges {
            let at = other.ranges.partition_point(|&(_, last)| last < low);
            let mut gone = other.ranges[at..].iter().take_while(|&&(first, _)| first <= high);
            let whole = loop {
                let Some(&(first, last)) = gone.next() else { break true };
                if first > low {
                    left.push((low, first - 1));
                }
                if last >= high {
                    break false;
                }
                low = last + 1;
            };
            if whole {
                left.push((low, high));
            }
        }
        self.ranges = left;
    }

    /// Adds one rank.
    pub fn insert(&mut self, rank: Rank) {
        if self.contains(rank) {
            return;
        }
        let at = self.ranges.partition_point(|&(low, _)| low < rank.0);
        self.ranges.insert(at, (rank.0, rank.0));
        if at + 1 < self.ranges.len() && self.ranges[at + 1].0 == rank.0.saturating_add(1) {
            self.ranges[at].1 = self.ranges.remove(at + 1).1;
        }
        if at > 0 && self.ranges[at - 1].1.saturating_add(1) == rank.0 {
            self.ranges[at - 1].1 = self.ranges.remove(at).1;
        }
    }

    /// How many ranks of a world of `size` are in the set.
    pub fn count_below(&self, size: u32) -> u32 {
        self.ranges
            .iter()
            .filter(|&&(low, _)| low < size)
            .map(|&(low, high)| high.min(size - 1) - low + 1)
            .sum()
    }

    /// The greatest rank; `None` for an empty set and for [`RankSet::all`].
    pub fn greatest(&self) -> Option<Rank> {
        self.ranges.last().map(|&(_, high)| Rank(high)).filter(|r| r.0 != u32::MAX)
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        Self::from_ranges(ranks.into_iter().map(|r| (r.0, r.0)).collect())
    }
}

impl FromStr for RankSet {
    type Err = InvalidRankSet;
    fn from_str(text: &str) -> Result<Self, InvalidRankSet> {
        if text == "all" {
            return Ok(Self::all());
        }
        if text == "none" {
            return Ok(Self::none());
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let bad = || InvalidRankSet::Part(part.to_owned());
            let number = |t: &str| t.parse::<u32>().ok().filter(|&n| n != u32::MAX).ok_or_else(bad);
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if high < low {
                return Err(InvalidRankSet::Backwards(low, high));
            }
            ranges.push((low, high));
        }
        Ok(Self::from_ranges(ranges))
    }
}

impl TryFrom<String> for RankSet {
    type Error = InvalidRankSet;
    fn try_from(text: String) -> Result<Self, InvalidRankSet> {
        text.parse()
    }
}

impl From<RankSet> for String {
    fn from(set: RankSet) -> Self {
        set.to_string()
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranges.is_empty() {
            return f.write_str("none");
        }
        for (i, &(low, high)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match (low, high) {
                (0, u32::MAX) => f.write_str("all")?,
                _ if low == high => write!(f, "{comma}{low}")?,
                _ => write!(f, "{comma}{low}-{high}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_notation_of_users_is_read() {
        let set: RankSet = "0,2-4,3,9".parse().unwrap();
        assert_eq!(set.to_string(), "0,2-4,9");
        assert!(set.contains(Rank(3)) && !set.contains(Rank(1)) && !set.contains(Rank(10)));
        assert_eq!(set.count_below(4), 3);
        assert_eq!("all".parse::<RankSet>().unwrap().count_below(7), 7);
        assert_eq!("none".parse::<RankSet>().unwrap().count_below(7), 0);
    }

    #[test]
    fn an_error_names_the_invalid_part() {
        for bad in ["", "x", "1-", "-1", "1,,2", "4294967295", "1 2"] {
            assert!(matches!(bad.parse::<RankSet>(), Err(InvalidRankSet::Part(_))), "{bad:?}");
        }
        assert_eq!("4-2".parse::<RankSet>(), Err(InvalidRankSet::Backwards(4, 2)));
    }

    proptest! {
        #[test]
        fn inserting_one_by_one_equals_building_at_once(ranks in proptest::collection::vec(0u32..40, 0..40)) {
            let mut grown = RankSet::none();
            for &r in &ranks {
                grown.insert(Rank(r));
            }
            let built: RankSet = ranks.iter().map(|&r| Rank(r)).collect();
            prop_assert_eq!(&grown, &built);
            for r in 0..45 {
                prop_assert_eq!(grown.contains(Rank(r)), ranks.contains(&r));
            }
            if !ranks.is_empty() {
                prop_assert_eq!(built.to_string().parse::<RankSet>().unwrap(), built);
            }
        }

        #[test]
        fn the_common_ranks_are_those_of_both(
            one in proptest::collection::vec(0u32..40, 0..40),
            other in proptest::collection::vec(0u32..40, 0..40)
        ) {
            let set = |ranks: &[u32]| ranks.iter().map(|&r| Rank(r)).collect::<RankSet>();
            let both: Vec<u32> = one.iter().copied().filter(|r| other.contains(r)).collect();
            prop_assert_eq!(set(&one).common(&set(&other)), set(&both));
            prop_assert_eq!(set(&one).common(&"all".parse().unwrap()), set(&one));
        }
    }
}
