//! Published names: the names that each daemon has published for its jobs, and the owner of each
//! name.
//!
//! All names of one daemon are on one [`NameRecord`]. Only its owner changes the name record, and increases
//! its version each time. A name that is taken back is absent from the next version, so no record
//! of its end is needed. A name record belongs to one instance of its owner. It counts while that
//! instance is a live member. It is kept while that instance is dead, since the instance may refute
//! its death. It is dropped when the owner departs, is forgotten, or has another instance.
//!
//! Two owners may claim one name, each in a half of the ring. The lowest job id has the name
//! everywhere, and the other owner takes its claim back. `publish` describes how name records travel and
//! how a claim is made.

use std::collections::BTreeMap;

use crate::links::LinkId;
use crate::list::List;
use mpd_wire::names::{Claim, NameRecord};
use mpd_wire::{DaemonName, Standing};

/// Most bytes of all name records that a daemon keeps.
pub const MAX_NAME_RECORDS: usize = 16 * 1024 * 1024;

/// A name record and derived values that are often needed.
#[derive(Debug)]
struct StoredRecord {
    name_record: NameRecord,
    bytes: usize,
    digest: u64,
    /// Whether it counts, that is, whether its owner is live in this instance.
    counts: bool,
}

/// The name records of all members.
#[derive(Debug, Default)]
pub(crate) struct Names {
    name_records: BTreeMap<DaemonName, StoredRecord>,
    bytes: usize,
    /// A digest of the name records that count.
    digest: u64,
    /// Owners of name records that others must receive, with the link by which each name record came.
    pub(crate) untold: BTreeMap<DaemonName, Option<LinkId>>,
    /// Whether a name record or a member has changed since the own claims were compared with those of
    /// others.
    pub(crate) unreviewed: bool,
}

impl Names {
    pub(crate) fn get(&self, owner: &DaemonName) -> Option<&NameRecord> {
        self.name_records.get(owner).map(|held| &held.name_record)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NameRecord> {
        self.name_records.values().map(|held| &held.name_record)
    }

    /// Whether this name record fits in the place of its predecessor.
    pub(crate) fn has_room(&self, name_record: &NameRecord) -> bool {
        let old = self.name_records.get(&name_record.owner).map_or(0, |held| held.bytes);
        self.bytes - old + name_record.bytes() <= MAX_NAME_RECORDS
    }

    /// Puts a name record in the place of its predecessor. [`Names::count`] must follow.
    pub(crate) fn put(&mut self, name_record: NameRecord, from: Option<LinkId>) {
        self.drop_name_record(&name_record.owner);
        let (bytes, digest) = (name_record.bytes(), name_record.digest());
        self.bytes += bytes;
        self.untold.insert(name_record.owner.clone(), from);
        self.unreviewed = true;
        self.name_records.insert(
            name_record.owner.clone(),
            StoredRecord { name_record, bytes, digest, counts: false },
        );
    }

    /// Notes whether the name record of this owner counts.
    pub(crate) fn count(&mut self, owner: &DaemonName, list: &List) {
        let Some(held) = self.name_records.get_mut(owner) else { return };
        let instance = held.name_record.instance;
        let counts = list.live(owner).is_some_and(|record| record.instance == instance);
        if std::mem::replace(&mut held.counts, counts) != counts {
            let change = if counts { held.digest } else { held.digest.wrapping_neg() };
            self.digest = self.digest.wrapping_add(change);
        }
    }

    pub(crate) fn drop_name_record(&mut self, owner: &DaemonName) {
        if let Some(old) = self.name_records.remove(owner) {
            self.bytes -= old.bytes;
            if old.counts {
                self.digest = self.digest.wrapping_sub(old.digest);
            }
            self.unreviewed = true;
        }
    }

    /// The name records that count.
    fn live(&self) -> impl Iterator<Item = &StoredRecord> {
        self.name_records.values().filter(|held| held.counts)
    }

    /// A digest of the name records that count.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// The owner of this name, and its claim.
    pub(crate) fn winner(&self, name: &str) -> Option<(&DaemonName, &Claim)> {
        let name_records = self.live().map(|held| &held.name_record);
        let claims =
            name_records.filter_map(|name_record| Some((name_record, name_record.claim(name)?)));
        let first = claims.min_by_key(|(name_record, claim)| (&claim.job, name_record.instance));
        first.map(|(name_record, claim)| (&name_record.owner, claim))
    }

    /// Every name and its owner, in order.
    pub(crate) fn all(&self) -> Vec<(&DaemonName, &Claim)> {
        let mut best: BTreeMap<&str, (&NameRecord, &Claim)> = BTreeMap::new();
        for name_record in self.live().map(|held| &held.name_record) {
            for claim in &name_record.claims {
                let rank = |(name_record, claim): &(&NameRecord, &Claim)| {
                    (claim.job.clone(), name_record.instance)
                };
                let known = best.get(claim.name.as_str());
                if known.is_none_or(|known| rank(&(name_record, claim)) < rank(known)) {
                    best.insert(&claim.name, (name_record, claim));
                }
            }
        }
        best.into_values().map(|(name_record, claim)| (&name_record.owner, claim)).collect()
    }

    /// Whether the sizes are right and every name record belongs to a member that may still have it.
    pub(crate) fn is_consistent(&self, list: &List) -> bool {
        let held = self.name_records.values().map(|held| held.bytes).sum::<usize>();
        let counting = |held: &&StoredRecord| {
            let record = list.live(&held.name_record.owner);
            record.is_some_and(|record| record.instance == held.name_record.instance)
        };
        let digest = self.name_records.values().filter(counting);
        let digest = digest.fold(0_u64, |sum, held| sum.wrapping_add(held.digest));
        held == self.bytes
            && digest == self.digest
            && self.bytes <= MAX_NAME_RECORDS
            && self.iter().all(|name_record| {
                list.get(&name_record.owner).is_some_and(|record| {
                    record.instance == name_record.instance && record.standing != Standing::Departed
                })
            })
    }
}
