//! The root's decisions about worlds that ranks spawn.
//!
//! ```text
//!            all prepared            all begun                  all ended
//! Preparing -------------> Starting -----------> Running ----------------------> forgotten
//!     |     (GoWorld)          |     (Spawned: Done)                                 ^
//!     | something failed       | something failed                                    |
//!     v                        v                             all ended               |
//!   Failed <-------------------+----------------------------------------------------+
//!   (EndWorld)                                         (Spawned: Failed)
//! ```
//!
//! A world whose start fails ends alone, and its spawner gets the reason. A failure of a running world concerns the
//! whole job, unless the worlds have disconnected, or a spawn shall connect none ([`AbortScope::World`]).

use crate::manager::job::{Job, Phase};
use crate::manager::rank_table::{RankTable, Spawned, Stage};
use crate::manager::{Output, WorldPlan};
use mpd_sansio::Time;
use mpd_wire::job::{AbortScope, Failure, HostSlices, RankEnd, SpawnOutcome, World};
use mpd_wire::message::Down;
use mpd_wire::{DaemonName, Rank};

impl Job {
    /// Whether a world can be started now: all ranks have started, and none is suspended.
    pub(super) fn takes_worlds(&self) -> bool {
        self.phase == Phase::Running && !self.suspended
    }

    /// Starts a world that the daemon has placed.
    pub(super) fn spawn(&mut self, plan: WorldPlan) {
        let WorldPlan { world, parts, spawner, kvsname, joining, is_awaited } = plan;
        if spawner.is_some_and(|spawner| !self.rank_table.lives(spawner)) {
            // The rank that asked for the world has ended.
            return;
        }
        if parts.0.iter().any(|(tree_index, _)| self.is_lost(*tree_index as usize)) {
            let text = "spawn: a host for it was lost; try again".to_owned();
            self.emit(Output::ReportNotice(text));
            return self.refuse_spawn(spawner);
        }
        if !joining.is_empty() {
            let from = u32::try_from(self.host_slices.len()).unwrap_or(u32::MAX);
            if self.host_slices.extend(joining.clone()).is_err() {
                return self.refuse_spawn(spawner);
            }
            self.command(Down::Grow { from, host_slices: joining });
        }
        let stage = Stage::Preparing;
        let spawned = Spawned { stage, spawner, kvsname, failure: None, is_awaited };
        self.rank_table.add(world, parts.clone(), Some(spawned));
        if let Some(spawner) = spawner {
            let shares_fate = self.abort_scope != AbortScope::World;
            self.rank_table.connect_spawned(spawner, world.number, shares_fate);
        }
        self.command(Down::World { world, parts });
    }

    /// The request of a rank or of a user cannot be fulfilled.
    pub(super) fn refuse_request(&mut self, spawner: Option<Rank>, problem: &str) {
        let what = match spawner {
            Some(spawner) => {
                let world = self.rank_table.world_of(spawner);
                format!("spawn by rank {}", World::name(world.as_ref(), spawner))
            }
            None => "growth".to_owned(),
        };
        self.notice(format!("{what}: {problem}"));
        self.refuse_spawn(spawner);
    }

    /// The world of a spawner is not started.
    pub(super) fn refuse_spawn(&mut self, spawner: Option<Rank>) {
        self.answer_spawn(spawner, SpawnOutcome::Failed { rank: None });
    }

    fn answer_spawn(&mut self, spawner: Option<Rank>, outcome: SpawnOutcome) {
        if let Some(spawner) = spawner {
            self.command(Down::Spawned { spawner, outcome });
        }
    }

    /// A part of a world cannot be started. The wait for its other parts ends as soon as possible.
    pub(super) fn world_failed(&mut self, first: Rank, member: DaemonName, failure: Failure) {
        if let Some(spawned) = self.rank_table.spawned_mut(first) {
            spawned.failure.get_or_insert((member, failure));
        }
    }

    pub(super) fn world_prepared(&mut self, first: Rank) {
        let is_given_up = self.rank_table.is_given_up(first);
        let Some(spawned) = self.rank_table.spawned_mut(first) else { return };
        if spawned.stage != Stage::Preparing {
            return;
        }
        if spawned.failure.is_some() || is_given_up {
            return self.give_up_world(first);
        }
        spawned.stage = Stage::Starting;
        self.command(Down::GoWorld { first });
    }

    pub(super) fn world_started(&mut self, first: Rank) {
        let is_given_up = self.rank_table.is_given_up(first);
        let Some(spawned) = self.rank_table.spawned_mut(first) else { return };
        if spawned.stage != Stage::Starting {
            return;
        }
        if spawned.failure.is_some() || is_given_up {
            return self.give_up_world(first);
        }
        spawned.stage = Stage::Running;
        let (spawner, kvsname) = (spawned.spawner, spawned.kvsname.clone());
        self.answer_spawn(spawner, SpawnOutcome::Done { kvsname });
        // The world may have ended already.
        self.review_world(first);
    }

    fn give_up_world(&mut self, first: Rank) {
        if let Some(spawned) = self.rank_table.spawned_mut(first) {
            spawned.stage = Stage::Failed;
            self.command(Down::EndWorld { first });
            self.review_world(first);
        }
    }

    /// Removes the world if no process of it lives.
    pub(super) fn review_world(&mut self, first: Rank) {
        let Some(entry) = self.rank_table.take_ended(first) else { return };
        self.emit(Output::WorldEnded(entry.ends()));
        self.command(Down::Forget { first });
        let Some(Spawned { spawner, failure: Some((member, failure)), .. }) = entry.spawned else {
            return;
        };
        let rank = match &failure {
            Failure::CannotExecute { rank, .. } => Some(*rank),
            _ => None,
        };
        let what = spawner.map_or_else(
            || "growth".to_owned(),
            |spawner| {
                let world = self.rank_table.world_of(spawner);
                format!("spawn by rank {}", world.map_or(spawner, |world| world.own(spawner)))
            },
        );
        self.emit(Output::ReportNotice(format!("{what}: host {member}: {failure}")));
        self.answer_spawn(spawner, SpawnOutcome::Failed { rank });
    }

    /// The job is over: reports the ends of worlds that are still in the table. Their start was not complete.
    pub(super) fn emit_last_worlds(&mut self) {
        for ends in self.rank_table.spawned_ends() {
            self.emit(Output::WorldEnded(ends));
        }
    }

    /// Ends the worlds that share the fate of a rank, if there are other worlds. Returns whether that is so.
    pub(super) fn end_part(&mut self, rank: Rank) -> bool {
        let Some(worlds) = self.rank_table.part_of(rank) else { return false };
        self.end_worlds(worlds);
        true
    }

    /// Ends these worlds, which is no failure.
    pub(super) fn end_worlds(&mut self, worlds: impl IntoIterator<Item = Rank>) {
        for first in worlds {
            // A world that is being started ends when all managers have the command to prepare it.
            if self.rank_table.give_up(first) {
                self.command(Down::EndWorld { first });
            }
        }
    }

    /// A host is lost. If it joined for spawned worlds and none of them runs there, only worlds that are being started
    /// fail. Returns whether that is so.
    pub(super) fn spare_loss(
        &mut self,
        now: Time,
        tree_index: usize,
        member: &DaemonName,
        problem: &str,
    ) -> bool {
        let is_there = |at| HostSlices::is_in_subtree(at, tree_index);
        let joined = |at: &usize| {
            self.host_slices.get(*at).is_some_and(|host_slice| host_slice.ranks.is_empty())
        };
        if !self.host_slices.subtree(tree_index).iter().all(joined) {
            return false;
        }
        let worlds = self.rank_table.worlds_at(is_there);
        let is_starting = |rank_table: &mut RankTable, first: Rank| {
            rank_table.spawned_mut(first).is_some_and(|spawned| spawned.stage != Stage::Running)
        };
        let living = self.rank_table.living_ranks(is_there);
        let firsts: Vec<Rank> =
            worlds.into_iter().filter(|first| is_starting(&mut self.rank_table, *first)).collect();
        let spared = living.iter().all(|rank| {
            self.rank_table.world_of(*rank).is_some_and(|world| firsts.contains(&world.first))
        });
        if !spared {
            return false;
        }
        let text = format!("host {member} is lost: {problem}; no process of the job runs there");
        self.emit(Output::ReportNotice(text));
        for first in firsts {
            let problem = format!("it is lost: {problem}");
            self.world_failed(first, member.clone(), Failure::Suite { problem });
        }
        for rank in living {
            // The lost host cannot report the end.
            if let Some(ended) = self.end_rank(now, rank, RankEnd::Lost) {
                self.review_world(ended.first);
            }
        }
        self.review_living();
        true
    }

    /// A rank requests a signal to another rank.
    pub(super) fn interrupt_rank(&mut self, from: Rank, rank: Rank, signal: u8) {
        let same = self.rank_table.world_of(from).is_some_and(|world| world.contains(rank));
        if same && self.rank_table.member(rank).is_some_and(|member| member.end.is_none()) {
            self.command(Down::Interrupt { rank, signal });
        }
    }

    pub(super) fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        self.rank_table.tree_index_of(rank)
    }

    /// The number of living ranks at each tree index that has some.
    pub(super) fn living_at(&self) -> Vec<(usize, u32)> {
        self.rank_table.living_at()
    }

    /// The tree index of the last rank of the first world.
    pub(super) fn host_of_last_rank(&self) -> Option<usize> {
        let size = self.rank_table.world_of(Rank(0))?.size;
        self.host_slices.tree_index_of_rank(Rank(size - 1))
    }

    /// The tree indices of the hosts whose managers are unreachable.
    pub(super) fn lost_hosts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.host_slices.len()).filter(|at| self.is_lost(*at))
    }

    pub(super) fn is_lost(&self, tree_index: usize) -> bool {
        self.lost.iter().any(|&lost| HostSlices::is_in_subtree(tree_index, lost))
    }
}
