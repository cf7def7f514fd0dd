//! What is told of failures, and when. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::job::{Failure, RankEnd};

use super::interface::Settings;
use super::signals::{SIGHUP, SIGINT, SIGQUIT};
use crate::crashes::Crashes;

/// A failure is told with the end of the job, when the last output of the ranks is out, but no later than this after it
/// was known.
pub const TELL_AFTER: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Failures {
    settings: Settings,
    untold: Option<(Time, String)>,
    /// Signals that the user has sent.
    seen: BTreeSet<i32>,
    /// Where ranks were when they crashed.
    pub(super) crashes: Crashes,
    /// Something other than the end of a rank went wrong.
    pub(super) cut_short: bool,
}

impl Failures {
    pub(super) fn new(settings: Settings) -> Self {
        let (seen, crashes) = (BTreeSet::new(), Crashes::default());
        Self { settings, untold: None, seen, crashes, cut_short: false }
    }

    /// The user has sent a signal.
    pub(super) fn note_signal(&mut self, signal: i32) {
        self.seen.insert(signal);
    }

    /// Takes a failure on a host. If it ends the job, why.
    pub(super) fn add(&mut self, now: Time, host: &str, failure: &Failure) -> Option<String> {
        let goes_on = self.settings.goes_on;
        let is_end_of_rank = matches!(failure.bare(), Failure::Rank { .. });
        let is_of_rank = is_end_of_rank || matches!(failure.bare(), Failure::NotFinalized { .. });
        self.cut_short |= !(is_end_of_rank || goes_on && is_of_rank);
        let why = self.told(failure);
        if self.is_worth_telling(failure) {
            let place = if failure.names_host() { format!("host {host}: ") } else { String::new() };
            let wait = if goes_on { Duration::ZERO } else { TELL_AFTER };
            self.untold = Some((now + wait, format!("{place}{why}")));
        }
        (!goes_on || !is_of_rank).then_some(why)
    }

    /// When something is to be told.
    pub(super) fn due(&self) -> Option<Time> {
        self.untold.as_ref().map(|(at, _)| *at)
    }

    /// The lines to tell, once.
    pub(super) fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        self.crashes.lines().chain(self.untold.take().map(|(_, text)| text))
    }

    /// What a failure is called. Of a program that ran before its job only its parent knows the code.
    fn told(&self, failure: &Failure) -> String {
        match failure {
            Failure::NotFinalized { rank } if self.settings.adopted => {
                format!("rank {rank}: ended without MPI_Finalize; the job was ended")
            }
            Failure::NotFinalized { rank } if self.settings.goes_on => {
                format!("rank {rank}: exited with code 0 after MPI_Init without MPI_Finalize")
            }
            failure => failure.to_string(),
        }
    }

    /// A single program that exits as it likes, a reader that left, and a signal that the user sent
    /// are no news to the user.
    fn is_worth_telling(&self, failure: &Failure) -> bool {
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
