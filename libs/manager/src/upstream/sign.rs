//! The sign of life that the daemon gets of a manager that has nothing to report.

use std::time::Duration;

use mpd_sansio::Time;

/// The time after which a manager says that it has begun, if it has reported nothing else.
const SIGN_AFTER: Duration = Duration::from_millis(500);

/// When the daemon is to get a sign. It kills a manager that gives none.
#[derive(Debug)]
pub struct Sign(Option<Time>);

impl Sign {
    /// The daemon gets a sign some time after now, if nothing else is reported before.
    pub fn new(now: Time) -> Self {
        Self(Some(now + SIGN_AFTER))
    }

    /// When the sign is due; `None` if the daemon has a report.
    pub const fn at(&self) -> Option<Time> {
        self.0
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    /// Notes a report to the daemon, which is a sign, too.
    pub const fn given(&mut self) {
        self.0 = None;
    }
}
