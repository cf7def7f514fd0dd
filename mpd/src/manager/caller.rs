//! A rank that waits for an answer by PMI or PMIx, and the processes that it may want.

use mpd_wire::job::Bytes;
use pmi_proto::SpawnRequest;

pub(super) use mpd_job::manager::spawns::Caller;

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
