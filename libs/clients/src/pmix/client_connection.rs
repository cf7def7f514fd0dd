//! The sessions of PMIx clients.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;
use pmix_proto::Session;
use pmix_proto::connect::Introduction;

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// By number.
    pub(super) connections: BTreeMap<usize, ClientConnection>,
    /// Connections with answers to write.
    pub(super) answering: BTreeSet<usize>,
    /// Introductions that wait until an older connection of the same rank was read, with the number of that connection.
    pub(super) introduced: Vec<(usize, usize, Introduction)>,
}

/// One connection. It has a rank once it is admitted.
#[derive(Debug, Default)]
pub(super) struct ClientConnection {
    pub(super) session: Session,
    pub(super) rank: Option<Rank>,
    /// Its MPI library, as far as its commits have shown it.
    pub(super) library: Option<MpiLibrary>,
    /// Gets that were answered with data.
    pub(super) gets: u32,
    /// Whether the user has a report of events that it misses.
    pub(super) misses_events: bool,
    /// The client has received the data of all ranks of a world.
    pub(super) has_all: bool,
    /// It is not read until its rank is within its budget.
    is_held: bool,
}

impl ClientConnection {
    /// Whether nothing is to be read now, because the requests of the client that wait use its budget.
    pub(super) const fn waits_for_budget(&mut self, is_ending: bool) -> bool {
        self.is_held = !is_ending && self.session.is_over_budget();
        self.is_held
    }

    /// Whether the client is to be read again, since some of its requests were answered.
    pub(super) const fn may_continue(&mut self) -> bool {
        let may = self.is_held && !self.session.is_over_budget();
        self.is_held &= !may;
        may
    }
}
