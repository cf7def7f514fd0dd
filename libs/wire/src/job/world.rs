//! The worlds of a job (ranks that were started together), and the result of a spawn.
//!
//! Ranks are numbered through the whole job: those of the first world from 0, those of each later
//! world after all earlier ones. No number is used twice, so messages about ranks need not name the
//! world. Programs and people know a rank by its number in its own world.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::host_slice::MAX_HOST_SLICES;
use crate::{Rank, RankSet};

/// Most ranks of one job in all its worlds, over its whole life: their numbers are not reused.
pub const MAX_RANKS_EVER: u32 = 1 << 30;

/// A world: a range of consecutive ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// The number of the world in the job; 0 is the first world.
    pub number: u32,
    /// The number in the job of its rank 0, which identifies the world.
    pub first: Rank,
    /// How many ranks it has.
    pub size: u32,
}

impl World {
    /// The first world of a job of that size.
    pub const fn of_job(size: u32) -> Self {
        Self { number: 0, first: Rank(0), size }
    }

    /// Whether a rank of the job belongs to the world.
    pub const fn contains(&self, rank: Rank) -> bool {
        rank.0 >= self.first.0 && rank.0 - self.first.0 < self.size
    }

    /// The number in the world of a rank of the job.
    pub const fn own(&self, rank: Rank) -> Rank {
        Rank(rank.0.saturating_sub(self.first.0))
    }

    /// The number in the job of a rank of the world.
    pub const fn in_job(&self, own: Rank) -> Rank {
        Rank(self.first.0.saturating_add(own.0))
    }

    /// The name of a rank for people: its number in its world, and the world's number if it was
    /// spawned.
    pub fn name(of: Option<&Self>, rank: Rank) -> String {
        match of {
            Some(world) if world.number > 0 => format!("{},{}", world.own(rank), world.number),
            _ => rank.to_string(),
        }
    }

    /// The name of its key-value space; `of_job` is that of the first world.
    pub fn kvsname(&self, of_job: &str) -> String {
        match self.number {
            0 => of_job.to_owned(),
            number => format!("{of_job}_{number}"),
        }
    }

    /// The number of the world whose key-value space has this name; `None` if it belongs to another
    /// job.
    pub fn number_of(kvsname: &[u8], of_job: &str) -> Option<u32> {
        match kvsname.strip_prefix(of_job.as_bytes())?.split_first() {
            None => Some(0),
            Some((b'_', number)) => std::str::from_utf8(number).ok()?.parse().ok(),
            Some(_) => None,
        }
    }

    /// All its ranks, numbered through the job.
    pub fn ranks(&self) -> RankSet {
        match self.size {
            0 => RankSet::none(),
            size => RankSet::from_ranges(vec![(self.first.0, self.first.0 + (size - 1))]),
        }
    }
}

/// The ranks of a world by tree index, numbered through the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parts(
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")] pub Vec<(u32, RankSet)>,
);

impl Parts {
    /// The ranks at a place; often none.
    pub fn at(&self, tree_index: usize) -> RankSet {
        let part = self.0.iter().find(|(at, _)| *at as usize == tree_index);
        part.map(|(_, ranks)| ranks.clone()).unwrap_or_default()
    }

    /// The ranks at all tree indices for which `is_meant` holds.
    pub fn at_all(&self, is_meant: impl Fn(usize) -> bool) -> RankSet {
        let meant = self.0.iter().filter(|(tree_index, _)| is_meant(*tree_index as usize));
        RankSet::from_ranges(meant.flat_map(|(_, ranks)| ranks.ranges()).copied().collect())
    }

    /// The tree index of a rank.
    pub fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        let part = self.0.iter().find(|(_, ranks)| ranks.contains(rank));
        part.map(|(tree_index, _)| *tree_index as usize)
    }

    /// The tree index of each rank of the world, in order.
    pub fn tree_indices_of(&self, world: &World) -> Vec<u32> {
        let mut tree_indices = vec![0; world.size as usize];
        for (tree_index, ranks) in &self.0 {
            for rank in ranks.ranks().filter(|&rank| world.contains(rank)) {
                tree_indices[world.own(rank).index()] = *tree_index;
            }
        }
        tree_indices
    }

    /// Whether these are all ranks of the world, each once.
    pub fn are_of(&self, world: &World) -> bool {
        let all: u64 = self.0.iter().map(|(_, ranks)| u64::from(ranks.count())).sum();
        all == u64::from(world.size) && self.at_all(|_| true) == world.ranks()
    }
}

/// The result of a spawn, for the rank that requested it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnOutcome {
    /// The world runs.
    Done {
        /// The name of its key-value space.
        kvsname: String,
    },
    /// Nothing of the world was started, or nothing of it remains.
    Failed {
        /// The first rank that could not be started, as numbered in the world; `None` if the
        /// failure concerns no single rank.
        rank: Option<Rank>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_a_number_in_its_world_and_one_in_the_job() {
        let world = World { number: 2, first: Rank(10), size: 3 };
        assert!(world.contains(Rank(12)) && !world.contains(Rank(13)) && !world.contains(Rank(9)));
        assert_eq!((world.own(Rank(12)), world.in_job(Rank(2))), (Rank(2), Rank(12)));
        assert_eq!(world.ranks().to_string(), "10-12");
        assert_eq!(World::name(Some(&world), Rank(11)), "1,2");
        assert_eq!(World::name(None, Rank(11)), "11");
    }

    #[test]
    fn a_world_is_found_by_the_name_of_its_key_value_space() {
        for number in [0, 2] {
            let name = World { number, first: Rank(10), size: 3 }.kvsname("kvs_1f");
            assert_eq!(World::number_of(name.as_bytes(), "kvs_1f"), Some(number));
            assert_eq!(World::number_of(name.as_bytes(), "kvs_2"), None);
        }
        assert_eq!(World::number_of(b"kvs_1f3", "kvs_1f"), None);
        assert_eq!(World::number_of(b"kvs_1f_x", "kvs_1f"), None);
    }

    #[test]
    fn parts_are_of_a_world_if_they_have_each_of_its_ranks_once() {
        let world = World { number: 1, first: Rank(4), size: 3 };
        let parts = |list: &[(u32, &str)]| {
            Parts(
                list.iter()
                    .map(|(tree_index, ranks)| (*tree_index, ranks.parse().unwrap()))
                    .collect(),
            )
        };
        let good = parts(&[(2, "4,6"), (0, "5")]);
        assert!(good.are_of(&world));
        assert_eq!(good.tree_indices_of(&world), [2, 0, 2]);
        assert_eq!(good.tree_index_of(Rank(5)), Some(0));
        assert_eq!(good.at(2).to_string(), "4,6");
        for bad in [&[(2, "4-5")][..], &[(2, "4-6"), (0, "5")], &[(2, "3-5")]] {
            assert!(!parts(bad).are_of(&world));
        }
    }
}
