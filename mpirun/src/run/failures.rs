//! The messages about failures, and their times. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::job::{Failure, RankEnd};

use super::interface::Settings;
use super::signals::{SIGHUP, SIGINT, SIGQUIT};
use crate::crashes::Crashes;

/// A failure is reported with the end of the job, after the last output of the ranks, but at the
/// latest after this time.
pub const REPORT_AFTER: Duration = Duration::from_secs(1);

/// The failures of a job.
#[derive(Debug)]
pub(super) struct Failures {
    settings: Settings,
    unreported: Option<(Time, String)>,
    /// Signals that the user has sent.
    seen: BTreeSet<i32>,
    /// Positions of the crashed ranks.
    pub(super) crashes: Crashes,
    /// Whether the job failed for another reason than the end of a rank.
    pub(super) cut_short: bool,
}

impl Failures {
    pub(super) fn new(settings: Settings) -> Self {
        let (seen, crashes) = (BTreeSet::new(), Crashes::default());
        Self { settings, unreported: None, seen, crashes, cut_short: false }
    }

    /// Notes a signal that the user has sent.
    pub(super) fn note_signal(&mut self, signal: i32) {
        self.seen.insert(signal);
    }

    /// Adds a failure on a host. Returns the reason if the failure ends the job.
    pub(super) fn add(&mut self, now: Time, host: &str, failure: &Failure) -> Option<String> {
        let continues_on_failure = self.settings.continues_on_failure;
        let is_end_of_rank = matches!(failure.bare(), Failure::Rank { .. });
        let is_of_rank = is_end_of_rank || matches!(failure.bare(), Failure::NotFinalized { .. });
        self.cut_short |= !(is_end_of_rank || continues_on_failure && is_of_rank);
        let why = self.reported(failure);
        if self.is_reportable(failure) {
            let place = if failure.names_host() { format!("host {host}: ") } else { String::new() };
            let wait = if continues_on_failure { Duration::ZERO } else { REPORT_AFTER };
            self.unreported = Some((now + wait, format!("{place}{why}")));
        }
        (!continues_on_failure || !is_of_rank).then_some(why)
    }

    /// The time of the next message.
    pub(super) fn due(&self) -> Option<Time> {
        self.unreported.as_ref().map(|(at, _)| *at)
    }

    /// The lines of the messages; each failure is reported once.
    pub(super) fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        self.crashes.lines().chain(self.unreported.take().map(|(_, text)| text))
    }

    /// The text of a failure. Only the parent of an adopted program knows the program's exit code.
    fn reported(&self, failure: &Failure) -> String {
        match failure {
            Failure::NotFinalized { rank } if self.settings.adopted => {
                format!("rank {rank}: ended without MPI_Finalize; the job was ended")
            }
            Failure::NotFinalized { rank } if self.settings.continues_on_failure => {
                format!("rank {rank}: exited with code 0 after MPI_Init without MPI_Finalize")
            }
            failure => failure.to_string(),
        }
    }

    /// Not reported are the exit code of a single program, the end of the output's reader, and the
    /// effect of a signal that the user sent.
    fn is_reportable(&self, failure: &Failure) -> bool {
        match failure.bare() {
            Failure::Rank { .. } | Failure::NotFinalized { .. } | Failure::Aborted { .. }
                if self.settings.is_silent && !self.settings.verbose =>
            {
                false
            }
            Failure::Rank { end: RankEnd::Exited(_), .. } => {
                self.settings.size > 1 || failure != failure.bare()
            }
            Failure::Rank { end: RankEnd::Signaled { signal, .. }, .. } => {
                !self.seen.contains(&i32::from(*signal))
            }
            Failure::NotFinalized { .. } if self.settings.adopted => {
                ![SIGINT, SIGQUIT, SIGHUP].iter().any(|signal| self.seen.contains(signal))
            }
            Failure::OutputClosed | Failure::Interrupted { .. } => false,
            _ => true,
        }
    }
}
