//! Fences of groups: ranks of a world meet, in several at once, while others do something else.
//!
//! The root keeps one [`Fence`] for each group of which a rank waits. The other managers only collect who
//! has entered which in one turn: such fences are rare and small.

use std::collections::BTreeMap;

use crate::manager::fence::Fence;
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
    /// `ranks` wait in the fence of a group that has these `members`, some of whom have ended. Others than
    /// members are not in it.
    pub(super) fn enter(
        &mut self,
        group: FenceGroup,
        ranks: &RankSet,
        (members, ended): (RankSet, impl Iterator<Item = Rank>),
    ) {
        if !ranks.is_within(&members) {
            return;
        }
        let entry = self.0.entry(group).or_insert_with(|| {
            let mut entry = GroupFence { fence: Fence::of(&members), members };
            ended.for_each(|rank| entry.leave(rank));
            entry
        });
        for rank in ranks.ranks() {
            entry.fence.enter(rank);
        }
    }

    /// `rank` ended.
    pub(super) fn leave(&mut self, rank: Rank) {
        self.0.values_mut().for_each(|entry| entry.leave(rank));
    }

    /// See [`Fence::deserter`].
    pub(super) fn deserter(&self) -> Option<Rank> {
        self.0.values().find_map(|entry| entry.fence.deserter())
    }

    /// The groups whose members are all there. Their fences are gone.
    pub(super) fn take_complete(&mut self) -> Vec<FenceGroup> {
        let complete = self.0.extract_if(.., |_, entry| entry.fence.is_complete());
        complete.map(|(group, _)| group).collect()
    }
}

impl GroupFence {
    fn leave(&mut self, rank: Rank) {
        if self.members.contains(rank) {
            self.fence.leave(rank);
        }
    }
}

/// Entries of one turn on their way up.
#[derive(Debug, Default)]
pub(super) struct GroupEntries(BTreeMap<FenceGroup, RankSet>);

impl GroupEntries {
    pub(super) fn add(&mut self, group: FenceGroup, ranks: &RankSet) {
        self.0.entry(group).or_default().join(ranks);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes up, in messages of bounded size.
    pub(super) fn take(&mut self) -> Vec<Up> {
        let entries = std::mem::take(&mut self.0);
        let ups = entries.iter().flat_map(|(group, ranks)| {
            ranks.parts(MAX_LISTED).map(|ranks| Up::EnteredGroup { group: group.clone(), ranks })
        });
        ups.collect()
    }
}
