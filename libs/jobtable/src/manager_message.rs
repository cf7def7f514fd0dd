//! A message to a manager of this host.

use mpd_wire::JobId;
use mpd_wire::message::ManagerOrder;

/// A message to the manager of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagerMessage {
    /// The job of the manager.
    pub job: JobId,
    pub order: ManagerOrder,
}

impl ManagerMessage {
    /// An order to the manager of `job`.
    pub const fn new(job: JobId, order: ManagerOrder) -> Self {
        Self { job, order }
    }
}
