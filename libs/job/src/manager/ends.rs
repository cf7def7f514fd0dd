//! Ends of ranks, and what they mean for the job.

use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, MpiLibrary, OnFailure, RankEnd};
use mpd_wire::message::Down;

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
