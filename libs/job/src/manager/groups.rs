//! Fences of groups: some ranks of a world synchronise, in several fences at once, while other ranks continue.
//!
//! The root has one [`Fence`] for each group with a waiting rank. The other managers only collect the entries of one
//! turn: such fences are rare and small.

use std::collections::BTreeMap;

use crate::manager::fence::{Fence, Leave};
use mpd_wire::message::{FenceGroup, MAX_LISTED, Up};
use mpd_wire::{Rank, RankSet};

/// The fences of one world's groups.
#[derive(Debug, Default)]
pub(super) struct GroupFences(BTreeMap<FenceGroup, GroupFence>);

#[derive(Debug)]
struct GroupFence {
    members: RankSet,
    fence: Fence,
}

impl GroupFences {
    /// `ranks` wait in the fence of a group with these `members`, some of which have ended. Ranks that are not members
    /// are ignored.
    pub(super) fn enter(
        &mut self,
        group: FenceGroup,
        ranks: &RankSet,
        members: RankSet,
        ended: impl Iterator<Item = (Rank, Leave)>,
    ) {
        if !ranks.is_within(&members) {
            return;
        }
        let entry = self.0.entry(group).or_insert_with(|| {
            let mut entry = GroupFence { fence: Fence::of(&members), members };
            ended.for_each(|(rank, leave)| entry.leave(rank, leave));
            entry
        });
        for rank in ranks.ranks() {
            entry.fence.enter(rank);
        }
    }

    /// `rank` ended.
    pub(super) fn leave(&mut self, rank: Rank, leave: Leave) {
        self.0.values_mut().for_each(|entry| entry.leave(rank, leave));
    }

    /// The same as [`Fence::deserter`], for any group.
    pub(super) fn deserter(&self) -> Option<Rank> {
        self.0.values().find_map(|entry| entry.fence.deserter())
    }

    /// The ranks that wait for this one, which has ended.
    pub(super) fn waiting_for(&self, rank: Rank) -> Vec<Rank> {
        let waits = |entry: &&GroupFence| entry.fence.deserter() == Some(rank);
        self.0.values().filter(waits).flat_map(|entry| entry.fence.waiting()).collect()
    }

    /// Removes the fences whose members have all entered, and returns their groups.
    pub(super) fn take_complete(&mut self) -> Vec<FenceGroup> {
        let complete = self.0.extract_if(.., |_, entry| entry.fence.is_complete());
        complete.map(|(group, _)| group).collect()
    }
}

impl GroupFence {
    fn leave(&mut self, rank: Rank, leave: Leave) {
        if self.members.contains(rank) {
            self.fence.leave(rank, leave);
        }
    }
}

/// Entries of one turn, on their way up.
#[derive(Debug, Default)]
pub(super) struct GroupEntries(BTreeMap<FenceGroup, RankSet>);

impl GroupEntries {
    pub(super) fn add(&mut self, group: FenceGroup, ranks: &RankSet) {
        self.0.entry(group).or_default().join(ranks);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes the entries, in messages of bounded size.
    pub(super) fn take(&mut self) -> Vec<Up> {
        let entries = std::mem::take(&mut self.0);
        let ups = entries.iter().flat_map(|(group, ranks)| {
            ranks.parts(MAX_LISTED).map(|ranks| Up::EnteredGroup { group: group.clone(), ranks })
        });
        ups.collect()
    }
}
