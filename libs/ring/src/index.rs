//! Indexes of records. They share the records, so an index costs a pointer for each member.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use mpd_wire::{DaemonName, Instance, Record, Seat};

/// A key of an index: a number, then a name. Without a name, it lies before all names.
pub(crate) trait Key {
    fn key(&self) -> (u128, Option<&DaemonName>);
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for dyn Key + '_ {}

impl PartialOrd for dyn Key + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Key + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Key for Seat {
    fn key(&self) -> (u128, Option<&DaemonName>) {
        (self.position.into(), Some(&self.name))
    }
}

/// All keys with this number follow it.
struct From(u128);

impl Key for From {
    fn key(&self) -> (u128, Option<&DaemonName>) {
        (self.0, None)
    }
}

const fn number(instance: Instance) -> u128 {
    u128::from_be_bytes(instance.to_bytes())
}

/// A record in an index. The key decides the order.
macro_rules! entry {
    ($name:ident, $number:expr, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub(crate) Arc<Record>);

        impl Key for $name {
            fn key(&self) -> (u128, Option<&DaemonName>) {
                (($number)(&self.0), Some(&self.0.name))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.key() == other.key()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.key().cmp(&other.key())
            }
        }

        impl<'a> Borrow<dyn Key + 'a> for $name {
            fn borrow(&self) -> &(dyn Key + 'a) {
                self
            }
        }
    };
}

entry!(BySeat, |record: &Record| u128::from(record.position), "A record in the order of seats.");
entry!(
    ByInstance,
    |record: &Record| number(record.instance),
    "A record in the order of instances."
);

/// A record in the order of names.
#[derive(Clone, Debug)]
pub(crate) struct ByName(pub(crate) Arc<Record>);

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl Borrow<DaemonName> for ByName {
    fn borrow(&self) -> &DaemonName {
        &self.0.name
    }
}

/// The first record of this instance.
pub(crate) fn of_instance(index: &BTreeSet<ByInstance>, instance: Instance) -> Option<&Record> {
    let from = From(number(instance));
    let first = index.range::<dyn Key, _>((Bound::Included(&from as &dyn Key), Bound::Unbounded));
    first.map(|entry| &*entry.0).next().filter(|record| record.instance == instance)
}

/// The records after `from`, once round, without the record at `from` itself.
pub(crate) fn round<'a>(
    index: &'a BTreeSet<BySeat>,
    from: &Seat,
) -> impl DoubleEndedIterator<Item = &'a Arc<Record>> + use<'a> {
    let from: &dyn Key = from;
    let behind = index.range::<dyn Key, _>((Bound::Excluded(from), Bound::Unbounded));
    let ahead = index.range::<dyn Key, _>((Bound::Unbounded, Bound::Excluded(from)));
    behind.chain(ahead).map(|entry| &entry.0)
}
