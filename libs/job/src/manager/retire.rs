//! The root's decision to retire ranks, because a user wants the job to have fewer.
//!
//! The highest ranks that run get SIGTERM. A retired rank that does not end continues to run, and is not killed.

use mpd_wire::RankSet;
use mpd_wire::job::RankEnd;
use mpd_wire::message::{Down, MAX_LISTED};

use crate::manager::Output;
use crate::manager::job::{Job, Phase, SIGTERM};

impl Job {
    /// Retires the `count` highest ranks of those that run.
    pub(super) fn retire(&mut self, count: u32) {
        if let Some(problem) = self.refusal(count) {
            return self.emit(Output::ReportNotice(format!("mpdgrow -{count}: {problem}")));
        }
        let highest: RankSet = self.rank_table.running().rev().take(count as usize).collect();
        self.has_retired = true;
        for rank in highest.ranks() {
            if let Some(member) = self.rank_table.member_mut(rank) {
                member.is_retired = true;
            }
        }
        for ranks in highest.parts(MAX_LISTED) {
            self.command(Down::Retire { ranks });
        }
    }

    fn refusal(&self, count: u32) -> Option<String> {
        match self.phase {
            _ if self.debugged => Some("the ranks of a debugged job cannot be retired".to_owned()),
            Phase::Preparing | Phase::Starting => {
                Some("the job has not started all its ranks yet; try again".to_owned())
            }
            Phase::Running => refusal(count, self.running()),
            _ => Some("the job is ending".to_owned()),
        }
    }

    /// Whether ranks may end while others live.
    pub(super) const fn shrinks(&self) -> bool {
        self.elastic || self.has_retired
    }

    /// The number of ranks that run and that no user has retired.
    pub(super) fn running(&self) -> u32 {
        u32::try_from(self.rank_table.running().count()).unwrap_or(u32::MAX)
    }
}

/// Why `count` of the `running` ranks of a job cannot be retired; a text for people.
pub fn refusal(count: u32, running: u32) -> Option<String> {
    match running {
        0 => Some("no rank of the job runs".to_owned()),
        1 => Some("only one rank of the job runs; mpdkilljob ends the job".to_owned()),
        _ if count == running => Some(
            "these are all running ranks, and one must remain; mpdkilljob ends the job".to_owned(),
        ),
        _ if count > running => {
            Some(format!("only {running} ranks of the job run, and one must remain"))
        }
        _ => None,
    }
}

/// Whether a rank ends like this because it was retired.
pub(super) const fn is_wanted(end: RankEnd) -> bool {
    matches!(end, RankEnd::Exited(0) | RankEnd::Signaled { signal: SIGTERM, .. })
}
