//! A ring that is made for one job, and how long its daemons stay.
//!
//! The first daemon belongs to the mpirun that started it: when that is gone and no job is left, it tells
//! all to leave. The others belong to the life of the first: who hears no such word, because the first was
//! killed or cut off, leaves when it has missed that life for a while and has no job.

use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::Instance;

use crate::cli::Cli;

/// Who missed the first daemon for so many pulses does not expect it back.
const PATIENCE: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Bond {
    /// The life of the first daemon; none: this is the first.
    launcher: Option<Instance>,
    /// Told to leave when no job is here.
    dismissed: bool,
    missed_since: Option<Time>,
    pulse: Duration,
    next_look: Option<Time>,
}

impl Bond {
    /// Of a daemon in a private ring; none in any other.
    pub(super) fn new(cli: &Cli, pulse: Duration, now: Time) -> Option<Self> {
        cli.is_private().then(|| Self {
            launcher: cli.launched_by,
            dismissed: false,
            missed_since: None,
            pulse,
            next_look: cli.launched_by.map(|_| now + pulse),
        })
    }

    /// Whether this is the first daemon.
    pub(super) const fn is_first(&self) -> bool {
        self.launcher.is_none()
    }

    /// When the first daemon is to be looked for.
    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.next_look
    }

    /// The order to leave came. The daemon leaves after the end of its job.
    pub(super) const fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Whether that order came.
    pub(super) const fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Notes whether the first daemon is there; whether it has been missed for too long.
    pub(super) fn is_lost(&mut self, now: Time, is_there: impl Fn(Instance) -> bool) -> bool {
        if let (Some(launcher), Some(at)) = (self.launcher, self.next_look)
            && at <= now
        {
            self.next_look = Some(now + self.pulse);
            self.missed_since = match is_there(launcher) {
                true => None,
                false => self.missed_since.or(Some(now)),
            };
        }
        self.missed_since.is_some_and(|since| now.since(since) >= self.pulse * PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: Duration = Duration::from_secs(1);

    fn follower() -> Bond {
        let launcher = Some(Instance::from_bytes([7; 16]));
        Bond {
            launcher,
            dismissed: false,
            missed_since: None,
            pulse: PULSE,
            next_look: Some(Time::ZERO),
        }
    }

    #[test]
    fn the_first_daemon_is_lost_when_it_was_missed_for_eight_pulses_on_end() {
        let mut bond = follower();
        let at = |pulses: u32| Time::ZERO + PULSE * pulses;
        for pulse in 0..8 {
            assert!(!bond.is_lost(at(pulse), |_| false), "{pulse}");
        }
        assert!(bond.is_lost(at(8), |_| false));
        assert!(!bond.is_lost(at(9), |_| true), "it is back");
        assert!(!bond.is_lost(at(10), |_| false));
        assert_eq!(bond.next_deadline(), Some(at(11)));
    }
}
