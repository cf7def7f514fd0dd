//! The lease of a daemon in a private ring: how long it stays.
//!
//! The first daemon stays as long as the mpirun that started it, or a job. Then it orders all members to leave. The
//! others follow this order. The first daemon may also be killed or cut off. So another daemon without a job leaves
//! when the instance of the first daemon has not been a live member for a while.

use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::Instance;

/// The first daemon is lost if it was not a live member for this number of pulses.
const PATIENCE: u32 = 8;

/// The state of the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The instance of the first daemon; `None` if this is the first.
    launcher: Option<Instance>,
    /// The order to leave came; the daemon leaves when no job is here.
    dismissed: bool,
    missing_since: Option<Time>,
    pulse: Duration,
    next_look: Option<Time>,
}

impl Lease {
    /// The lease of a daemon in a private ring, which the daemon of the instance `launcher` began; `None`: this one did.
    pub(crate) fn new(launcher: Option<Instance>, pulse: Duration, now: Time) -> Self {
        let next_look = launcher.map(|_| now + pulse);
        Self { launcher, dismissed: false, missing_since: None, pulse, next_look }
    }

    /// Whether this is the first daemon.
    pub(crate) const fn is_first(&self) -> bool {
        self.launcher.is_none()
    }

    /// When to check for the first daemon.
    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.next_look
    }

    /// Notes the order to leave. The daemon leaves after the end of its job.
    pub(crate) const fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Whether the order to leave came.
    pub(crate) const fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Notes whether the first daemon is a live member. Whether it has been missing for too long.
    pub(crate) fn is_lost(&mut self, now: Time, is_there: impl Fn(Instance) -> bool) -> bool {
        if let (Some(launcher), Some(at)) = (self.launcher, self.next_look)
            && at <= now
        {
            self.next_look = Some(now + self.pulse);
            self.missing_since = match is_there(launcher) {
                true => None,
                false => self.missing_since.or(Some(now)),
            };
        }
        self.missing_since.is_some_and(|since| now.since(since) >= self.pulse * PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: Duration = Duration::from_secs(1);

    fn follower() -> Lease {
        let launcher = Some(Instance::from_bytes([7; 16]));
        Lease {
            launcher,
            dismissed: false,
            missing_since: None,
            pulse: PULSE,
            next_look: Some(Time::ZERO),
        }
    }

    #[test]
    fn the_first_daemon_is_lost_after_eight_pulses_in_a_row_without_it() {
        let mut lease = follower();
        let at = |pulses: u32| Time::ZERO + PULSE * pulses;
        for pulse in 0..8 {
            assert!(!lease.is_lost(at(pulse), |_| false), "{pulse}");
        }
        assert!(lease.is_lost(at(8), |_| false));
        assert!(!lease.is_lost(at(9), |_| true), "it is back");
        assert!(!lease.is_lost(at(10), |_| false));
        assert_eq!(lease.next_deadline(), Some(at(11)));
    }
}
