//! A spawn that waits at the root.

/// The encoded order, which is small, and the number of processes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) order: Box<[u8]>,
    pub(super) size: u32,
    /// The spawner waits until the processes have initialised MPI.
    pub(super) is_awaited: bool,
}
