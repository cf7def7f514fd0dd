//! Which ranks of a job are blocked, and so occupy no slot.
//!
//! A rank is blocked while it waits for a spawn, and while a world that it has spawned lives and is connected to its own
//! world. A blocked rank is not stopped. When it is not blocked any more, its host may have more working ranks than slots.
//!
//! The other ranks of its world may take part in the spawn or wait for the children, and the manager cannot know it. They
//! count as working. But if every world has a blocked rank, nothing may ever free a slot, so the next spawn does
//! not wait for one.

use std::collections::{BTreeMap, BTreeSet};

use crate::manager::rank_table::RankTable;
use mpd_wire::Rank;

/// The blocked ranks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    pub(super) ranks: BTreeSet<Rank>,
    /// How many of them are at each tree index that has some.
    pub(super) at: Vec<(usize, u32)>,
    /// Whether every living world has a blocked rank.
    pub(super) everywhere: bool,
}

impl RankTable {
    /// The blocked ranks, if those of `waiting` wait for a spawn.
    pub(super) fn blocked(&self, waiting: impl Iterator<Item = Rank>) -> Blocked {
        let living = self.worlds.values().filter(|entry| entry.living > 0);
        let spawners = living.clone().filter_map(|entry| {
            let spawner = entry.spawned.as_ref()?.spawner?;
            let parent = self.world_of(spawner)?.first;
            let pair = (parent.min(entry.world.first), parent.max(entry.world.first));
            self.connections.contains(&pair).then_some(spawner)
        });
        let ranks: BTreeSet<Rank> =
            waiting.chain(spawners).filter(|rank| self.lives(*rank)).collect();
        let mut at: BTreeMap<usize, u32> = BTreeMap::new();
        for tree_index in ranks.iter().filter_map(|rank| self.tree_index_of(*rank)) {
            *at.entry(tree_index).or_default() += 1;
        }
        let worlds: BTreeSet<Rank> =
            ranks.iter().filter_map(|rank| Some(self.world_of(*rank)?.first)).collect();
        let everywhere = living.clone().all(|entry| worlds.contains(&entry.world.first));
        Blocked { ranks, at: at.into_iter().collect(), everywhere }
    }
}
