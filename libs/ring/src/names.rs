//! Published names: the names that each daemon has published for its jobs, and the owner of each
//! name.
//!
//! All names of one daemon are on one [`Sheet`]. Only its owner changes the sheet, and increases
//! its version each time. A name that is taken back is absent from the next version, so no record
//! of its end is needed. A sheet belongs to one instance of its owner. It counts while that
//! instance is a live member. It is kept while that instance is dead, since the instance may refute
//! its death. It is dropped when the owner departs, is forgotten, or has another instance.
//!
//! Two owners may claim one name, each in a half of the ring. The lowest job id has the name
//! everywhere, and the other owner takes its claim back. `publish` describes how sheets travel and
//! how a claim is made.

use std::collections::BTreeMap;

use crate::links::LinkId;
use crate::list::List;
use mpd_wire::names::{Claim, Sheet};
use mpd_wire::{DaemonName, Standing};

/// Most bytes of all sheets that a daemon keeps.
pub const MAX_SHEETS: usize = 16 * 1024 * 1024;

/// A sheet and derived values that are often needed.
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
    /// Owners of sheets that others must receive, with the link by which each sheet came.
    pub(crate) untold: BTreeMap<DaemonName, Option<LinkId>>,
    /// Whether a sheet or a member has changed since the own claims were compared with those of
    /// others.
    pub(crate) unreviewed: bool,
}

impl Names {
    pub(crate) fn get(&self, owner: &DaemonName) -> Option<&Sheet> {
        self.sheets.get(owner).map(|held| &held.sheet)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sheet> {
        self.sheets.values().map(|held| &held.sheet)
    }

    /// Whether this sheet fits in the place of its predecessor.
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

    /// The sheets of the live members.
    fn live<'a>(&'a self, list: &'a List) -> impl Iterator<Item = &'a Held> {
        self.sheets.values().filter(|Held { sheet, .. }| {
            list.live(&sheet.owner).is_some_and(|record| record.instance == sheet.instance)
        })
    }

    /// A digest of the sheets that count.
    pub(crate) fn digest(&self, list: &List) -> u64 {
        self.live(list).fold(0, |sum, held| sum.wrapping_add(held.digest))
    }

    /// The owner of this name, and its claim.
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

    /// Every name and its owner, in order.
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

    /// Whether the sizes are right and every sheet belongs to a member that may still have it.
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
