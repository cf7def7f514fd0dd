//! The ends of a job's ranks, as its manager reports them. Pure. Bounded, because a job can spawn
//! ranks as long as it runs.

use std::collections::BTreeSet;

use mpd_wire::job::{RankEnd, World};
use mpd_wire::{Rank, RankSet};

/// Most spawned ranks kept that succeeded, and most that failed.
const MAX_SPAWNED: usize = 100_000;

/// The end of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Number of its world; 0 is the first world.
    pub world: u32,
    /// The rank in its world.
    pub rank: Rank,
    /// Host of the rank.
    pub host: String,
    /// Process id; 0 if the rank never ran.
    pub pid: u32,
    /// How the rank ended.
    pub end: RankEnd,
}

/// The ends of a job's ranks.
#[derive(Debug)]
pub struct Ends {
    first: Vec<Ended>,
    spawned: Vec<Ended>,
    /// Numbers of further spawned ranks that can be kept: those that succeeded, and those that
    /// failed.
    room: [usize; 2],
    left_out: u64,
}

impl Default for Ends {
    fn default() -> Self {
        Self::with_room(MAX_SPAWNED)
    }
}

impl Ends {
    fn with_room(room: usize) -> Self {
        Self { first: Vec::new(), spawned: Vec::new(), room: [room, room], left_out: 0 }
    }

    /// Adds the process ids and ends of ranks on one host. Ranks are numbered through the job;
    /// `world` is the spawned world, or `None` for the first world.
    pub fn add(
        &mut self,
        host: &str,
        world: Option<World>,
        ranks: &RankSet,
        ends: Vec<(u32, RankEnd)>,
    ) {
        for (rank, (pid, end)) in ranks.ranks().zip(ends) {
            let host = host.to_owned();
            let Some(world) = world else {
                self.first.push(Ended { world: 0, rank, host, pid, end });
                continue;
            };
            let room = &mut self.room[usize::from(end != RankEnd::Exited(0))];
            if *room == 0 {
                self.left_out += 1;
                continue;
            }
            *room -= 1;
            let (world, rank) = (world.number, world.own(rank));
            self.spawned.push(Ended { world, rank, host, pid, end });
        }
    }

    /// Counts spawned ranks that are left out.
    pub const fn leave_out(&mut self, ranks: u64) {
        self.left_out = self.left_out.saturating_add(ranks);
    }

    /// Sorts all ranks, after the last one was added.
    pub fn sort(&mut self) {
        self.first.sort_unstable_by_key(|ended| ended.rank);
        self.spawned.sort_unstable_by_key(|ended| (ended.world, ended.rank));
    }

    /// Every rank of the first world, in order.
    pub fn first(&self) -> &[Ended] {
        &self.first
    }

    /// Ranks of spawned worlds, by world and rank.
    pub fn spawned(&self) -> &[Ended] {
        &self.spawned
    }

    /// Number of spawned ranks that are left out.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The highest code of `code` and of all ranks, except ranks of worlds that did not start.
    pub fn highest(&self, code: u8) -> u8 {
        let never = self.spawned.iter().filter(|ended| ended.end == RankEnd::NotStarted);
        let never: BTreeSet<u32> = never.map(|ended| ended.world).collect();
        let counts = |ended: &&Ended| !never.contains(&ended.world);
        let all = self.first.iter().chain(&self.spawned).filter(counts);
        all.map(|ended| ended.end.code()).fold(code, u8::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(ends: &mut Ends, number: u32, reported: &[RankEnd]) {
        let size = u32::try_from(reported.len()).unwrap();
        let world = World { number, first: Rank(number * 10), size };
        let pids = reported.iter().map(|&end| (7, end)).collect();
        ends.add("h", (number > 0).then_some(world), &world.ranks(), pids);
    }

    #[test]
    fn further_ranks_are_counted_and_failures_have_a_bound_of_their_own() {
        let mut ends = Ends::with_room(2);
        add(&mut ends, 2, &[RankEnd::Exited(0); 3]);
        add(&mut ends, 1, &[RankEnd::Exited(0), RankEnd::Exited(5)]);
        add(&mut ends, 0, &[RankEnd::Exited(0); 3]);
        ends.leave_out(10);
        ends.sort();
        let kept: Vec<_> = ends.spawned().iter().map(|ended| (ended.world, ended.rank.0)).collect();
        assert_eq!(kept, [(1, 1), (2, 0), (2, 1)]);
        assert_eq!((ends.first().len(), ends.left_out()), (3, 12));
    }

    #[test]
    fn the_highest_code_counts_signals_as_a_shell_does_and_ignores_worlds_that_did_not_start() {
        let killed = RankEnd::Signaled { signal: 9, core: false };
        let mut ends = Ends::default();
        assert_eq!(ends.highest(7), 7);
        add(&mut ends, 0, &[RankEnd::Exited(9), RankEnd::Exited(0)]);
        add(&mut ends, 1, &[killed, RankEnd::NotStarted]);
        assert_eq!(ends.highest(7), 9);
        add(&mut ends, 2, &[killed]);
        assert_eq!(ends.highest(7), 137);
    }
}
