//! A rank that waits for an answer by PMI or PMIx, and the processes that it may want.

use mpd_wire::Rank;
use mpd_wire::job::Bytes;
use pmi_proto::{SpawnRequest, Ticket};

/// A rank that waits for an answer, and the number of its request.
pub(super) type Caller = (Rank, Ticket);

/// The processes that a rank wants to be started.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) request: SpawnRequest,
    /// For each program, variables for its environment. Empty for PMI, where a hint has them.
    pub(super) variables: Vec<Vec<Bytes>>,
}

impl Wish {
    /// A request without further variables.
    pub(super) const fn of(request: SpawnRequest) -> Self {
        Self { request, variables: Vec::new() }
    }
}
