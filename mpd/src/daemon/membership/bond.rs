//! A ring that is made for one job, and how long its daemons stay.
//!
//! The first daemon belongs to the mpirun that started it: when that is gone and no job is left, it tells
//! all to leave. The others belong to the life of the first: who hears no such word, because the first was
//! killed or cut off, leaves when it has missed that life for a while and has no job.

use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::message::Order;
use mpd_wire::{Instance, Standing};

use crate::cli::Cli;
use crate::daemon::membership::asks::Wanted;
use crate::daemon::membership::{Farewell, Hands, Leaving, Membership};

/// Who missed the first daemon for so many pulses does not expect it back.
const PATIENCE: u32 = 8;

/// Stands for a console where nobody waits for an answer.
const NOBODY: usize = usize::MAX;

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

    /// Notes whether the first daemon is there; whether it has been missed for too long.
    fn is_lost(&mut self, now: Time, is_there: impl Fn(Instance) -> bool) -> bool {
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

impl Membership {
    /// The order to leave came. A private ring's daemon sees its job off first.
    pub(super) fn dismiss(&mut self, now: Time) {
        match &mut self.bond {
            Some(bond) => bond.dismissed = true,
            None => self.leave(now, Farewell::WithAll),
        }
    }

    /// Leaves a private ring that is of no more use. `is_needed`: by the mpirun that began it or by a job.
    pub(crate) fn review_bond(&mut self, hands: &mut Hands<'_>, is_needed: bool) {
        let Some(bond) = &mut self.bond else { return };
        let ring = self.pump.machine();
        let is_live =
            |life| ring.records().any(|r| r.instance == life && r.standing == Standing::Live);
        let is_lost = bond.is_lost(hands.now, is_live);
        if is_needed || self.leaving != Leaving::No {
            return;
        }
        if bond.is_first() && !std::mem::replace(&mut bond.dismissed, true) {
            self.scatter(NOBODY, Wanted::End(Vec::new()), &Order::LeaveAll);
            self.leave(hands.now, Farewell::WithAll);
        } else if bond.dismissed {
            self.leave(hands.now, Farewell::WithAll);
        } else if is_lost {
            log::info!("the daemon that began this ring is gone");
            self.leave(hands.now, Farewell::Depart);
        }
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
