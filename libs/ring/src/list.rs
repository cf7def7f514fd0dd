//! The full list of members: records by name, the live ones in order of their seats, and a digest.
//!
//! The list decides nothing. `spread` and `owner` decide which records are merged. With thousands of
//! members, nothing that happens at the pace of the pulse may go through the whole list. `index`
//! therefore has the live and the dead members by seat, and the live ones by instance.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::{self, ByInstance, ByName, BySeat};
use mpd_wire::{DaemonName, Instance, Record, Seat, Standing};

/// Records of all members that were ever received and not yet forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    records: BTreeSet<ByName>,
    /// The live members.
    circle: BTreeSet<BySeat>,
    instances: BTreeSet<ByInstance>,
    /// The dead members.
    dead: BTreeSet<BySeat>,
    /// Names of members that will soon be forgotten. Their records are no longer sent.
    faded: BTreeSet<DaemonName>,
    digest: u64,
}

impl List {
    pub(crate) fn get(&self, name: &DaemonName) -> Option<&Arc<Record>> {
        self.records.get(name).map(|entry| &entry.0)
    }

    /// The record of `name` if it is live.
    pub(crate) fn live(&self, name: &DaemonName) -> Option<&Arc<Record>> {
        self.get(name).filter(|record| record.standing == Standing::Live)
    }

    /// The live record of this instance.
    pub(crate) fn instance(&self, instance: Instance) -> Option<&Record> {
        index::of_instance(&self.instances, instance)
    }

    /// Puts the record in the place of its predecessor.
    pub(crate) fn put(&mut self, record: Arc<Record>) {
        self.remove(&record.name);
        self.digest = self.digest.wrapping_add(weight(&record));
        match record.standing {
            Standing::Live => {
                self.circle.insert(BySeat(Arc::clone(&record)));
                self.instances.insert(ByInstance(Arc::clone(&record)));
            }
            Standing::Dead => {
                self.dead.insert(BySeat(Arc::clone(&record)));
            }
            Standing::Departed => {}
        }
        self.records.insert(ByName(record));
    }

    pub(crate) fn remove(&mut self, name: &DaemonName) {
        let Some(ByName(old)) = self.records.take(name) else { return };
        if !self.faded.remove(name) {
            self.digest = self.digest.wrapping_sub(weight(&old));
        }
        match old.standing {
            Standing::Live => {
                self.circle.remove(&BySeat(Arc::clone(&old)));
                self.instances.remove(&ByInstance(old));
            }
            Standing::Dead => {
                self.dead.remove(&BySeat(old));
            }
            Standing::Departed => {}
        }
    }

    /// Takes a record out of the digest and out of [`List::reported`].
    pub(crate) fn fade(&mut self, name: &DaemonName) {
        let Some(record) = self.get(name) else { return };
        let weight = weight(record);
        if self.faded.insert(name.clone()) {
            self.digest = self.digest.wrapping_sub(weight);
        }
    }

    /// The records that are sent to others.
    pub(crate) fn reported(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.iter().filter(|record| !self.faded.contains(&record.name))
    }

    /// A digest of the list without departed members: each daemon forgets those by its own clock.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.records.iter().map(|entry| &entry.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number of live members.
    pub(crate) fn live_count(&self) -> usize {
        self.circle.len()
    }

    /// The live members after `from`, once round, without that at `from` itself.
    pub(crate) fn round<'a>(
        &'a self,
        from: &Seat,
    ) -> impl Iterator<Item = &'a Arc<Record>> + use<'a> {
        index::round(&self.circle, from)
    }

    /// The next live member after `from`; `None` if no other member is live.
    pub(crate) fn after(&self, from: &Seat) -> Option<&Arc<Record>> {
        self.round(from).next()
    }

    /// The last live member before `from`; `None` if no other member is live.
    pub(crate) fn before(&self, from: &Seat) -> Option<&Arc<Record>> {
        index::round(&self.circle, from).next_back()
    }

    /// The live members strictly between two seats.
    pub(crate) fn between<'a>(
        &'a self,
        from: &'a Seat,
        to: &'a Seat,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        self.round(from).take_while(move |record| record.is_between(from, to))
    }

    /// The dead members strictly between two seats.
    pub(crate) fn dead_between<'a>(
        &'a self,
        from: &'a Seat,
        to: &'a Seat,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        let dead = index::round(&self.dead, from);
        dead.take_while(move |record| record.is_between(from, to))
    }

    /// The highest position and ordinal known.
    pub(crate) fn highest(&self) -> Option<(u64, u64)> {
        let position = self.iter().map(|record| record.position).max()?;
        let ordinal = self.iter().map(|record| record.ordinal).max()?;
        Some((position, ordinal))
    }

    /// The same list in as little memory as possible.
    pub(crate) fn packed(self) -> Self {
        let packed = |index: BTreeSet<BySeat>| index.into_iter().collect();
        Self {
            records: self.records.into_iter().collect(),
            circle: packed(self.circle),
            instances: self.instances.into_iter().collect(),
            dead: packed(self.dead),
            ..self
        }
    }

    /// Whether the derived fields agree with the records.
    pub(crate) fn is_consistent(&self) -> bool {
        let of = |standing| {
            let seats = self.iter().filter(move |record| record.standing == standing);
            seats.map(|record| record.seat()).collect::<BTreeSet<Seat>>()
        };
        let seats = |index: &BTreeSet<BySeat>| index.iter().map(|entry| entry.0.seat()).collect();
        let digest = self.reported().map(|record| weight(record)).fold(0, u64::wrapping_add);
        let circle: BTreeSet<Seat> = seats(&self.circle);
        digest == self.digest
            && of(Standing::Live) == circle
            && of(Standing::Dead) == seats(&self.dead)
            && self.instances.iter().map(|entry| entry.0.seat()).collect::<BTreeSet<_>>() == circle
    }
}

fn weight(record: &Record) -> u64 {
    match record.standing {
        Standing::Live | Standing::Dead => record.digest(),
        Standing::Departed => 0,
    }
}
