//! Published names: what each daemon has published for the jobs it serves, and who has which name.
//!
//! All names of one daemon stand on one [`Sheet`], which its owner alone changes, counting its versions
//! up; so a name that is taken back is simply not on the next version, and nobody keeps a record of
//! its end. A sheet belongs to one life of its owner. It counts while that life is a live member; it is
//! kept while that life is dead, since it may refute that; it is dropped when the owner departs, is
//! forgotten, or lives on in another instance.
//!
//! Two owners may claim one name, each in a half of the ring: the lowest job id has it everywhere, the
//! other owner takes its claim back. How sheets travel and how a claim is made stands in `publish`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::ring::links::LinkId;
use crate::ring::list::List;
use crate::ring::lock::{Lock, NameKey};
use crate::ring::member::{DaemonName, Fnv, Instance, Standing};

/// Most bytes in a published name.
pub const MAX_NAME: usize = 256;
/// Most bytes in what a name stands for: a port with its zero fits the `MPI_MAX_PORT_NAME` of MPI programs.
pub const MAX_VALUE: usize = 255;
/// Most names that one daemon publishes.
pub const MAX_CLAIMS: usize = 512;
/// Most names that one job publishes through a daemon: others are to have room beside it.
pub const MAX_CLAIMS_OF_JOB: usize = 128;
/// Most bytes of these, counted as on a sheet.
const MAX_BYTES_OF_JOB: usize = MAX_SHEET / 2;
/// Most bytes on one sheet, its words counted: JSON makes up to six of one, and a frame holds them.
pub const MAX_SHEET: usize = 96 * 1024;
/// Most bytes on all sheets that a daemon keeps.
pub const MAX_SHEETS: usize = 16 * 1024 * 1024;

/// What a job hears that has its share.
pub const TOO_MANY_OF_JOB: &str = "the job has its share of names here already, 128 or 48 KiB";

/// A name that a job has published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name, 1 to [`MAX_NAME`] bytes.
    pub name: String,
    /// What it stands for, at most [`MAX_VALUE`] bytes.
    pub value: String,
    /// The job it vanishes with.
    pub job: JobId,
    /// What the key of whoever asks is tried on; without one it is found without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
}

impl Claim {
    /// What is wrong with it, if anything.
    pub const fn problem(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            Some("the name is empty")
        } else if self.name.len() > MAX_NAME {
            Some("the name is too long")
        } else if self.value.len() > MAX_VALUE {
            Some("the value is too long")
        } else {
            None
        }
    }

    /// Whether who asks with that key, or without any, finds it. Who has a key finds nothing that
    /// was published without one: anybody could have published that.
    pub fn opens_with(&self, key: Option<&NameKey>) -> bool {
        match (&self.lock, key) {
            (None, None) => true,
            (Some(lock), Some(key)) => lock.opens_with(key),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether its job has room for it beside what it has published already, which is among `others`.
    pub fn is_within_share<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> bool {
        let others = others.into_iter().filter(|other| other.job == self.job);
        let (count, bytes) =
            others.fold((1, self.bytes()), |(count, sum), other| (count + 1, sum + other.bytes()));
        count <= MAX_CLAIMS_OF_JOB && bytes <= MAX_BYTES_OF_JOB
    }

    fn bytes(&self) -> usize {
        // Digits are never written as six bytes, so half of them count.
        let lock = self.lock.as_ref().map_or(0, |_| Lock::BYTES);
        self.name.len() + self.value.len() + String::from(self.job.clone()).len() + lock
    }
}

/// Everything that one life of a daemon has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Whose.
    pub owner: DaemonName,
    /// Which life of it.
    pub instance: Instance,
    /// Counted up by the owner with every change.
    pub version: u64,
    /// In order of the names, each once; at most [`MAX_CLAIMS`], of [`MAX_SHEET`] bytes in all.
    pub claims: Vec<Claim>,
}

impl Sheet {
    pub(crate) const fn new(owner: DaemonName, instance: Instance) -> Self {
        Self { owner, instance, version: 0, claims: Vec::new() }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.claims.binary_search_by(|claim| claim.name.as_str().cmp(name))
    }

    /// The claim of that name.
    pub(crate) fn claim(&self, name: &str) -> Option<&Claim> {
        self.place(name).ok().map(|at| &self.claims[at])
    }

    /// Bytes of its words.
    pub(crate) fn bytes(&self) -> usize {
        self.claims.iter().map(Claim::bytes).sum()
    }

    /// Whether it is within the bounds, in order, and can be counted on.
    pub(crate) fn is_sound(&self) -> bool {
        let sorted = self.claims.windows(2).all(|two| two[0].name < two[1].name);
        let sound = self.claims.iter().all(|claim| claim.problem().is_none());
        let few = self.claims.len() <= MAX_CLAIMS && self.bytes() <= MAX_SHEET;
        few && sorted && sound && self.version < u64::MAX / 2
    }

    fn digest(&self) -> u64 {
        let mut sum = Fnv::default();
        sum.add(self.owner.as_str().as_bytes());
        sum.add(&self.instance.to_bytes());
        sum.add(&self.version.to_be_bytes());
        for Claim { name, value, job, lock } in &self.claims {
            sum.add(name.as_bytes());
            sum.add(value.as_bytes());
            sum.add(String::from(job.clone()).as_bytes());
            sum.add(lock.as_ref().map_or(&[], Lock::as_bytes));
        }
        sum.spread()
    }
}

/// A sheet and what is often asked of it.
#[derive(Debug)]
struct Held {
    sheet: Sheet,
    bytes: usize,
    digest: u64,
}

/// The sheets of all members.
#[derive(Debug, Default)]
pub(crate) struct Names {
    sheets: BTreeMap<DaemonName, Held>,
    bytes: usize,
    /// Owners of sheets to be told, with the link that told us.
    pub(crate) untold: BTreeMap<DaemonName, Option<LinkId>>,
    /// A sheet or a member has changed since the own claims were compared with the others'.
    pub(crate) unreviewed: bool,
}

impl Names {
    pub(crate) fn get(&self, owner: &DaemonName) -> Option<&Sheet> {
        self.sheets.get(owner).map(|held| &held.sheet)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sheet> {
        self.sheets.values().map(|held| &held.sheet)
    }

    /// Whether there is room for this sheet in the place of its predecessor.
    pub(crate) fn has_room(&self, sheet: &Sheet) -> bool {
        let old = self.sheets.get(&sheet.owner).map_or(0, |held| held.bytes);
        self.bytes - old + sheet.bytes() <= MAX_SHEETS
    }

    pub(crate) fn put(&mut self, sheet: Sheet, from: Option<LinkId>) {
        self.drop_sheet(&sheet.owner);
        let (bytes, digest) = (sheet.bytes(), sheet.digest());
        self.bytes += bytes;
        self.untold.insert(sheet.owner.clone(), from);
        self.unreviewed = true;
        self.sheets.insert(sheet.owner.clone(), Held { sheet, bytes, digest });
    }

    pub(crate) fn drop_sheet(&mut self, owner: &DaemonName) {
        if let Some(old) = self.sheets.remove(owner) {
            self.bytes -= old.bytes;
            self.unreviewed = true;
        }
    }

    /// The sheets of those who live.
    fn live<'a>(&'a self, list: &'a List) -> impl Iterator<Item = &'a Held> {
        self.sheets.values().filter(|Held { sheet, .. }| {
            list.live(&sheet.owner).is_some_and(|record| record.instance == sheet.instance)
        })
    }

    /// Of the sheets that count.
    pub(crate) fn digest(&self, list: &List) -> u64 {
        self.live(list).fold(0, |sum, held| sum.wrapping_add(held.digest))
    }

    /// Who has that name.
    pub(crate) fn winner<'a>(
        &'a self,
        list: &'a List,
        name: &str,
    ) -> Option<(&'a DaemonName, &'a Claim)> {
        let sheets = self.live(list).map(|held| &held.sheet);
        let claims = sheets.filter_map(|sheet| Some((sheet, sheet.claim(name)?)));
        let first = claims.min_by_key(|(sheet, claim)| (&claim.job, sheet.instance));
        first.map(|(sheet, claim)| (&sheet.owner, claim))
    }

    /// Every name and who has it, in order.
    pub(crate) fn all<'a>(&'a self, list: &'a List) -> Vec<(&'a DaemonName, &'a Claim)> {
        let mut best: BTreeMap<&str, (&Sheet, &Claim)> = BTreeMap::new();
        for sheet in self.live(list).map(|held| &held.sheet) {
            for claim in &sheet.claims {
                let rank = |(sheet, claim): &(&Sheet, &Claim)| (claim.job.clone(), sheet.instance);
                let known = best.get(claim.name.as_str());
                if known.is_none_or(|known| rank(&(sheet, claim)) < rank(known)) {
                    best.insert(&claim.name, (sheet, claim));
                }
            }
        }
        best.into_values().map(|(sheet, claim)| (&sheet.owner, claim)).collect()
    }

    /// Whether the books are right and every sheet is that of a member that may still have it.
    pub(crate) fn is_consistent(&self, list: &List) -> bool {
        let held = self.sheets.values().map(|held| held.bytes).sum::<usize>();
        held == self.bytes
            && self.bytes <= MAX_SHEETS
            && self.iter().all(|sheet| {
                list.get(&sheet.owner).is_some_and(|record| {
                    record.instance == sheet.instance && record.standing != Standing::Departed
                })
            })
    }
}
