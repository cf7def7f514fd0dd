//! The facts that calls lend to the machine.

use std::fmt::Debug;

use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::job::{HostSlices, JobSpec};
use mpd_wire::message::StartJob;

use crate::silence::Task;

/// Facts that are looked up when they are needed.
pub trait Here: Debug {
    /// The name of a rank in texts.
    fn name_of(&self, rank: Rank) -> String;
    /// The tree index of the host of a rank, if its world is known here.
    fn tree_index_of(&self, rank: Rank) -> Option<usize>;
    /// The threads of the process that writes to the pipes of a rank here, if they are ready to run.
    fn writer(&self, rank: Rank) -> Vec<Task>;
}

/// The job and the time of a call.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub now: Time,
    /// Microseconds since 1970, if the job asks for timestamps.
    pub wall: Option<u64>,
    pub spec: &'a JobSpec,
    pub order: &'a StartJob,
}

impl Facts<'_> {
    pub(super) const fn is_root(&self) -> bool {
        self.order.tree_index == 0
    }

    pub(super) const fn tree_index(&self) -> usize {
        self.order.tree_index as usize
    }

    pub(super) const fn hosts(&self) -> &HostSlices {
        &self.order.host_slices
    }

    /// Whether the job began with that rank.
    pub(super) fn is_first(&self, rank: Rank) -> bool {
        rank.0 < self.spec.size()
    }
}
