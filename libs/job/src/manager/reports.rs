//! Reports about ranks for the parent, collected in one turn of the loop: one message of each kind
//! for any number of ranks.

use mpd_wire::job::RankEnd;
use mpd_wire::message::{MAX_LISTED, Up};
use mpd_wire::{Rank, RankSet};

/// The reports, in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pids: Vec<(Rank, u32)>,
    initialized: RankSet,
    finalized: RankSet,
    ends: Vec<(Rank, RankEnd)>,
}

impl Reports {
    /// Whether one of `ranks` has a finalize that was not yet sent. A new init of that rank would
    /// be sent before it.
    pub(super) fn has_finalized(&self, ranks: &RankSet) -> bool {
        !self.finalized.is_empty() && ranks.ranks().any(|rank| self.finalized.contains(rank))
    }

    pub(super) fn add_pids(&mut self, pids: Vec<(Rank, u32)>) {
        self.pids.extend(pids);
    }

    pub(super) fn add_initialized(&mut self, ranks: &RankSet) {
        add(&mut self.initialized, ranks);
    }

    pub(super) fn add_finalized(&mut self, ranks: &RankSet) {
        add(&mut self.finalized, ranks);
    }

    pub(super) fn add_ends(&mut self, ends: Vec<(Rank, RankEnd)>) {
        self.ends.extend(ends);
    }

    /// Takes everything, in messages of bounded size.
    pub(super) fn take(&mut self) -> Vec<Up> {
        let Self { pids, initialized, finalized, ends } = std::mem::take(self);
        let mut ups = Vec::new();
        ups.extend(pids.chunks(MAX_LISTED).map(|part| Up::Pids { pids: part.to_vec() }));
        ups.extend(initialized.parts(MAX_LISTED).map(|ranks| Up::Initialized { ranks }));
        ups.extend(finalized.parts(MAX_LISTED).map(|ranks| Up::Finalized { ranks }));
        ups.extend(ends.chunks(MAX_LISTED).map(|part| Up::Exited { ends: part.to_vec() }));
        ups
    }
}

/// Adds one rank or many, each in the cheaper way.
fn add(set: &mut RankSet, ranks: &RankSet) {
    match *ranks.ranges() {
        [(low, high)] if low == high => set.insert(Rank(low)),
        _ => set.join(ranks),
    }
}
