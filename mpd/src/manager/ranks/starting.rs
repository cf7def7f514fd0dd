//! The ranks of one world while they are started.

use std::collections::BTreeMap;

use super::prepare::Launch;

/// The ranks of one world that run here.
#[derive(Debug, Default)]
pub(super) struct Starting {
    /// By program.
    pub(super) launches: BTreeMap<usize, Launch>,
    /// The index of the next rank to start; `None` if no rank is left or the start has failed.
    pub(super) next: Option<usize>,
}

impl Starting {
    pub(super) const fn stop(&mut self) {
        self.next = None;
    }
}
