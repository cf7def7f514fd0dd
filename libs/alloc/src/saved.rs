//! What survives the daemon: the holds of its host, and the allocations that were granted through it.

use crate::data::{AllocId, AllocRequest, Epoch, MAX_PARTS, Part, Stamp};
use mpd_wire::bounded::at_most;
use serde::{Deserialize, Serialize};

/// Most holds and reservations of a host.
pub const MAX_HOLDS: usize = 16_384;
/// Most requests and allocations of one host.
pub const MAX_OWN: usize = 131_072;

/// The record on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The newest term of a dispenser.
    pub epoch: Option<Epoch>,
    /// No allocation has this number or a larger one.
    pub next: u64,
    /// The slots of this host that are held.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOLDS>")]
    pub holds: Vec<SavedHold>,
    /// The allocations of requesters on this host.
    #[serde(deserialize_with = "at_most::<_, _, MAX_OWN>")]
    pub own: Vec<SavedOwn>,
}

/// Held slots of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHold {
    /// The allocation.
    pub id: AllocId,
    /// How many.
    pub slots: u32,
    /// The latest order to hold them.
    pub stamp: Stamp,
    /// When the allocation ends, in microseconds of wall-clock time.
    pub ends_us: Option<u64>,
}

/// An allocation of a requester on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedOwn {
    /// The allocation.
    pub id: AllocId,
    pub request: AllocRequest,
    /// Its number in the queue.
    pub ticket: Option<u64>,
    /// Its slots.
    #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
    pub parts: Vec<Part>,
    /// When it ends, in microseconds of wall-clock time.
    pub ends_us: Option<u64>,
}
