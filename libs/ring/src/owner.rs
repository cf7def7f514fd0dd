//! A daemon's own record: its first place, its refutations (R2), its moves (R6). No other daemon
//! raises its incarnation.

use std::sync::Arc;
use std::time::Duration;

use crate::config::GAP;
use crate::{Event, Output, Phase, Ring};
use mpd_sansio::Time;
use mpd_wire::{Address, DaemonName, MAX_ADDRESSES, Record, Standing};

/// The number of accusations within the memory that make a daemon move.
const ACCUSATIONS_TO_MOVE: usize = 2;
/// Most accusations that are remembered.
const MAX_ACCUSATIONS: usize = 64;

#[derive(Debug)]
pub(crate) struct Owner {
    /// The daemon chose its place itself; the place of a former instance is preferred.
    pub(crate) inherits: bool,
    accusations: Vec<(Time, DaemonName)>,
    /// The daemon gets new processes only where a command names it. Its next instance starts
    /// without this.
    draining: bool,
    /// The last time at which a former instance was overruled.
    overruled: Option<Time>,
}

impl Owner {
    pub(crate) const fn new(inherits: bool) -> Self {
        Self { inherits, accusations: Vec::new(), draining: false, overruled: None }
    }

    pub(crate) fn accusations(&self) -> usize {
        self.accusations.len()
    }

    /// Notes an accusation; true if the daemon has to move.
    fn accused(&mut self, now: Time, by: Option<&DaemonName>, memory: Duration) -> bool {
        self.accusations.retain(|(at, _)| now - *at < memory);
        if let Some(by) = by.filter(|_| self.accusations.len() < MAX_ACCUSATIONS) {
            self.accusations.push((now, by.clone()));
        }
        self.accusations.len() >= ACCUSATIONS_TO_MOVE
    }

    fn is_accuser(&self, name: &DaemonName) -> bool {
        self.accusations.iter().any(|(_, by)| by == name)
    }
}

impl Ring {
    /// Takes the place from the host file, or the place of the first member. `began` is the time at which this daemon began.
    pub(super) fn take_first_place(&mut self, began: Time) {
        let ordinal = self.config.ordinal.unwrap_or(0);
        // Rings of one that meet later must not all have one position: there would be no gaps (R6).
        let aside = self.config.ordinal.map_or_else(|| self.random.bits() >> 16, |_| 0);
        self.place(began, 1, ordinal.saturating_mul(GAP).saturating_add(aside), ordinal);
    }

    /// Takes the place from the host file. A lone newcomer goes behind all others.
    pub(super) fn take_place(&mut self, now: Time) {
        let began = match self.phase {
            Phase::Waiting(entrance) | Phase::Entering(entrance) => entrance.began,
            Phase::Member | Phase::Over => now,
        };
        if self.config.ordinal.is_some() {
            return self.take_first_place(began);
        }
        let Some((position, ordinal)) = self.list.highest() else {
            return self.take_first_place(began);
        };
        // Two simultaneous newcomers take different positions, with room between them.
        let aside = self.random.bits() % GAP;
        let position = position.saturating_add(GAP).saturating_add(aside);
        self.place(now, 1, position, ordinal.saturating_add(1));
    }

    pub(super) fn place(&mut self, now: Time, incarnation: u64, position: u64, ordinal: u64) {
        let record = Record {
            name: self.config.name.clone(),
            incarnation,
            standing: Standing::Live,
            instance: self.config.instance,
            position,
            ordinal,
            ncpus: self.config.ncpus,
            draining: self.owner.draining,
            addresses: self.config.addresses.clone(),
            by: None,
            age_s: 0,
        };
        self.put(now, Arc::new(record), None);
    }

    /// Handles what others say about this daemon; true if their record is older than its own.
    pub(super) fn received_of_me(&mut self, now: Time, reported: &Record) -> bool {
        let own = self.list.get(&self.config.name).cloned();
        let another = reported.instance != self.config.instance;
        let Some(own) = own else {
            self.owner.inherits = true;
            if !(another && self.look_for_double(now, reported)) {
                self.overrule(now, reported, None);
            }
            return false;
        };
        let unlike = reported.standing != Standing::Live || another;
        if reported.incarnation < own.incarnation
            || (reported.incarnation == own.incarnation && !unlike)
        {
            return reported.incarnation < own.incarnation;
        }
        if another {
            if own.incarnation > 1 && reported.standing == Standing::Live {
                self.look_for_double(now, reported);
            }
            if self.owner.overruled.is_some_and(|at| now - at < self.config.timing.pulse) {
                // Against a living double this would never end: once per pulse is enough.
                return false;
            }
        }
        self.overrule(now, reported, Some(&own));
        false
    }

    /// R2, which also handles the return of a daemon under the same name.
    fn overrule(&mut self, now: Time, reported: &Record, own: Option<&Record>) {
        if !self.config.rules.refute {
            if own.is_none() {
                self.place(now, reported.incarnation, reported.position, reported.ordinal);
            }
            return;
        }
        let another = reported.instance != self.config.instance;
        let inherits = another && std::mem::replace(&mut self.owner.inherits, false);
        let from = own.filter(|_| !inherits).unwrap_or(reported);
        let (mut position, ordinal) = (from.position, from.ordinal);
        if another {
            self.owner.overruled = Some(now);
        }
        let memory = self.config.timing.accusers;
        let accused = reported.standing == Standing::Dead && !another;
        if accused
            && self.owner.accused(now, reported.by.as_ref(), memory)
            && self.config.rules.reseat
            && let Some(better) = self.better_position()
        {
            position = better;
            self.event(Event::Reseated);
        }
        let by = reported.by.clone().filter(|_| accused);
        self.event(Event::Refuted { by });
        self.place(now, reported.incarnation + 1, position, ordinal);
    }

    /// R6: the middle of a random gap that has no accuser at its ends; a random position if there
    /// is none.
    fn better_position(&mut self) -> Option<u64> {
        let seat = self.seat()?;
        let others: Vec<&Arc<Record>> = self.list.round(&seat).collect();
        let mut gaps = Vec::new();
        for (i, from) in others.iter().enumerate() {
            let to = others[(i + 1) % others.len()];
            let accuser = self.owner.is_accuser(&from.name) || self.owner.is_accuser(&to.name);
            let middle = if from.seat() < to.seat() {
                from.position + (to.position - from.position) / 2
            } else {
                // Behind the last member.
                from.position.saturating_add(GAP)
            };
            if !accuser && middle > from.position {
                gaps.push(middle);
            }
        }
        let end = self.list.highest().map_or(0, |(position, _)| position).saturating_add(GAP);
        let anywhere = self.random.bits() % end;
        let chosen = self.random.below(gaps.len());
        Some(gaps.get(chosen).copied().unwrap_or(anywhere))
    }

    /// The addresses under which others reach this daemon have changed.
    pub(super) fn readdress(&mut self, now: Time, mut addresses: Vec<Address>) {
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() || addresses == self.config.addresses {
            return;
        }
        self.config.addresses = addresses;
        self.renew(now);
    }

    /// Sets whether this daemon gets new processes only where a command names it.
    pub(super) fn drain(&mut self, now: Time, draining: bool) {
        if std::mem::replace(&mut self.owner.draining, draining) != draining {
            self.renew(now);
        }
    }

    /// Sends a new record if this daemon has changed since it was described to the boot.
    pub(super) fn correct(&mut self, now: Time) {
        let changed = self.list.get(&self.config.name).is_some_and(|own| {
            own.addresses != self.config.addresses || own.draining != self.owner.draining
        });
        if changed {
            self.renew(now);
        }
    }

    /// Sends a new record of this daemon to all members. Without a place, its first record will
    /// contain the change.
    fn renew(&mut self, now: Time) {
        if let Some(own) = self.list.get(&self.config.name) {
            let (incarnation, position, ordinal) = (own.incarnation, own.position, own.ordinal);
            self.place(now, incarnation + 1, position, ordinal);
        }
    }

    /// Leaves the ring, without return.
    pub(super) fn end(&mut self, now: Time) {
        self.report_news();
        self.phase = Phase::Over;
        self.abandon(|_| true);
        for id in self.links.which(|_| true) {
            self.close(now, id);
        }
        self.give_up_requests();
        self.names = super::names::Names::default();
        self.timers = mpd_sansio::Timers::default();
        self.reknit = super::candidates::Reknit::new(now);
        self.outputs.push_back(Output::Over);
    }
}
