//! What is kept for each rank besides the data that it has committed.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;

/// What is kept for ranks besides the data that they have committed, in bytes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    kept: BTreeMap<Rank, usize>,
    /// Ranks whose waiting requests were reported to the user.
    pub(super) reported: BTreeSet<Rank>,
}

impl Ledger {
    pub(super) fn of(&self, rank: Rank) -> usize {
        self.kept.get(&rank).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, rank: Rank, bytes: usize) {
        *self.kept.entry(rank).or_default() += bytes;
    }
}
