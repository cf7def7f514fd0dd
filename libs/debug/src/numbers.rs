//! The numbers of debugged ranks. Debuggers that are attached to some ranks of a job are a job of
//! their own, whose ranks count from 0. The user sees and types the numbers of the attached job.

use mpd_wire::{Rank, RankSet};

/// The numbers for the user: the lowest is the debuggers' rank 0, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    shown: RankSet,
    /// The numbers by the debuggers' rank; `None` if both are the same.
    listed: Option<Vec<Rank>>,
}

impl Numbers {
    /// The numbers of a whole job of `size` ranks.
    pub fn of_job(size: u32) -> Self {
        Self { shown: RankSet::below(size), listed: None }
    }

    /// The numbers of these ranks of a job, not of [`RankSet::all`].
    pub fn of_some(ranks: &RankSet) -> Self {
        let is_whole = *ranks == RankSet::below(ranks.count());
        let listed = (!is_whole).then(|| ranks.ranks().collect());
        Self { shown: ranks.clone(), listed }
    }

    /// All numbers for the user.
    pub const fn everybody(&self) -> &RankSet {
        &self.shown
    }

    /// The user's numbers for these ranks of the debuggers' job; `None` if one of them does not
    /// belong to it. Ranks that a program spawns have numbers after those of the job.
    pub fn shown(&self, ranks: &RankSet) -> Option<RankSet> {
        Some(match &self.listed {
            None => Some(ranks.clone()).filter(|ranks| *ranks != RankSet::all())?,
            Some(_) if !ranks.is_within(&RankSet::below(self.shown.count())) => return None,
            Some(listed) => {
                let of = |&(low, high): &(u32, u32)| &listed[low as usize..=high as usize];
                ranks.ranges().iter().flat_map(of).copied().collect()
            }
        })
    }

    /// The debuggers' ranks for these numbers of the user. Numbers without a rank are left out.
    pub fn own(&self, ranks: &RankSet) -> RankSet {
        let Some(listed) = &self.listed else { return ranks.clone() };
        let place = |rank: Rank| u32::try_from(listed.partition_point(|&other| other < rank));
        let mut own = Vec::new();
        for &(low, high) in ranks.ranges() {
            let first = place(Rank(low)).unwrap_or(u32::MAX);
            let behind = high
                .checked_add(1)
                .map_or(self.shown.count(), |next| place(Rank(next)).unwrap_or(u32::MAX));
            own.extend(
                behind.checked_sub(1).filter(|last| first <= *last).map(|last| (first, last)),
            );
        }
        RankSet::from_ranges(own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks(text: &str) -> RankSet {
        text.parse().unwrap()
    }

    #[test]
    fn some_ranks_keep_the_numbers_that_they_have_in_their_job() {
        let numbers = Numbers::of_some(&ranks("2,5-7"));
        assert_eq!(numbers.shown(&ranks("0,2-3")), Some(ranks("2,6-7")));
        assert_eq!(numbers.own(&ranks("6-9")), ranks("2-3"));
        assert_eq!(numbers.own(&ranks("0-1,3")), RankSet::none());
        assert_eq!(numbers.own(&RankSet::all()), ranks("0-3"));
        assert_eq!(numbers.shown(&ranks("3-4")), None);
        assert_eq!(Numbers::of_some(&ranks("0-3")), Numbers::of_job(4));
    }

    proptest! {
        #[test]
        fn shown_numbers_convert_back(
            job in proptest::collection::btree_set(0_u32..300, 1..60),
            chosen in proptest::collection::btree_set(0_u32..60, 0..60),
        ) {
            let numbers = Numbers::of_some(&job.iter().copied().map(Rank).collect());
            let size = u32::try_from(job.len()).unwrap();
            let own: RankSet = chosen.into_iter().filter(|&at| at < size).map(Rank).collect();
            let shown = numbers.shown(&own).unwrap();
            prop_assert!(shown.is_within(numbers.everybody()));
            prop_assert_eq!(shown.count(), own.count());
            prop_assert_eq!(numbers.own(&shown), own);
        }
    }
}
