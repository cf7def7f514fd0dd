//! The stay of this daemon in the ring: entering, leaving, the saved state, and the members that it starts again.

use std::time::Duration;

use mpd_jobtable::Line;
use mpd_ring::{Event, Input, Ring};
use mpd_sansio::Time;
use mpd_wire::message::RingOrder;
use mpd_wire::{Address, DaemonName, Standing};

use crate::effect::{Effect, Farewell};
use crate::keep::Keep;
use crate::lease::{First, Lease};
use crate::output::RingAction;
use crate::request::{Numbers, Requester, payload_of};
use crate::saved::Saved;

/// How long a leaving daemon continues to answer the scatters for which it owes answers.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long the last messages may take.
const LAST_MESSAGES: Duration = Duration::from_millis(1500);

/// The progress of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// When no scatter waits for this daemon, at the latest at that time.
    Soon {
        at_last: Time,
        how: Farewell,
    },
    /// The last messages are being sent, until that time.
    Over {
        until: Time,
    },
}

/// The number of pulses for entering through the named daemons before the daemon gives up.
const PATIENCE: u32 = 10;

/// How a daemon enters: the members through which `--join` lets it enter, or an introduction.
#[derive(Debug)]
pub struct Entrance {
    /// The addresses of the members.
    addresses: Vec<Address>,
    /// How long a daemon may take to enter.
    patience: Duration,
    /// The time to give up. `None` without addresses, and before the daemon is introduced.
    give_up: Option<Time>,
}

impl Entrance {
    /// Through the daemons that the user has `named`. A daemon that `waits` is introduced later.
    pub fn new(now: Time, pulse: Duration, waits: bool, named: Vec<Address>) -> Self {
        let patience = pulse * PATIENCE;
        let addresses = if waits { Vec::new() } else { named };
        let give_up = (!addresses.is_empty()).then(|| now + patience);
        Self { addresses, patience, give_up }
    }
}

/// The state of this daemon as a member.
#[derive(Debug)]
pub(crate) struct Stay {
    entrance: Entrance,
    entered: bool,
    /// Another daemon has the same name, and this one yields.
    is_duplicate: bool,
    leaving: Leaving,
    saved: Saved,
    /// With `--keep`: starts lost members again. Other members do that for this daemon.
    keep: Option<Keep>,
    /// Only in a ring that ends by itself.
    lease: Option<Lease>,
    numbers: Numbers,
}

impl Stay {
    pub(crate) const fn new(
        entrance: Entrance,
        saved: Saved,
        keep: Option<Keep>,
        lease: Option<Lease>,
    ) -> Self {
        Self {
            entrance,
            entered: false,
            is_duplicate: false,
            leaving: Leaving::No,
            saved,
            keep,
            lease,
            numbers: Numbers::new(Requester::Stay),
        }
    }

    /// Notes an event of the ring.
    pub(crate) const fn note(&mut self, event: &Event) {
        self.entered |= matches!(event, Event::Entered { .. });
        self.is_duplicate |= matches!(event, Event::SteppedDown);
    }

    /// The list of members has come. From now on the daemon has a limited time to enter.
    pub(crate) fn introduced(&mut self, now: Time) {
        self.entrance.give_up = Some(now + self.entrance.patience);
    }

    /// Whether this daemon is in the ring.
    pub(crate) const fn has_entered(&self) -> bool {
        self.entered
    }

    /// Whether the ring is saved for a successor. A daemon of a private ring has no successor.
    fn is_saved(&self) -> bool {
        self.entered && self.leaving == Leaving::No && self.private().is_none()
    }

    /// The lease, in a private ring.
    fn private(&self) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.is_private())
    }

    /// Why entering has failed for good, or why this daemon must leave. `last`: why the last attempt failed.
    pub(crate) fn failure(&self, now: Time, me: &DaemonName, last: &str) -> Option<String> {
        if self.is_duplicate {
            return Some(format!(
                "a daemon named {me} is in the ring already; choose another name with --name"
            ));
        }
        if self.entered || self.entrance.give_up.is_none_or(|at| at > now) {
            return None;
        }
        let addresses: Vec<&str> = self.entrance.addresses.iter().map(Address::as_str).collect();
        Some(match addresses[..] {
            [] => format!("cannot link to the neighbours in the ring: {last}"),
            [address] if last.starts_with(address) => format!("cannot enter the ring: {last}"),
            _ => {
                format!("cannot enter the ring through {}; at last: {last}", addresses.join(", "))
            }
        })
    }

    /// Whether this daemon is out of the ring and all last messages are sent (`is_quiet`) or late.
    pub(crate) fn is_over(&self, now: Time, is_quiet: bool) -> bool {
        matches!(self.leaving, Leaving::Over { until } if until <= now || is_quiet)
    }

    /// Whether connections are accepted.
    pub(crate) const fn accepts(&self) -> bool {
        !matches!(self.leaving, Leaving::Over { .. })
    }

    /// Whether the ring may connect to other members.
    pub(crate) const fn connects(&self) -> bool {
        match self.leaving {
            Leaving::No | Leaving::Soon { how: Farewell::Depart | Farewell::Signal, .. } => true,
            Leaving::Soon { how: Farewell::WithAll | Farewell::WithoutNotice, .. }
            | Leaving::Over { .. } => false,
        }
    }

    /// Begins to leave.
    pub(crate) fn leave(&mut self, now: Time, how: Farewell) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Soon { at_last: now + LEAVE_PATIENCE, how };
        }
    }

    /// Begins to leave because of a signal. The first daemon of a private ring first orders all to leave: see
    /// [`Stay::review_lease`].
    pub(crate) fn leave_on_signal(&mut self, now: Time) {
        if !self.private().is_some_and(Lease::is_first) {
            let how = if self.keep.is_some() { Farewell::WithoutNotice } else { Farewell::Signal };
            self.leave(now, how);
        }
    }

    /// Handles the order to leave. In a private ring the daemon waits for the end of its job first.
    pub(crate) fn dismiss(&mut self, now: Time) {
        match &mut self.lease {
            Some(lease) if lease.is_private() => lease.dismiss(),
            Some(_) | None => self.leave(now, Farewell::WithAll),
        }
    }

    /// This daemon is out of the ring and sends its last messages.
    pub(crate) fn end(&mut self, now: Time) {
        self.leaving = Leaving::Over { until: now + LAST_MESSAGES };
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let stays = self.leaving == Leaving::No;
        let leaving = match self.leaving {
            Leaving::No => None,
            Leaving::Soon { at_last, .. } => Some(at_last),
            Leaving::Over { until } => Some(until),
        };
        [
            self.saved.next_deadline().filter(|_| self.is_saved()),
            self.keep.as_ref().filter(|_| stays).map(Keep::next_deadline),
            self.lease.as_ref().filter(|_| stays).and_then(Lease::next_deadline),
            leaving,
            self.entrance.give_up.filter(|_| !self.entered),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Leaves a ring that ends by itself if neither a job nor a console needs it any more (`is_needed`).
    pub(crate) fn review_lease(
        &mut self,
        now: Time,
        ring: &Ring,
        is_needed: bool,
    ) -> Option<Effect> {
        let lease = self.lease.as_mut()?;
        let is_live = |first: &First| match first {
            First::Me => true,
            First::Instance(instance) => ring.is_live_instance(*instance),
            First::Name(name) => {
                ring.record(name).is_some_and(|record| record.standing == Standing::Live)
            }
        };
        let is_lost = lease.is_lost(now, is_live);
        if !lease.is_over(now, is_needed) || self.leaving != Leaving::No {
            return None;
        }
        if lease.is_dismissed() {
            self.leave(now, Farewell::WithAll);
        } else if lease.is_first() {
            lease.dismiss();
            self.leave(now, Farewell::WithAll);
            // No console waits for the answers.
            let request = self.numbers.next();
            return Some(Effect::Post(Input::Scatter(request, payload_of(&RingOrder::LeaveAll))));
        } else if is_lost {
            self.leave(now, Farewell::Depart);
            return Some(Effect::Log(Line::info("the daemon that began this ring is gone")));
        }
        None
    }

    /// The lost members for which a helper is to be started.
    pub(crate) fn revive(&mut self, now: Time, ring: &Ring) -> Vec<DaemonName> {
        match &mut self.keep {
            Some(keep) if self.leaving == Leaving::No => keep.turn(now, ring.watched_dead()),
            Some(_) | None => Vec::new(),
        }
    }

    /// The helper of this member has ended, or cannot start.
    pub(crate) fn helper_ended(&mut self, member: &DaemonName) {
        self.keep.iter_mut().for_each(|keep| keep.helper_ended(member));
    }

    /// Whether no successor of this daemon is expected.
    pub(crate) const fn is_for_good(&self) -> bool {
        self.saved.is_forgotten()
    }

    /// The record of the ring to write for the successor.
    pub(crate) fn save(&mut self, now: Time, ring: &Ring) -> Option<RingAction> {
        if !self.is_saved() {
            return None;
        }
        self.saved.turn(now, ring).map(RingAction::SaveRing)
    }

    /// Leaves, if it is time.
    pub(crate) fn review_leaving(&mut self, now: Time, ring: &Ring) -> Vec<Effect> {
        let Leaving::Soon { at_last, how } = self.leaving else { return Vec::new() };
        if ring.pending() > 0 && now < at_last {
            return Vec::new();
        }
        let record = match how {
            Farewell::Depart | Farewell::WithAll => {
                self.saved.forget();
                Some(RingAction::ForgetRing { key: how == Farewell::WithAll })
            }
            Farewell::Signal | Farewell::WithoutNotice if self.entered => {
                self.saved.take(now, ring).map(RingAction::SaveRing)
            }
            Farewell::Signal | Farewell::WithoutNotice => None,
        };
        let leave = match how {
            Farewell::Depart | Farewell::Signal => Effect::Post(Input::Leave),
            Farewell::WithAll | Farewell::WithoutNotice => Effect::End,
        };
        record.map(Effect::Perform).into_iter().chain([leave]).collect()
    }
}
