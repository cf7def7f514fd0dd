//! The labels of the lines of each rank, at the root.

use std::collections::{BTreeMap, VecDeque};

use mpd_wire::job::World;
use mpd_wire::{Rank, Stream};

/// Most ended worlds whose labels are kept, since their last lines may still be on their way.
const MAX_ENDED: usize = 1024;

/// Labels by rank, as long as lines of the rank may come.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: BTreeMap<Rank, [Vec<u8>; 2]>,
    /// The processes of ranks that run, for labels that are given later.
    pids: BTreeMap<Rank, u32>,
    ended: VecDeque<World>,
}

impl Labels {
    /// Notes the process of a rank that runs.
    pub(super) fn note_running(&mut self, rank: Rank, pid: u32) {
        self.pids.insert(rank, pid);
    }

    /// Removes all labels. Returns the ranks with their processes, for their new labels.
    pub(super) fn clear(&mut self) -> Vec<(Rank, u32)> {
        self.labels.clear();
        self.pids.iter().map(|(rank, pid)| (*rank, *pid)).collect()
    }

    /// Adds the labels of the streams of a rank that runs. Equal ones are kept once.
    pub(super) fn insert(&mut self, rank: Rank, [out, mut err]: [Vec<u8>; 2]) {
        if out == err {
            err = Vec::new();
        }
        if !out.is_empty() {
            self.labels.insert(rank, [out, err]);
        }
    }

    /// The label of a stream of a rank; empty if it does not have one.
    pub(super) fn of(&self, rank: Rank, stream: Stream) -> &[u8] {
        let of_rank = self.labels.get(&rank);
        let label = of_rank.map(|[out, err]| match stream {
            Stream::Err if !err.is_empty() => err,
            _ => out,
        });
        label.map_or(&[], Vec::as_slice)
    }

    /// Notes that no rank of that world lives.
    pub(super) fn retire(&mut self, world: World) {
        self.ended.push_back(world);
        if self.ended.len() > MAX_ENDED
            && let Some(world) = self.ended.pop_front()
        {
            for rank in world.ranks().ranks() {
                self.labels.remove(&rank);
                self.pids.remove(&rank);
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
            labels.insert(Rank(number), [b"x: ".to_vec(), b"x: ".to_vec()]);
            labels.retire(World { number, first: Rank(number), size: 1 });
        }
        assert_eq!(labels.of(Rank(0), Stream::Out), b"");
        assert_eq!(labels.of(Rank(1), Stream::Err), b"x: ");
        assert_eq!(labels.labels.len(), MAX_ENDED);
    }

    #[test]
    fn each_stream_has_its_own_label() {
        let mut labels = Labels::default();
        labels.insert(Rank(0), [b"o ".to_vec(), b"e ".to_vec()]);
        assert_eq!(labels.of(Rank(0), Stream::Out), b"o ");
        assert_eq!(labels.of(Rank(0), Stream::Err), b"e ");
    }
}
