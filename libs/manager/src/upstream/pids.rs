//! The process of each rank, at the root: of the first world, and of spawned worlds as long as they run.

use std::collections::BTreeMap;

use mpd_wire::Rank;
use mpd_wire::job::World;

/// Process ids by rank. Only the root stores them.
#[derive(Debug)]
pub(super) struct Pids {
    /// 0 for an unknown process id.
    pids: Vec<u32>,
    unknown: usize,
    /// Process ids of spawned ranks, if they are needed.
    spawned: Option<BTreeMap<Rank, u32>>,
}

impl Pids {
    /// For `ranks` ranks of the first world, and spawned ranks if `and_spawned`.
    pub(super) fn of(ranks: u32, and_spawned: bool) -> Self {
        let spawned = and_spawned.then(BTreeMap::new);
        Self { pids: vec![0; ranks as usize], unknown: ranks as usize, spawned }
    }

    /// Stores process ids. Returns `true` once: when all of the first world are known.
    pub(super) fn store(&mut self, some: &[(Rank, u32)]) -> bool {
        let were_unknown = self.unknown;
        for &(rank, pid) in some.iter().filter(|(_, pid)| *pid != 0) {
            if let Some(known) = self.pids.get_mut(rank.index()) {
                self.unknown -= usize::from(*known == 0);
                *known = pid;
            } else if let Some(spawned) = &mut self.spawned {
                spawned.insert(rank, pid);
            }
        }
        were_unknown > 0 && self.unknown == 0
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(super) fn forget(&mut self, world: &World) {
        if let Some(spawned) = &mut self.spawned {
            for rank in world.ranks().ranks() {
                spawned.remove(&rank);
            }
        }
    }

    /// The process id of a rank; 0 if it is unknown.
    pub(super) fn get(&self, rank: Rank) -> u32 {
        let spawned = || self.spawned.as_ref()?.get(&rank).copied();
        self.pids.get(rank.index()).copied().or_else(spawned).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_known_once() {
        let mut pids = Pids::of(2, false);
        assert!(!pids.store(&[(Rank(1), 8), (Rank(2), 9)]), "one is of another world");
        assert!(!pids.store(&[(Rank(1), 8)]));
        assert!(pids.store(&[(Rank(0), 7)]));
        assert!(!pids.store(&[(Rank(0), 7)]));
        assert_eq!([0, 1, 2].map(|rank| pids.get(Rank(rank))), [7, 8, 0]);
        assert!(!Pids::of(0, false).store(&[(Rank(0), 7)]), "a manager that is not the root");
    }

    #[test]
    fn spawned_ranks_are_known_as_long_as_their_world_is() {
        let mut pids = Pids::of(1, true);
        pids.store(&[(Rank(3), 7), (Rank(4), 8), (Rank(5), 9)]);
        pids.forget(&World { number: 2, first: Rank(3), size: 2 });
        assert_eq!([3, 4, 5].map(|rank| pids.get(Rank(rank))), [0, 0, 9]);
    }
}
