//! The full list of members: records by name, the live ones in order of their seats, and a digest.
//!
//! The list decides nothing. `spread` and `owner` decide which records are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use mpd_wire::{DaemonName, Record, Seat, Standing};

/// Records of all members that were ever received and not yet forgotten.
#[derive(Debug, Default)]
pub(crate) struct List {
    records: BTreeMap<DaemonName, Record>,
    /// Seats of the live members.
    circle: BTreeSet<Seat>,
    /// Names of members that will soon be forgotten. Their records are no longer sent.
    faded: BTreeSet<DaemonName>,
    digest: u64,
}

impl List {
    pub(crate) fn get(&self, name: &DaemonName) -> Option<&Record> {
        self.records.get(name)
    }

    /// The record of `name` if it is live.
    pub(crate) fn live(&self, name: &DaemonName) -> Option<&Record> {
        self.get(name).filter(|record| record.standing == Standing::Live)
    }

    /// Puts the record in the place of its predecessor.
    pub(crate) fn put(&mut self, record: Record) {
        self.remove(&record.name.clone());
        self.digest = self.digest.wrapping_add(weight(&record));
        if record.standing == Standing::Live {
            self.circle.insert(record.seat());
        }
        self.records.insert(record.name.clone(), record);
    }

    pub(crate) fn remove(&mut self, name: &DaemonName) {
        if let Some(old) = self.records.remove(name) {
            if !self.faded.remove(name) {
                self.digest = self.digest.wrapping_sub(weight(&old));
            }
            self.circle.remove(&old.seat());
        }
    }

    /// Takes a record out of the digest and out of [`List::reported`].
    pub(crate) fn fade(&mut self, name: &DaemonName) {
        let Some(record) = self.records.get(name) else { return };
        if self.faded.insert(name.clone()) {
            self.digest = self.digest.wrapping_sub(weight(record));
        }
    }

    /// The records that are sent to others.
    pub(crate) fn reported(&self) -> impl Iterator<Item = &Record> {
        self.iter().filter(|record| !self.faded.contains(&record.name))
    }

    /// A digest of the list without departed members: each daemon forgets those by its own clock.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number of live members.
    pub(crate) fn live_count(&self) -> usize {
        self.circle.len()
    }

    /// The live seats after `from`, once round, without `from` itself.
    pub(crate) fn round<'a>(&'a self, from: &Seat) -> impl Iterator<Item = &'a Seat> + use<'a> {
        let behind = self.circle.range((Bound::Excluded(from), Bound::Unbounded));
        behind.chain(self.circle.range(..from))
    }

    /// The next live seat after `from`; `None` if no other member is live.
    pub(crate) fn after(&self, from: &Seat) -> Option<&Seat> {
        self.round(from).next()
    }

    /// The last live seat before `from`; `None` if no other member is live.
    pub(crate) fn before(&self, from: &Seat) -> Option<&Seat> {
        let ahead = self.circle.range(..from).next_back();
        ahead.or_else(|| self.circle.range((Bound::Excluded(from), Bound::Unbounded)).next_back())
    }

    /// The live seats strictly between two seats.
    pub(crate) fn between<'a>(
        &'a self,
        from: &'a Seat,
        to: &'a Seat,
    ) -> impl Iterator<Item = &'a Seat> {
        self.round(from).take_while(move |seat| seat.is_between(from, to))
    }

    /// The highest position and ordinal known.
    pub(crate) fn highest(&self) -> Option<(u64, u64)> {
        let position = self.iter().map(|record| record.position).max()?;
        let ordinal = self.iter().map(|record| record.ordinal).max()?;
        Some((position, ordinal))
    }

    /// Whether the derived fields agree with the records.
    pub(crate) fn is_consistent(&self) -> bool {
        let digest = self.reported().map(weight).fold(0, u64::wrapping_add);
        let live = self.iter().filter(|record| record.standing == Standing::Live);
        let circle: BTreeSet<Seat> = live.map(Record::seat).collect();
        digest == self.digest && circle == self.circle
    }
}

fn weight(record: &Record) -> u64 {
    match record.standing {
        Standing::Live | Standing::Dead => record.digest(),
        Standing::Departed => 0,
    }
}
