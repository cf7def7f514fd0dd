//! The lease of a daemon in a ring that ends by itself: how long it stays.
//!
//! The first daemon of a private ring stays as long as the mpirun that started it, or a job. That of a user's ring on a
//! site stays until it has had neither a job nor a console for a while. Then it orders all members to leave. The others follow this order.
//! The first daemon may also be killed or cut off. So another daemon without a job leaves when the first daemon has not
//! been a live member for a while.

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::{DaemonName, Instance};

/// The first daemon is lost if it was not a live member for this number of pulses.
const PATIENCE: u32 = 8;

/// The first daemon of a ring that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// This one.
    Me,
    /// The daemon of this instance. A private ring has no successors.
    Instance(Instance),
    /// The daemon of this name, or its successor.
    Name(DaemonName),
}

/// The terms of a lease.
#[derive(Clone, Debug)]
pub struct LeaseTerms {
    pub first: First,
    /// The pulse of the ring.
    pub pulse: Duration,
    /// How long the ring stays after its last use; `None` in a private ring, which ends at once.
    pub idle: Option<Duration>,
}

/// The state of the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    terms: LeaseTerms,
    /// The order to leave came; the daemon leaves when no job is here.
    dismissed: bool,
    missing_since: Option<Time>,
    next_look: Option<Time>,
    /// When a job or a console last needed this daemon.
    needed: Time,
}

impl Lease {
    pub(crate) fn new(terms: LeaseTerms, now: Time) -> Self {
        let next_look = (terms.first != First::Me).then(|| now + terms.pulse);
        Self { terms, dismissed: false, missing_since: None, next_look, needed: now }
    }

    /// Whether this is the first daemon.
    pub(crate) fn is_first(&self) -> bool {
        self.terms.first == First::Me
    }

    /// Whether the ring is for one job, so that no daemon has a successor.
    pub(crate) const fn is_private(&self) -> bool {
        self.terms.idle.is_none()
    }

    /// When to look again: at the first daemon, or at the end of the idle time.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let idle = self.terms.idle.filter(|_| self.is_first());
        self.next_look.or(idle.map(|idle| self.needed + idle))
    }

    /// Notes the order to leave. The daemon leaves after the end of its job.
    pub(crate) const fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Whether the order to leave came.
    pub(crate) const fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Notes whether a job or a console needs this daemon. Whether the idle time is over.
    pub(crate) fn is_over(&mut self, now: Time, is_needed: bool) -> bool {
        if is_needed {
            self.needed = now;
            return false;
        }
        now.since(self.needed) >= self.terms.idle.unwrap_or_default()
    }

    /// Notes whether the first daemon is a live member. Whether it has been missing for too long.
    pub(crate) fn is_lost(&mut self, now: Time, is_there: impl Fn(&First) -> bool) -> bool {
        if let Some(at) = self.next_look
            && at <= now
        {
            self.next_look = Some(now + self.terms.pulse);
            self.missing_since = match is_there(&self.terms.first) {
                true => None,
                false => self.missing_since.or(Some(now)),
            };
        }
        self.missing_since.is_some_and(|since| now.since(since) >= self.terms.pulse * PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: Duration = Duration::from_secs(1);

    fn at(pulses: u32) -> Time {
        Time::ZERO + PULSE * pulses
    }

    #[test]
    fn the_first_daemon_is_lost_after_eight_pulses_in_a_row_without_it() {
        let first = First::Instance(Instance::from_bytes([7; 16]));
        let mut lease = Lease::new(LeaseTerms { first, pulse: PULSE, idle: None }, Time::ZERO);
        for pulse in 1..9 {
            assert!(!lease.is_lost(at(pulse), |_| false), "{pulse}");
        }
        assert!(lease.is_lost(at(9), |_| false));
        assert!(!lease.is_lost(at(10), |_| true), "it is back");
        assert!(!lease.is_lost(at(11), |_| false));
        assert_eq!(lease.next_deadline(), Some(at(12)));
    }

    #[test]
    fn the_ring_of_a_site_ends_after_its_idle_time_and_a_private_one_at_once() {
        let terms = LeaseTerms { first: First::Me, pulse: PULSE, idle: Some(PULSE * 10) };
        let mut lease = Lease::new(terms.clone(), Time::ZERO);
        assert!(!lease.is_over(at(5), true));
        assert_eq!(lease.next_deadline(), Some(at(15)));
        assert!(!lease.is_over(at(14), false));
        assert!(lease.is_over(at(15), false));
        let mut lease = Lease::new(LeaseTerms { idle: None, ..terms }, Time::ZERO);
        assert!(!lease.is_over(at(1), true));
        assert!(lease.is_over(at(1), false));
        assert_eq!(lease.next_deadline(), None);
    }
}
