//! The holds of one host: the allocation of each slot. This table is authoritative.
//!
//! A dispenser reserves slots for a short time. The requester that gets the offer confirms them, and repeats this
//! as long as it wants them. Slots that are not confirmed again become free.

use std::collections::BTreeMap;

use crate::data::{AllocId, AllocMessage, Epoch, HostState, MAX_ENDS, Stamp};
use mpd_sansio::Time;
use mpd_wire::DaemonName;

use crate::saved::{MAX_HOLDS, SavedHold};
use crate::shared::Shared;

/// Most released allocations that are remembered.
const MAX_RELEASED: usize = 16_384;

#[derive(Clone, Debug)]
struct Hold {
    slots: u32,
    /// The latest order to hold them.
    stamp: Stamp,
    /// The time at which they become free.
    until: Time,
    /// When the allocation ends.
    ends: Option<Time>,
}

#[derive(Clone, Debug)]
struct Reservation {
    slots: u32,
    until: Time,
}

/// The holds of this host.
#[derive(Debug)]
pub(crate) struct Host {
    slots: u32,
    arch: String,
    /// Whether slots may be given away: the records are read, and all jobs of an earlier daemon are known.
    ready: bool,
    holds: BTreeMap<AllocId, Hold>,
    reserved: BTreeMap<AllocId, Reservation>,
    /// The last order to release, and when it can be forgotten. An order to hold that was sent before is late.
    released: BTreeMap<AllocId, (Stamp, Time)>,
    /// The newest term of a dispenser.
    epoch: Option<Epoch>,
    /// The dispenser that gets reports, and the last report.
    told: Option<(DaemonName, HostState)>,
}

impl Host {
    /// The holds of an earlier daemon are held again for the whole time.
    pub(crate) fn new(
        now: Time,
        arch: String,
        epoch: Option<Epoch>,
        saved: Vec<SavedHold>,
        shared: &Shared,
    ) -> Self {
        let hold = |saved: SavedHold| {
            let until = now + shared.timing.hold;
            let ends = saved.ends_us.map(|ends| shared.time_of(ends));
            (saved.id, Hold { slots: saved.slots, stamp: saved.stamp, until, ends })
        };
        Self {
            slots: 0,
            arch,
            ready: false,
            holds: saved.into_iter().take(MAX_HOLDS).map(hold).collect(),
            reserved: BTreeMap::new(),
            released: BTreeMap::new(),
            epoch,
            told: None,
        }
    }

    /// The holds for the record on disk.
    pub(crate) fn saved(&self, shared: &Shared) -> Vec<SavedHold> {
        let saved = |(id, hold): (&AllocId, &Hold)| SavedHold {
            id: id.clone(),
            slots: hold.slots,
            stamp: hold.stamp,
            ends_us: hold.ends.map(|ends| shared.wall(ends)),
        };
        self.holds.iter().map(saved).collect()
    }

    pub(crate) const fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    pub(crate) const fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    pub(crate) const fn set_ready(&mut self) {
        self.ready = true;
    }

    /// The allocations that hold slots here, with their slots.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (&AllocId, u32)> {
        self.holds.iter().map(|(id, hold)| (id, hold.slots))
    }

    /// Slots that are held or reserved.
    pub(crate) fn used(&self) -> u32 {
        let held = self.holds.values().map(|hold| hold.slots);
        let reserved = self.reserved.values().map(|reservation| reservation.slots);
        held.chain(reserved).fold(0, u32::saturating_add)
    }

    pub(crate) const fn slots(&self) -> u32 {
        self.slots
    }

    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.used())
    }

    fn has_room(&self) -> bool {
        self.holds.len() + self.reserved.len() < MAX_HOLDS
    }

    fn state(&self, now: Time) -> HostState {
        let ends = self.holds.values().filter_map(|hold| {
            let left = hold.ends?.since(now).as_millis();
            Some((u64::try_from(left).unwrap_or(u64::MAX), hold.slots))
        });
        let mut ends: Vec<(u64, u32)> = ends.collect();
        ends.sort_unstable();
        ends.truncate(MAX_ENDS);
        HostState { slots: self.slots, free: self.free(), arch: self.arch.clone(), ends }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.reserved.is_empty() && self.released.is_empty()
    }

    /// Handles a message of a dispenser or of a requester.
    pub(crate) fn received(
        &mut self,
        now: Time,
        from: &DaemonName,
        message: AllocMessage,
        shared: &mut Shared,
    ) {
        match message {
            AllocMessage::Hello { epoch }
            | AllocMessage::Reserve { epoch, .. }
            | AllocMessage::Unreserve { epoch, .. }
                if !self.accepts(from, epoch, shared) => {}
            AllocMessage::Hello { .. } | AllocMessage::Reserve { .. } if !self.ready => {}
            AllocMessage::Hello { epoch } => {
                self.report(now, from.clone(), epoch.number, shared);
            }
            AllocMessage::Reserve { epoch, id, slots } => {
                let done = self.reserve(now, &id, slots, shared);
                let host = self.state(now);
                self.told = Some((from.clone(), host.clone()));
                let number = epoch.number;
                shared.send(from, AllocMessage::Reserved { number, id, done, host });
            }
            AllocMessage::Unreserve { id, .. } => {
                self.reserved.remove(&id);
            }
            AllocMessage::Confirm { id, slots, stamp, left_ms } => {
                let ends = left_ms.map(|left| now + std::time::Duration::from_millis(left));
                if let Some(held) = self.confirm(now, &id, slots, stamp, ends, shared) {
                    shared.send(
                        from,
                        match held {
                            true => AllocMessage::Held { id, stamp },
                            false => AllocMessage::NotHeld { id, stamp },
                        },
                    );
                }
            }
            AllocMessage::Release { id, stamp } => {
                self.release(now, &id, stamp, shared);
                shared.send(from, AllocMessage::Released { id, stamp });
            }
            // For the dispenser or for a requester.
            AllocMessage::Submit { .. }
            | AllocMessage::Cancel { .. }
            | AllocMessage::Taken { .. }
            | AllocMessage::Queued { .. }
            | AllocMessage::Offer { .. }
            | AllocMessage::Wanted { .. }
            | AllocMessage::State { .. }
            | AllocMessage::Reserved { .. }
            | AllocMessage::Stale { .. }
            | AllocMessage::Held { .. }
            | AllocMessage::NotHeld { .. }
            | AllocMessage::Released { .. } => {}
        }
        self.report_change(now, shared);
    }

    /// Whether a dispenser's term is not older than the newest known one. Reservations of other terms end.
    fn accepts(&mut self, from: &DaemonName, epoch: Epoch, shared: &mut Shared) -> bool {
        if let Some(known) = self.epoch {
            let is_other = known.instance != epoch.instance || known.number != epoch.number;
            let is_older = epoch.number < known.number
                || (epoch.number == known.number && is_other && epoch.ordinal >= known.ordinal);
            if is_older {
                shared.send(from, AllocMessage::Stale { epoch: known });
                return false;
            }
            if !is_other {
                return true;
            }
        }
        self.reserved.clear();
        self.epoch = Some(epoch);
        self.told = None;
        shared.is_changed = true;
        true
    }

    fn reserve(&mut self, now: Time, id: &AllocId, slots: u32, shared: &Shared) -> bool {
        if self.holds.contains_key(id) {
            return false;
        }
        let own = self.reserved.get(id).map_or(0, |reservation| reservation.slots);
        let fits = slots <= self.free().saturating_add(own) && (own > 0 || self.has_room());
        if fits {
            let until = now + shared.timing.reservation;
            self.reserved.insert(id.clone(), Reservation { slots, until });
        }
        fits
    }

    /// Holds the slots, or continues to hold them. `None`: the order is late, or must come again.
    fn confirm(
        &mut self,
        now: Time,
        id: &AllocId,
        slots: u32,
        stamp: Stamp,
        ends: Option<Time>,
        shared: &mut Shared,
    ) -> Option<bool> {
        if self.released.get(id).is_some_and(|(released, _)| stamp <= *released) {
            return Some(false);
        }
        let until = now + shared.timing.hold;
        let held = self.holds.get(id).map(|hold| hold.slots);
        if self.holds.get(id).is_some_and(|hold| stamp < hold.stamp) {
            return None;
        }
        let reserved = self.reserved.get(id).map(|reservation| reservation.slots);
        if held.is_none() && !self.ready {
            return None;
        }
        let own = held.unwrap_or(0).saturating_add(reserved.unwrap_or(0));
        let is_known = held.is_some() || reserved.is_some();
        // A host with fewer slots than before keeps what it holds.
        if held != Some(slots)
            && (slots > self.free().saturating_add(own) || !(is_known || self.has_room()))
        {
            return Some(false);
        }
        shared.is_changed |= held != Some(slots);
        self.reserved.remove(id);
        self.holds.insert(id.clone(), Hold { slots, stamp, until, ends });
        Some(true)
    }

    fn release(&mut self, now: Time, id: &AllocId, stamp: Stamp, shared: &mut Shared) {
        if self.holds.get(id).is_some_and(|hold| stamp >= hold.stamp) {
            self.holds.remove(id);
            shared.is_changed = true;
        }
        if self.released.len() >= MAX_RELEASED {
            self.released.pop_first();
        }
        let forget = now + shared.timing.hold;
        let known = self.released.get(id).map_or(stamp, |(known, _)| stamp.max(*known));
        self.released.insert(id.clone(), (known, forget));
    }

    fn report(&mut self, now: Time, to: DaemonName, number: u64, shared: &mut Shared) {
        let host = self.state(now);
        self.told = Some((to.clone(), host.clone()));
        shared.send(&to, AllocMessage::State { number, host });
    }

    /// Tells the dispenser if slots were taken or are free again.
    pub(crate) fn report_change(&mut self, now: Time, shared: &mut Shared) {
        let (Some((to, told)), Some(epoch)) = (&self.told, self.epoch) else { return };
        if (told.slots, told.free) != (self.slots, self.free()) {
            self.report(now, to.clone(), epoch.number, shared);
        }
    }

    /// Ends reservations and holds whose time is over.
    pub(crate) fn tick(&mut self, now: Time, shared: &mut Shared) {
        let held = self.holds.len();
        self.holds.retain(|_, hold| hold.until > now);
        shared.is_changed |= held != self.holds.len();
        self.reserved.retain(|_, reservation| reservation.until > now);
        self.released.retain(|_, (_, forget)| *forget > now);
        self.report_change(now, shared);
    }
}
