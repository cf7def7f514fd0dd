//! The stay of this daemon in the ring: entering, leaving, the saved state, and the members that it starts again.

use std::time::Duration;

use mpd_machine::Time;
use mpd_ring::{Event, Input, Ring};
use mpd_wire::message::Order;
use mpd_wire::{Address, DaemonName, Standing};
use nix::unistd::Pid;

use crate::daemon::membership::bond::Bond;
use crate::daemon::membership::effect::{Effect, Farewell};
use crate::daemon::membership::keep::Keep;
use crate::daemon::membership::request::{Asker, Numbers, payload_of};
use crate::daemon::membership::saved::Saved;

/// How long a daemon that ends keeps serving the shares of a scatter that it still owes.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// The progress of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// When all shares are done, at the latest at that time.
    Soon {
        at_last: Time,
        how: Farewell,
    },
    /// The last messages are being sent, until that time.
    Over {
        until: Time,
    },
}

/// The members through which `--join` lets a daemon enter.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) addresses: Vec<Address>,
    /// The time to give up. `None` without addresses.
    pub(super) give_up: Option<Time>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stay {
    entrance: Entrance,
    entered: bool,
    /// Another daemon bears our name, and we yield.
    doubled: bool,
    leaving: Leaving,
    saved: Saved,
    /// Where lost members are started again, us among them.
    keep: Option<Keep>,
    /// In a ring that is made for one job.
    bond: Option<Bond>,
    numbers: Numbers,
}

impl Stay {
    pub(super) const fn new(
        entrance: Entrance,
        saved: Saved,
        keep: Option<Keep>,
        bond: Option<Bond>,
    ) -> Self {
        Self {
            entrance,
            entered: false,
            doubled: false,
            leaving: Leaving::No,
            saved,
            keep,
            bond,
            numbers: Numbers::new(Asker::Stay),
        }
    }

    /// Something happened to the ring.
    pub(super) const fn note(&mut self, event: &Event) {
        match event {
            Event::Entered { .. } => self.entered = true,
            Event::SteppedDown => self.doubled = true,
            _ => {}
        }
    }

    /// Whether this daemon has its place in the ring.
    pub(super) const fn has_entered(&self) -> bool {
        self.entered
    }

    /// Whether its successor is to find the ring again. A private ring's daemon has none.
    fn is_saved(&self) -> bool {
        self.entered && self.leaving == Leaving::No && self.bond.is_none()
    }

    /// Why entering came to nothing for good, or why this daemon cannot stay. `last`: why the last try failed.
    pub(super) fn failure(&self, now: Time, me: &DaemonName, last: &str) -> Option<String> {
        if self.doubled {
            return Some(format!(
                "a daemon named {me} is in the ring already; choose another name with --name"
            ));
        }
        if self.entered || self.entrance.give_up.is_none_or(|at| at > now) {
            return None;
        }
        let places: Vec<&str> = self.entrance.addresses.iter().map(Address::as_str).collect();
        Some(match places[..] {
            [place] if last.starts_with(place) => format!("cannot enter the ring: {last}"),
            _ => {
                format!("cannot enter the ring through {}; at last: {last}", places.join(", "))
            }
        })
    }

    /// Whether this daemon is out of the ring and all is said, which `is_quiet` tells.
    pub(super) fn is_over(&self, now: Time, is_quiet: bool) -> bool {
        matches!(self.leaving, Leaving::Over { until } if until <= now || is_quiet)
    }

    /// Whether connections are accepted.
    pub(super) const fn lets_in(&self) -> bool {
        !matches!(self.leaving, Leaving::Over { .. })
    }

    /// Whether the ring may connect to other members.
    pub(super) const fn reaches_out(&self) -> bool {
        match self.leaving {
            Leaving::No | Leaving::Soon { how: Farewell::Depart | Farewell::Signal, .. } => true,
            Leaving::Soon { how: Farewell::WithAll | Farewell::Missed, .. }
            | Leaving::Over { .. } => false,
        }
    }

    /// Begins to leave.
    pub(super) fn leave(&mut self, now: Time, how: Farewell) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Soon { at_last: now + LEAVE_PATIENCE, how };
        }
    }

    /// Begins to leave because of a signal. The first of a private ring takes all with it: see
    /// [`Stay::review_bond`].
    pub(super) fn leave_on_signal(&mut self, now: Time) {
        if !self.bond.as_ref().is_some_and(Bond::is_first) {
            let how = if self.keep.is_some() { Farewell::Missed } else { Farewell::Signal };
            self.leave(now, how);
        }
    }

    /// The order to leave came. In a private ring the daemon waits for the end of its job first.
    pub(super) fn dismiss(&mut self, now: Time) {
        match &mut self.bond {
            Some(bond) => bond.dismiss(),
            None => self.leave(now, Farewell::WithAll),
        }
    }

    /// This daemon is out of the ring and sends its last messages.
    pub(super) fn end(&mut self, now: Time) {
        self.leaving = Leaving::Over { until: now + LAST_WORDS };
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let stays = self.leaving == Leaving::No;
        let leaving = match self.leaving {
            Leaving::No => None,
            Leaving::Soon { at_last, .. } => Some(at_last),
            Leaving::Over { until } => Some(until),
        };
        [
            self.saved.next_deadline().filter(|_| self.is_saved()),
            self.keep.as_ref().filter(|_| stays).map(Keep::next_deadline),
            self.bond.as_ref().filter(|_| stays).and_then(Bond::next_deadline),
            leaving,
            self.entrance.give_up.filter(|_| !self.entered),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Leaves a private ring that neither the mpirun that began it nor a job needs (`is_needed`).
    pub(super) fn review_bond(
        &mut self,
        now: Time,
        ring: &Ring,
        is_needed: bool,
    ) -> Option<Effect> {
        let bond = self.bond.as_mut()?;
        let is_live =
            |life| ring.records().any(|r| r.instance == life && r.standing == Standing::Live);
        let is_lost = bond.is_lost(now, is_live);
        if is_needed || self.leaving != Leaving::No {
            return None;
        }
        if bond.is_dismissed() {
            self.leave(now, Farewell::WithAll);
        } else if bond.is_first() {
            bond.dismiss();
            self.leave(now, Farewell::WithAll);
            // No console waits for the answers.
            let request = self.numbers.next();
            return Some(Effect::Post(Input::Scatter(request, payload_of(&Order::LeaveAll))));
        } else if is_lost {
            log::info!("the daemon that began this ring is gone");
            self.leave(now, Farewell::Depart);
        }
        None
    }

    /// Starts helpers for the lost members that are due, to enter through `entries`; returns the helpers.
    pub(super) fn revive(
        &mut self,
        now: Time,
        ring: &Ring,
        entries: &[Address],
        is_running: impl Fn(Pid) -> bool,
    ) -> Vec<Pid> {
        match &mut self.keep {
            Some(keep) if self.leaving == Leaving::No => {
                keep.turn(now, ring.wards(), entries, is_running)
            }
            _ => Vec::new(),
        }
    }

    /// Saves the ring for the successor.
    pub(super) fn save(&mut self, now: Time, ring: &Ring, port: u16) {
        if self.is_saved() {
            self.saved.turn(now, ring, port);
        }
    }

    /// Leaves, if it is time.
    pub(super) fn review_leaving(&mut self, now: Time, ring: &Ring, port: u16) -> Option<Effect> {
        let Leaving::Soon { at_last, how } = self.leaving else { return None };
        if ring.pending() > 0 && now < at_last {
            return None;
        }
        match how {
            Farewell::Depart | Farewell::WithAll => self.saved.forget(),
            Farewell::Signal | Farewell::Missed if self.entered => {
                self.saved.save(now, ring, port);
            }
            Farewell::Signal | Farewell::Missed => {}
        }
        Some(match how {
            Farewell::Depart | Farewell::Signal => Effect::Post(Input::Leave),
            Farewell::WithAll | Farewell::Missed => Effect::End,
        })
    }
}
