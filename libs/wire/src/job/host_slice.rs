//! The hosts of a job in order, each with its ranks, and the tree of their managers.
//!
//! The tree is a pure function of the list. The manager at tree index 0 is the root, on the console's
//! host. The parent of the manager at tree index `i` is at `(i - 1) / FAN_OUT`. So every copy of the
//! list gives the same tree.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::{Address, DaemonName, Instance, MAX_MEMBERS, Rank, RankSet};

mod columns;

/// Most children of one manager.
pub const FAN_OUT: usize = 16;

/// Most hosts of one job: a job may use all members of the ring. One scatter can carry this many host slices of usual
/// names with consecutive ranks.
pub const MAX_HOST_SLICES: usize = MAX_MEMBERS;

/// Most addresses of one host.
const MAX_ADDRESSES: usize = 16;

/// The part of one host in a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSlice {
    /// The host's daemon.
    pub member: DaemonName,
    /// The instance of the manager, made for this job. Job links name it.
    pub manager: Instance,
    /// The daemon's addresses, the best first.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
    pub addresses: Vec<Address>,
    /// The ranks of the first world on this host. A host that joined for a later world has no such ranks.
    pub ranks: RankSet,
}

/// All host slices of a job, the root's first. Cheap to copy. On the wire it is a list for each field, see `columns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "columns::Columns", into = "columns::Columns")]
pub struct HostSlices(Arc<Vec<HostSlice>>);

/// Why a list of host slices does not fit a job of that size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHostSlices {
    /// The list is empty.
    #[error("no host")]
    Empty,
    /// More hosts than [`MAX_HOST_SLICES`].
    #[error("{0} hosts are more than the {MAX_HOST_SLICES} that a job may have")]
    TooMany(usize),
    /// A rank runs on no host or on two, or the job does not have it.
    #[error("the ranks of the hosts are not those of the job")]
    Ranks,
    /// A host occurs twice.
    #[error("{0} is named twice")]
    Twice(DaemonName),
}

impl HostSlices {
    /// The host slices of a job of one host.
    pub fn alone(member: DaemonName, manager: Instance, size: u32) -> Self {
        let ranks = RankSet::below(size);
        Self(Arc::new(vec![HostSlice { member, manager, addresses: Vec::new(), ranks }]))
    }

    /// The host slices of a list whose first entry is the root's.
    ///
    /// # Errors
    /// [`InvalidHostSlices`], unless every rank below `size` runs on exactly one host.
    pub fn new(list: Vec<HostSlice>, size: u32) -> Result<Self, InvalidHostSlices> {
        let host_slices = Self(Arc::new(list));
        host_slices.check(size)?;
        Ok(host_slices)
    }

    /// Whether every rank below `size` runs on exactly one host, and every host occurs once.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self, size: u32) -> Result<(), InvalidHostSlices> {
        if self.0.is_empty() {
            return Err(InvalidHostSlices::Empty);
        }
        if self.0.len() > MAX_HOST_SLICES {
            return Err(InvalidHostSlices::TooMany(self.0.len()));
        }
        let mut names: Vec<&DaemonName> =
            self.0.iter().map(|host_slice| &host_slice.member).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InvalidHostSlices::Twice(pair[0].clone()));
        }
        let mut ranges: Vec<(u32, u32)> =
            self.0.iter().flat_map(|host_slice| host_slice.ranks.ranges()).copied().collect();
        ranges.sort_unstable();
        let mut next = 0_u64;
        for (low, high) in ranges {
            if u64::from(low) != next {
                return Err(InvalidHostSlices::Ranks);
            }
            next = u64::from(high) + 1;
        }
        if next == u64::from(size) { Ok(()) } else { Err(InvalidHostSlices::Ranks) }
    }

    /// Appends shares.
    ///
    /// # Errors
    /// The list would be too long, or a host is in it already. The list is unchanged.
    pub fn extend(&mut self, others: Vec<HostSlice>) -> Result<(), InvalidHostSlices> {
        if self.0.len() + others.len() > MAX_HOST_SLICES {
            return Err(InvalidHostSlices::TooMany(self.0.len() + others.len()));
        }
        let mut members: BTreeSet<&DaemonName> = self.0.iter().map(|known| &known.member).collect();
        if let Some(twin) = others.iter().find(|other| !members.insert(&other.member)) {
            return Err(InvalidHostSlices::Twice(twin.member.clone()));
        }
        Arc::make_mut(&mut self.0).extend(others);
        Ok(())
    }

    /// Adds shares at the tree indices from `from` on. The list may have some of them already, because a
    /// newly joined host receives the whole list.
    ///
    /// # Errors
    /// As for [`HostSlices::extend`].
    pub fn join(&mut self, from: u32, others: Vec<HostSlice>) -> Result<(), InvalidHostSlices> {
        let known = self.0.len().saturating_sub(from as usize);
        self.extend(others.into_iter().skip(known).collect())
    }

    /// How many ranks the first world has.
    pub fn size(&self) -> u32 {
        self.0.iter().map(|host_slice| host_slice.ranks.count()).sum()
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always false: the root exists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All host slices, in order of tree index.
    pub fn iter(&self) -> impl Iterator<Item = &HostSlice> {
        self.0.iter()
    }

    /// The host slice at `tree_index`.
    pub fn get(&self, tree_index: usize) -> Option<&HostSlice> {
        self.0.get(tree_index)
    }

    /// The tree index of a daemon's host.
    pub fn tree_index_of(&self, member: &DaemonName) -> Option<usize> {
        self.0.iter().position(|host_slice| host_slice.member == *member)
    }

    /// The tree index where `rank` runs.
    pub fn tree_index_of_rank(&self, rank: Rank) -> Option<usize> {
        self.0.iter().position(|host_slice| host_slice.ranks.contains(rank))
    }

    /// The parent's tree index; `None` for the root.
    pub fn parent(tree_index: usize) -> Option<usize> {
        tree_index.checked_sub(1).map(|below| below / FAN_OUT)
    }

    /// The tree indices of the children.
    pub fn children(&self, tree_index: usize) -> Range<usize> {
        let first = (tree_index * FAN_OUT + 1).min(self.0.len());
        first..(first + FAN_OUT).min(self.0.len())
    }

    /// The tree index and all its descendants, in no particular order.
    pub fn subtree(&self, tree_index: usize) -> Vec<usize> {
        let mut tree_indices = vec![tree_index];
        let mut at = 0;
        while at < tree_indices.len() {
            tree_indices.extend(self.children(tree_indices[at]));
            at += 1;
        }
        tree_indices
    }

    /// Sets the addresses of each daemon whose manager has children: no other daemon is dialed. A
    /// daemon without `known` addresses keeps its own.
    pub fn address(&mut self, known: impl Fn(&DaemonName) -> Option<Vec<Address>>) {
        let parents = 1 + self.0.len().saturating_sub(2) / FAN_OUT;
        for (tree_index, host_slice) in Arc::make_mut(&mut self.0).iter_mut().enumerate() {
            if tree_index >= parents {
                host_slice.addresses.clear();
            } else if let Some(addresses) = known(&host_slice.member) {
                host_slice.addresses = addresses;
            }
        }
    }

    /// Whether the manager at `tree_index` is `over` or a descendant of it.
    pub fn is_in_subtree(tree_index: usize, over: usize) -> bool {
        let mut at = tree_index;
        while at > over {
            at = (at - 1) / FAN_OUT;
        }
        at == over
    }

    /// The ranks at `tree_index` and its descendants.
    pub fn subtree_ranks(&self, tree_index: usize) -> RankSet {
        let ranges =
            |tree_index: usize| self.0.get(tree_index).map_or(&[][..], |s| s.ranks.ranges());
        let all = self.subtree(tree_index).into_iter().flat_map(|p| ranges(p).iter().copied());
        RankSet::from_ranges(all.collect())
    }

    /// Steps from the manager at `tree_index` to its deepest descendant.
    pub fn subtree_depth(&self, tree_index: usize) -> u32 {
        // The first child has the deepest subtree.
        let mut steps = 0;
        let mut below = self.children(tree_index);
        while !below.is_empty() {
            steps += 1;
            below = self.children(below.start);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_slices(hosts: u32, each: u32) -> HostSlices {
        let host_slice = |h: u32| HostSlice {
            member: DaemonName::new(&format!("h{h}")).unwrap(),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(h * each, (h + 1) * each - 1)]),
        };
        HostSlices::new((0..hosts).map(host_slice).collect(), hosts * each).unwrap()
    }

    #[test]
    fn every_tree_index_is_in_the_subtree_of_the_root_once_and_under_its_parent() {
        for hosts in [1, 2, 16, 17, 18, 300] {
            let host_slices = host_slices(hosts, 2);
            let mut all = host_slices.subtree(0);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..hosts as usize));
            for tree_index in 1..hosts as usize {
                assert!(
                    host_slices
                        .children(HostSlices::parent(tree_index).unwrap())
                        .contains(&tree_index)
                );
            }
            assert_eq!(host_slices.subtree_ranks(0), RankSet::below(hosts * 2));
        }
        let large = host_slices(300, 1);
        for (tree_index, over) in [(0, 0), (17, 1), (299, 18), (16, 1)] {
            assert_eq!(
                HostSlices::is_in_subtree(tree_index, over),
                large.subtree(over).contains(&tree_index)
            );
        }
        assert_eq!(host_slices(17, 1).subtree_depth(0), 1);
        assert_eq!(host_slices(18, 1).subtree_depth(0), 2);
        assert_eq!(host_slices(1, 1).subtree_depth(0), 0);
        let of_children = |tree_index| host_slices(18, 1).subtree_depth(tree_index);
        assert_eq!([of_children(1), of_children(2), of_children(17)], [1, 0, 0]);
    }

    #[test]
    fn a_rank_on_two_hosts_or_on_none_is_refused() {
        let mut list: Vec<HostSlice> = host_slices(3, 2).0.to_vec();
        list[1].ranks = RankSet::from_ranges(vec![(1, 3)]);
        assert_eq!(HostSlices::new(list.clone(), 6), Err(InvalidHostSlices::Ranks));
        list[1].ranks = RankSet::from_ranges(vec![(3, 3)]);
        assert_eq!(HostSlices::new(list.clone(), 6), Err(InvalidHostSlices::Ranks));
        list[1].ranks = RankSet::from_ranges(vec![(2, 3)]);
        assert!(HostSlices::new(list.clone(), 6).is_ok());
        assert_eq!(HostSlices::new(list.clone(), 7), Err(InvalidHostSlices::Ranks));
        list[2].member = list[0].member.clone();
        assert!(matches!(HostSlices::new(list, 6), Err(InvalidHostSlices::Twice(_))));
    }

    #[test]
    fn ranks_are_mapped_to_the_tree_indices_of_their_hosts() {
        assert_eq!(host_slices(3, 2).tree_index_of_rank(Rank(4)), Some(2));
    }
}
