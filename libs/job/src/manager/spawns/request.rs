//! The request for one spawn, as it waits in the queue of the root.

use super::Waiting;

/// A spawn that waits.
#[derive(Debug)]
pub(super) struct Request {
    /// The encoded order, which is small.
    pub(super) order: Waiting,
    /// The number of processes.
    pub(super) size: u32,
    /// Whether the spawner waits until the processes have initialised MPI.
    pub(super) is_awaited: bool,
}
