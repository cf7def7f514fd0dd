//! Which process runs each rank of the first world, at the root.

use mpd_proto::Rank;

/// Process ids by rank. Managers that are not the root know none.
#[derive(Debug)]
pub(super) struct Pids {
    /// 0 where it is not known.
    pids: Vec<u32>,
    unknown: usize,
}

impl Pids {
    /// Of so many ranks.
    pub(super) fn of(ranks: u32) -> Self {
        Self { pids: vec![0; ranks as usize], unknown: ranks as usize }
    }

    /// Learns some. True as soon as all are known, once.
    pub(super) fn learn(&mut self, some: &[(Rank, u32)]) -> bool {
        let were_unknown = self.unknown;
        for &(rank, pid) in some.iter().filter(|(_, pid)| *pid != 0) {
            if let Some(known) = self.pids.get_mut(rank.index()) {
                self.unknown -= usize::from(*known == 0);
                *known = pid;
            }
        }
        were_unknown > 0 && self.unknown == 0
    }

    /// That of a rank; 0 if it is not known.
    pub(super) fn get(&self, rank: Rank) -> u32 {
        self.pids.get(rank.index()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_known_once() {
        let mut pids = Pids::of(2);
        assert!(!pids.learn(&[(Rank(1), 8), (Rank(2), 9)]), "one is of another world");
        assert!(!pids.learn(&[(Rank(1), 8)]));
        assert!(pids.learn(&[(Rank(0), 7)]));
        assert!(!pids.learn(&[(Rank(0), 7)]));
        assert_eq!([0, 1, 2].map(|rank| pids.get(Rank(rank))), [7, 8, 0]);
        assert!(!Pids::of(0).learn(&[(Rank(0), 7)]), "nobody to tell");
    }
}
