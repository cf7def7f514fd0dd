//! A set of numbers of tasks. Most sets are a few ranges, so ranges are kept.

use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// First and last number of each range. Between two ranges is at least one number.
    ranges: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Whether it has this number.
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    /// Adds a number. Returns whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        let before = self.ranges.range(..=number).next_back().map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| last >= number) {
            return false;
        }
        let first = match before {
            Some((first, last)) if last + 1 == number => first,
            _ => number,
        };
        let behind = number.checked_add(1).and_then(|next| self.ranges.remove(&next));
        self.ranges.insert(first, behind.unwrap_or(number));
        true
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .fold(0, |sum, (first, last)| sum.saturating_add(last - first).saturating_add(1))
    }
}
