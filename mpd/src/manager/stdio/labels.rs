//! The labels of the lines of each rank, at the root.

use std::collections::{BTreeMap, VecDeque};

use mpd_wire::Rank;
use mpd_wire::job::World;

/// Most ended worlds whose labels are kept, since their last lines may still be on their way.
const MAX_ENDED: usize = 1024;

/// Labels by rank, as long as lines of the rank may come.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: BTreeMap<Rank, Vec<u8>>,
    ended: VecDeque<World>,
}

impl Labels {
    /// Adds the label of a rank that runs.
    pub(super) fn insert(&mut self, rank: Rank, label: Vec<u8>) {
        if !label.is_empty() {
            self.labels.insert(rank, label);
        }
    }

    /// The label of a rank; empty if it does not have one.
    pub(super) fn of(&self, rank: Rank) -> &[u8] {
        self.labels.get(&rank).map_or(&[], Vec::as_slice)
    }

    /// Notes that no rank of that world lives.
    pub(super) fn retire(&mut self, world: World) {
        if self.labels.is_empty() {
            return;
        }
        self.ended.push_back(world);
        if self.ended.len() > MAX_ENDED
            && let Some(world) = self.ended.pop_front()
        {
            for rank in world.ranks().ranks() {
                self.labels.remove(&rank);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_worlds_that_ended_long_ago_are_forgotten() {
        let mut labels = Labels::default();
        let many = u32::try_from(MAX_ENDED).unwrap() + 1;
        for number in 0..many {
            labels.insert(Rank(number), b"x: ".to_vec());
            labels.retire(World { number, first: Rank(number), size: 1 });
        }
        assert_eq!(labels.of(Rank(0)), b"");
        assert_eq!(labels.of(Rank(1)), b"x: ");
        assert_eq!(labels.labels.len(), MAX_ENDED);
    }
}
