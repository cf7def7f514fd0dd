//! What the root decides of worlds that ranks spawn.
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
//! A world that cannot be started ends by itself, and its spawner hears why; what happens to ranks of one
//! that runs is of the whole job.

use crate::manager::job::{Job, Phase};
use crate::manager::roll::{Roll, Spawned, Stage};
use crate::manager::{Output, WorldPlan};
use mpd_wire::job::{Failure, RankEnd, Shares, SpawnOutcome};
use mpd_wire::message::Down;
use mpd_wire::{DaemonName, Rank};

impl Job {
    /// Whether a world can be started now: all ranks that there are to be are there, and everything goes on.
    pub(super) fn takes_worlds(&self) -> bool {
        self.phase == Phase::Running && !self.suspended
    }

    /// A world has found its place.
    pub(super) fn spawn(&mut self, plan: WorldPlan) {
        let WorldPlan { world, parts, spawner, kvsname, joining } = plan;
        if !self.roll.lives(spawner) {
            // Nobody is left who could want it.
            return;
        }
        if parts.0.iter().any(|(place, _)| self.is_lost(*place as usize)) {
            let text = "spawn: a host for it was lost; try again".to_owned();
            self.tell(Output::TellNotice(text));
            return self.refuse_spawn(spawner);
        }
        if !self.takes_worlds() {
            return self.refuse_spawn(spawner);
        }
        if !joining.is_empty() {
            let from = u32::try_from(self.shares.len()).unwrap_or(u32::MAX);
            if self.shares.extend(joining.clone()).is_err() {
                return self.refuse_spawn(spawner);
            }
            self.command(Down::Grow { from, shares: joining });
        }
        let stage = Stage::Preparing;
        let spawned = Spawned { stage, spawner, kvsname, failure: None };
        self.roll.add(world, parts.clone(), Some(spawned));
        self.roll.bond(spawner, world.number, true);
        self.command(Down::World { world, parts });
    }

    /// A world has found no place.
    pub(super) fn refuse_spawn(&mut self, spawner: Rank) {
        self.command(Down::Spawned { spawner, outcome: SpawnOutcome::Failed { rank: None } });
    }

    /// Something of a world cannot be started; the rest of it is not waited for any longer than needed.
    pub(super) fn world_failed(&mut self, first: Rank, member: DaemonName, failure: Failure) {
        if let Some(spawned) = self.roll.spawned_mut(first) {
            spawned.failure.get_or_insert((member, failure));
        }
    }

    pub(super) fn world_prepared(&mut self, first: Rank) {
        let is_given_up = self.roll.is_given_up(first);
        let Some(spawned) = self.roll.spawned_mut(first) else { return };
        if spawned.stage != Stage::Preparing {
            return;
        }
        if spawned.failure.is_some() || is_given_up {
            return self.give_up_world(first);
        }
        spawned.stage = Stage::Starting;
        self.command(Down::GoWorld { first });
    }

    pub(super) fn world_begun(&mut self, first: Rank) {
        let is_given_up = self.roll.is_given_up(first);
        let Some(spawned) = self.roll.spawned_mut(first) else { return };
        if spawned.stage != Stage::Starting {
            return;
        }
        if spawned.failure.is_some() || is_given_up {
            return self.give_up_world(first);
        }
        spawned.stage = Stage::Running;
        let (spawner, kvsname) = (spawned.spawner, spawned.kvsname.clone());
        self.command(Down::Spawned { spawner, outcome: SpawnOutcome::Done { kvsname } });
        // It may have ended already.
        self.review_world(first);
    }

    fn give_up_world(&mut self, first: Rank) {
        if let Some(spawned) = self.roll.spawned_mut(first) {
            spawned.stage = Stage::Failed;
            self.command(Down::EndWorld { first });
            self.review_world(first);
        }
    }

    /// A world of which nothing lives is forgotten.
    pub(super) fn review_world(&mut self, first: Rank) {
        let Some(entry) = self.roll.take_ended(first) else { return };
        self.tell(Output::WorldEnded(entry.ends()));
        self.command(Down::Forget { first });
        let Some(Spawned { spawner, failure: Some((member, failure)), .. }) = entry.spawned else {
            return;
        };
        let rank = match &failure {
            Failure::CannotExecute { rank, .. } => Some(*rank),
            _ => None,
        };
        let spawner_in = self.roll.world_of(spawner).map_or(spawner, |world| world.own(spawner));
        self.tell(Output::TellNotice(format!(
            "spawn by rank {spawner_in}: host {member}: {failure}"
        )));
        self.command(Down::Spawned { spawner, outcome: SpawnOutcome::Failed { rank } });
    }

    /// The job is over: tells how worlds ended that were not forgotten, since they were still being started
    /// or nobody could say that they had begun.
    pub(super) fn tell_last_worlds(&mut self) {
        for ends in self.roll.spawned_ends() {
            self.tell(Output::WorldEnded(ends));
        }
    }

    /// Ends the worlds that share the fate of a rank, if there are others: says whether that is so.
    pub(super) fn end_part(&mut self, rank: Rank) -> bool {
        let Some(worlds) = self.roll.part_of(rank) else { return false };
        self.end_worlds(worlds);
        true
    }

    /// Ends these worlds, which is no failure.
    pub(super) fn end_worlds(&mut self, worlds: impl IntoIterator<Item = Rank>) {
        for first in worlds {
            // One that is being started ends when all have heard of it.
            if self.roll.give_up(first) {
                self.command(Down::EndWorld { first });
            }
        }
    }

    /// A host is lost. If it joined for spawned worlds and none of them runs there, only those that are
    /// being started fail: says whether that is so.
    pub(super) fn spare_loss(&mut self, place: usize, member: &DaemonName, problem: &str) -> bool {
        let is_there = |at| Shares::is_below(at, place);
        let joined = |at: &usize| self.shares.get(*at).is_some_and(|share| share.ranks.is_empty());
        if !self.shares.subtree(place).iter().all(joined) {
            return false;
        }
        let worlds = self.roll.worlds_at(is_there);
        let is_starting = |roll: &mut Roll, first: Rank| {
            roll.spawned_mut(first).is_some_and(|spawned| spawned.stage != Stage::Running)
        };
        let living = self.roll.living_ranks(is_there);
        let firsts: Vec<Rank> =
            worlds.into_iter().filter(|first| is_starting(&mut self.roll, *first)).collect();
        let spared = living.iter().all(|rank| {
            self.roll.world_of(*rank).is_some_and(|world| firsts.contains(&world.first))
        });
        if !spared {
            return false;
        }
        let text = format!("host {member} is lost: {problem}; no process of the job runs there");
        self.tell(Output::TellNotice(text));
        for first in firsts {
            let problem = format!("it is lost: {problem}");
            self.world_failed(first, member.clone(), Failure::Suite { problem });
        }
        for rank in living {
            // It will not tell.
            if let Some(ended) = self.roll.end(rank, RankEnd::Lost) {
                self.review_world(ended.first);
            }
        }
        self.review_living();
        true
    }

    /// A rank wants another one signaled.
    pub(super) fn interrupt_rank(&mut self, from: Rank, rank: Rank, signal: u8) {
        let same = self.roll.world_of(from).is_some_and(|world| world.contains(rank));
        if same && self.roll.member(rank).is_some_and(|member| member.end.is_none()) {
            self.command(Down::Interrupt { rank, signal });
        }
    }

    pub(super) fn place_of(&self, rank: Rank) -> Option<usize> {
        self.roll.place_of(rank)
    }

    pub(super) fn living_at(&self) -> Vec<(usize, u32)> {
        self.roll.living_at()
    }

    pub(super) fn is_lost(&self, place: usize) -> bool {
        self.lost.iter().any(|&lost| Shares::is_below(place, lost))
    }
}
