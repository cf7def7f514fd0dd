//! Requests for what ranks have committed.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use mpd_wire::message::Gathering;

use super::waiter::Waiter;

/// A request for what a rank has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) asker: Asker,
    pub(super) rank: Rank,
    pub(super) key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client here.
    Client(Waiter),
    /// The manager at this tree index.
    Host(u32),
}

/// Requests that wait for data, and parcels that are incomplete.
#[derive(Debug, Default)]
pub(super) struct Gets {
    pub(super) waiting: Vec<Wanted>,
    /// Ranks and keys that were requested from other hosts.
    pub(super) asked: BTreeSet<(Rank, Vec<u8>)>,
    pub(super) shared: Gathering,
    pub(super) routed: Gathering,
}

impl Gets {
    /// Forgets the requests of clients that are meant.
    pub(super) fn withdraw(&mut self, is_meant: impl Fn(&Waiter) -> bool) {
        self.waiting.retain(|wanted| match &wanted.asker {
            Asker::Client(waiter) => !is_meant(waiter),
            Asker::Host(_) => true,
        });
    }
}
