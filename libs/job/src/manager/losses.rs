//! Hosts that are lost, and the causes.
//!
//! A manager that is killed closes its links first. Its daemon reaps it and sends how it ended, through the ring. The
//! failure of the lost host is therefore reported when the cause has come, or after [`CAUSE_PATIENCE`]. Meanwhile the
//! job is ended as after every failure.

use mpd_sansio::Time;
use mpd_wire::DaemonName;
use mpd_wire::job::{Failure, HostSlices, ManagerEnd, RankEnd};
use mpd_wire::message::{HostChange, HostTurn};

use crate::manager::job::{Job, Phase, Timer};
use crate::manager::{CAUSE_PATIENCE, Output};

impl Job {
    /// A host is lost. This ends the job, regardless of the option about failures of ranks, unless no rank of the job
    /// runs there any more or yet. In a job that is ending, the loss is the first failure if there was no other: the
    /// ends of ranks, or some output, are then unknown. `closed`: its manager has closed the link.
    pub(super) fn lost(&mut self, now: Time, member: DaemonName, problem: String, closed: bool) {
        let Some(tree_index) = self.host_slices.tree_index_of(&member) else { return };
        if self.phase >= Phase::CleaningUp {
            return;
        }
        let cause = self.manager_ends.get(&tree_index);
        let is_open = closed && cause.is_none();
        let problem = cause.map_or(problem, ManagerEnd::to_string);
        self.recorder.host_changed(now, HostChange { host: member.clone(), to: HostTurn::Lost });
        let is_spared =
            self.phase == Phase::Running && self.spare_loss(now, tree_index, &member, &problem);
        self.lost.insert(tree_index);
        if is_spared {
            return;
        }
        let failure = Failure::HostLost { host: member.to_string(), problem };
        if is_open {
            self.withhold(now, member, failure);
        } else {
            self.fail(Some(member), failure);
        }
        self.end_for_failure(now);
        if self.has_started {
            let gone = self.rank_table.living_ranks(|at| HostSlices::is_in_subtree(at, tree_index));
            for rank in gone {
                self.end_rank(now, rank, RankEnd::Lost);
            }
            self.review_living();
        }
    }

    /// The daemon of a host says how its manager ended. This has no effect while the host is not lost.
    pub(super) fn manager_ended(&mut self, now: Time, member: &DaemonName, end: ManagerEnd) {
        let Some(tree_index) = self.host_slices.tree_index_of(member) else { return };
        self.manager_ends.insert(tree_index, end);
        if self.withheld.as_ref() == Some(member) {
            if let Some(Failure::HostLost { problem, .. }) = &mut self.failure {
                *problem = end.to_string();
            }
            self.report_withheld(now);
        }
    }

    /// Records the first failure, and reports it later.
    fn withhold(&mut self, now: Time, member: DaemonName, failure: Failure) {
        if self.failure.is_none() && !self.withdrawn {
            self.failure = Some(failure);
            self.withheld = Some(member);
            self.timers.set(Timer::Cause, now + CAUSE_PATIENCE);
        }
    }

    /// Reports the withheld failure, if there is one. The end of the job may have waited for that.
    pub(super) fn report_withheld(&mut self, now: Time) {
        let (Some(member), Some(failure)) = (self.withheld.take(), self.failure.clone()) else {
            return;
        };
        self.timers.stop(Timer::Cause);
        self.emit(Output::ReportFailed { host: Some(member), failure });
        if self.is_clean {
            self.cleaned_up(now);
        }
    }
}
