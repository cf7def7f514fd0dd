//! Ends of ranks, and what they mean for the job.

use mpd_machine::Time;
use mpd_wire::job::{Failure, HostSlices, MpiLibrary, OnFailure, RankEnd};
use mpd_wire::message::{Down, HostChange, HostTurn};
use mpd_wire::{DaemonName, Rank};

use crate::manager::job::{Job, Phase, SIGKILL, SIGTERM};
use crate::manager::rank_table::Pmi;
use crate::manager::retire;

impl Job {
    pub(super) fn exited(&mut self, now: Time, rank: Rank, end: RankEnd) {
        let Some(ended) = self.end_rank(now, rank, end) else { return };
        if ended.is_unwanted {
            // A remaining rank of a failed spawn.
            self.review_world(ended.first);
            return self.review_living();
        }
        match (end, ended.pmi) {
            _ if ended.is_retired && retire::is_wanted(end) => self.review_fence(now, ended.first),
            (RankEnd::Exited(0), Pmi::Initialized) if !self.debugged && !self.elastic => {
                self.member_failed(now, ended.first, rank, Failure::NotFinalized { rank });
            }
            (RankEnd::Exited(0), Pmi::Unused) if ended.is_awaited && !self.debugged => {
                self.end_by_rank(now, rank, Failure::NotInitialized { rank });
            }
            (RankEnd::Exited(0), _) => {
                self.review_fence(now, ended.first);
            }
            (
                RankEnd::Exited(_) | RankEnd::Signaled { .. } | RankEnd::NotStarted | RankEnd::Lost,
                _,
            ) => self.member_failed(now, ended.first, rank, self.blame(rank, end)),
        }
        self.review_world(ended.first);
        self.review_living();
    }

    pub(super) fn review_living(&mut self) {
        if self.rank_table.living() == 0 && matches!(self.phase, Phase::Running | Phase::Ending) {
            self.kill();
        }
    }

    /// The failure for the end of a rank. A rank that was terminated or killed after `^C` counts as ended by `^C`.
    fn blame(&self, rank: Rank, end: RankEnd) -> Failure {
        match (end, self.wanted_end) {
            (RankEnd::Signaled { signal: SIGTERM | SIGKILL, .. }, Some(signal)) => {
                Failure::Interrupted { signal }
            }
            _ => Failure::Rank { rank, end },
        }
    }

    fn member_failed(&mut self, now: Time, first: Rank, rank: Rank, failure: Failure) {
        match self.on_failure {
            OnFailure::End if !self.debugged => self.end_by_rank(now, rank, failure),
            OnFailure::End | OnFailure::Continue => {
                self.fail_rank(rank, failure);
                if !self.debugged {
                    self.command(Down::Dead { rank });
                }
                self.review_fence(now, first);
            }
        }
    }

    /// A host is lost. This ends the job, regardless of the option about failures of ranks, unless no rank of the job
    /// runs there any more or yet. In a job that is ending, the loss is the first failure if there was no other: the
    /// ends of ranks, or some output, are then unknown.
    pub(super) fn lost(&mut self, now: Time, member: DaemonName, problem: String) {
        let Some(tree_index) = self.host_slices.tree_index_of(&member) else { return };
        if self.phase >= Phase::CleaningUp {
            return;
        }
        self.recorder.host_changed(now, HostChange { host: member.clone(), to: HostTurn::Lost });
        let is_spared =
            self.phase == Phase::Running && self.spare_loss(now, (tree_index, &member), &problem);
        self.lost.insert(tree_index);
        if is_spared {
            return;
        }
        let failure = Failure::HostLost { host: member.to_string(), problem };
        self.end_by(now, Some(member), failure);
        if self.has_started {
            let gone = self.rank_table.living_ranks(|at| HostSlices::is_in_subtree(at, tree_index));
            for rank in gone {
                self.end_rank(now, rank, RankEnd::Lost);
            }
            self.review_living();
        }
    }

    /// Ranks of one world with different MPI libraries would wait for each other forever.
    pub(super) fn note_library(&mut self, now: Time, rank: Rank, library: MpiLibrary) {
        if let Some((other, other_library)) = self.rank_table.note_library(rank, library) {
            let failure = Failure::TwoLibraries { rank, library, other, other_library };
            self.end_by_rank(now, rank, failure);
        }
    }

    pub(super) fn note_alone(&mut self, rank: Rank, library: String) {
        let is_first = self.alone.as_ref().is_none_or(|(known, _)| rank < *known);
        if is_first && self.rank_table.world_of(rank).is_some_and(|world| world.number == 0) {
            self.alone = Some((rank, library));
        }
    }

    /// Ranks that each ran as rank 0 of 1 did not do the common work that the user wanted.
    pub(super) fn review_alone(&mut self) {
        if self.failure.is_none()
            && self.rank_table.ended_without_pmi()
            && let Some((rank, library)) = self.alone.take()
        {
            self.fail_rank(rank, Failure::RanAlone { rank, library });
        }
    }
}
