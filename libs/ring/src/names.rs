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

use crate::links::LinkId;
use crate::list::List;
use mpd_wire::names::{Claim, Sheet};
use mpd_wire::{DaemonName, Standing};

/// Most bytes on all sheets that a daemon keeps.
pub const MAX_SHEETS: usize = 16 * 1024 * 1024;

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
