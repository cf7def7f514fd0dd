//! The announcement of a spawned world to the owners that start it.

use mpd_wire::job::Bytes;

use super::worlds::World;

/// A spawned world that is to be started in this subtree.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) world: World,
    /// The initial content of its key-value space.
    pub(super) preput: Vec<(Bytes, Bytes)>,
    /// Whether its programs are known, so that its ranks can be started.
    pub(super) is_known: bool,
}
