//! The hosts of a job in order, each with its ranks, and the tree of their managers.
//!
//! The tree is a pure function of the list. The manager at place 0 is the root, on the console's
//! host. The parent of the manager at place `i` is at `(i - 1) / FAN_OUT`. So every copy of the
//! list gives the same tree.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::{Address, DaemonName, Instance, Rank, RankSet};

/// Most children of one manager.
pub const FAN_OUT: usize = 16;

/// Most hosts of one job: one scatter can carry this many names and addresses.
pub const MAX_SHARES: usize = 4096;

/// Most addresses of one host.
const MAX_ADDRESSES: usize = 16;

/// The part of one host in a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The host's daemon.
    pub member: DaemonName,
    /// The instance of the manager, made for this job. Job links name it.
    pub manager: Instance,
    /// The daemon's addresses, the best first.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
    pub addresses: Vec<Address>,
    /// The ranks of the first world on this host. A host that joined for a later world has none.
    pub ranks: RankSet,
}

/// All shares of a job, the root's first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shares(#[serde(deserialize_with = "at_most::<_, _, MAX_SHARES>")] Vec<Share>);

/// Why a list of shares does not fit a job of that size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShares {
    /// The list is empty.
    #[error("no host")]
    Empty,
    /// More hosts than [`MAX_SHARES`].
    #[error("{0} hosts are more than the {MAX_SHARES} that a job may have")]
    TooMany(usize),
    /// A rank runs on no host or on two, or the job does not have it.
    #[error("the ranks of the hosts are not those of the job")]
    Ranks,
    /// A host occurs twice.
    #[error("{0} is there twice")]
    Twice(DaemonName),
}

impl Shares {
    /// The shares of a job of one host.
    pub fn alone(member: DaemonName, manager: Instance, size: u32) -> Self {
        let ranks = RankSet::below(size);
        Self(vec![Share { member, manager, addresses: Vec::new(), ranks }])
    }

    /// The shares of a list whose first entry is the root's.
    ///
    /// # Errors
    /// [`InvalidShares`], unless every rank below `size` runs on exactly one host.
    pub fn new(list: Vec<Share>, size: u32) -> Result<Self, InvalidShares> {
        let shares = Self(list);
        shares.check(size)?;
        Ok(shares)
    }

    /// Whether every rank below `size` runs on exactly one host, and every host occurs once.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self, size: u32) -> Result<(), InvalidShares> {
        if self.0.is_empty() {
            return Err(InvalidShares::Empty);
        }
        if self.0.len() > MAX_SHARES {
            return Err(InvalidShares::TooMany(self.0.len()));
        }
        let mut names: Vec<&DaemonName> = self.0.iter().map(|share| &share.member).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InvalidShares::Twice(pair[0].clone()));
        }
        let mut ranges: Vec<(u32, u32)> =
            self.0.iter().flat_map(|share| share.ranks.ranges()).copied().collect();
        ranges.sort_unstable();
        let mut next = 0_u64;
        for (low, high) in ranges {
            if u64::from(low) != next {
                return Err(InvalidShares::Ranks);
            }
            next = u64::from(high) + 1;
        }
        if next == u64::from(size) { Ok(()) } else { Err(InvalidShares::Ranks) }
    }

    /// Appends shares.
    ///
    /// # Errors
    /// The list would be too long, or a host is in it already. The list is unchanged.
    pub fn extend(&mut self, others: Vec<Share>) -> Result<(), InvalidShares> {
        if self.0.len() + others.len() > MAX_SHARES {
            return Err(InvalidShares::TooMany(self.0.len() + others.len()));
        }
        for (at, share) in others.iter().enumerate() {
            let twin = |other: &Share| other.member == share.member;
            if self.0.iter().any(twin) || others[..at].iter().any(twin) {
                return Err(InvalidShares::Twice(share.member.clone()));
            }
        }
        self.0.extend(others);
        Ok(())
    }

    /// Adds shares at the places from `from` on. The list may have some of them already, because a
    /// newly joined host receives the whole list.
    ///
    /// # Errors
    /// As for [`Shares::extend`].
    pub fn join(&mut self, from: u32, others: Vec<Share>) -> Result<(), InvalidShares> {
        let known = self.0.len().saturating_sub(from as usize);
        self.extend(others.into_iter().skip(known).collect())
    }

    /// How many ranks the first world has.
    pub fn size(&self) -> u32 {
        self.0.iter().map(|share| share.ranks.count()).sum()
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always false: the root exists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All shares, in order of place.
    pub fn iter(&self) -> impl Iterator<Item = &Share> {
        self.0.iter()
    }

    /// The share at `place`.
    pub fn get(&self, place: usize) -> Option<&Share> {
        self.0.get(place)
    }

    /// The place of a daemon's host.
    pub fn place_of(&self, member: &DaemonName) -> Option<usize> {
        self.0.iter().position(|share| share.member == *member)
    }

    /// The place where `rank` runs.
    pub fn place_of_rank(&self, rank: Rank) -> Option<usize> {
        self.0.iter().position(|share| share.ranks.contains(rank))
    }

    /// The parent's place; `None` for the root.
    pub fn parent(place: usize) -> Option<usize> {
        place.checked_sub(1).map(|below| below / FAN_OUT)
    }

    /// The places of the children.
    pub fn children(&self, place: usize) -> Range<usize> {
        let first = (place * FAN_OUT + 1).min(self.0.len());
        first..(first + FAN_OUT).min(self.0.len())
    }

    /// The place and all its descendants, in no particular order.
    pub fn subtree(&self, place: usize) -> Vec<usize> {
        let mut places = vec![place];
        let mut at = 0;
        while at < places.len() {
            places.extend(self.children(places[at]));
            at += 1;
        }
        places
    }

    /// Sets the addresses of each daemon whose manager has children: no other daemon is dialed. A
    /// daemon without `known` addresses keeps its own.
    pub fn address(&mut self, known: impl Fn(&DaemonName) -> Option<Vec<Address>>) {
        let parents = 1 + self.0.len().saturating_sub(2) / FAN_OUT;
        for (place, share) in self.0.iter_mut().enumerate() {
            if place >= parents {
                share.addresses.clear();
            } else if let Some(addresses) = known(&share.member) {
                share.addresses = addresses;
            }
        }
    }

    /// Whether the manager at `place` is `over` or a descendant of it.
    pub fn is_below(place: usize, over: usize) -> bool {
        let mut at = place;
        while at > over {
            at = (at - 1) / FAN_OUT;
        }
        at == over
    }

    /// The ranks at `place` and its descendants.
    pub fn ranks_below(&self, place: usize) -> RankSet {
        let ranges = |place: usize| self.0.get(place).map_or(&[][..], |s| s.ranks.ranges());
        let all = self.subtree(place).into_iter().flat_map(|p| ranges(p).iter().copied());
        RankSet::from_ranges(all.collect())
    }

    /// Steps from the manager at `place` to its deepest descendant.
    pub fn depth_below(&self, place: usize) -> u32 {
        // The first child has the deepest subtree.
        let mut steps = 0;
        let mut below = self.children(place);
        while !below.is_empty() {
            steps += 1;
            below = self.children(below.start);
        }
        steps
    }

    /// The place of each rank's host, for `PMI_process_mapping`.
    pub fn places_of_ranks(&self, size: u32) -> Vec<u32> {
        let mut places = vec![0; size as usize];
        for (place, share) in (0..).zip(&self.0) {
            for &(low, high) in share.ranks.ranges() {
                if let Some(range) = places.get_mut(low as usize..=high as usize) {
                    range.fill(place);
                }
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(hosts: u32, each: u32) -> Shares {
        let share = |h: u32| Share {
            member: DaemonName::new(&format!("h{h}")).unwrap(),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(h * each, (h + 1) * each - 1)]),
        };
        Shares::new((0..hosts).map(share).collect(), hosts * each).unwrap()
    }

    #[test]
    fn every_place_is_in_the_subtree_of_the_root_once_and_under_its_parent() {
        for hosts in [1, 2, 16, 17, 18, 300] {
            let shares = shares(hosts, 2);
            let mut all = shares.subtree(0);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..hosts as usize));
            for place in 1..hosts as usize {
                assert!(shares.children(Shares::parent(place).unwrap()).contains(&place));
            }
            assert_eq!(shares.ranks_below(0), RankSet::below(hosts * 2));
        }
        let large = shares(300, 1);
        for (place, over) in [(0, 0), (17, 1), (299, 18), (16, 1)] {
            assert_eq!(Shares::is_below(place, over), large.subtree(over).contains(&place));
        }
        assert_eq!(shares(17, 1).depth_below(0), 1);
        assert_eq!(shares(18, 1).depth_below(0), 2);
        assert_eq!(shares(1, 1).depth_below(0), 0);
        let of_children = |place| shares(18, 1).depth_below(place);
        assert_eq!([of_children(1), of_children(2), of_children(17)], [1, 0, 0]);
    }

    #[test]
    fn a_rank_on_two_hosts_or_on_none_is_refused() {
        let mut list: Vec<Share> = shares(3, 2).0;
        list[1].ranks = RankSet::from_ranges(vec![(1, 3)]);
        assert_eq!(Shares::new(list.clone(), 6), Err(InvalidShares::Ranks));
        list[1].ranks = RankSet::from_ranges(vec![(3, 3)]);
        assert_eq!(Shares::new(list.clone(), 6), Err(InvalidShares::Ranks));
        list[1].ranks = RankSet::from_ranges(vec![(2, 3)]);
        assert!(Shares::new(list.clone(), 6).is_ok());
        assert_eq!(Shares::new(list.clone(), 7), Err(InvalidShares::Ranks));
        list[2].member = list[0].member.clone();
        assert!(matches!(Shares::new(list, 6), Err(InvalidShares::Twice(_))));
    }

    #[test]
    fn ranks_are_mapped_to_the_places_of_their_hosts() {
        assert_eq!(shares(3, 2).places_of_ranks(6), [0, 0, 1, 1, 2, 2]);
        assert_eq!(shares(3, 2).place_of_rank(Rank(4)), Some(2));
    }
}
