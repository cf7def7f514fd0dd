//! A message to a manager of this host.

use std::os::fd::OwnedFd;

use mpd_wire::JobId;
use mpd_wire::message::ManagerOrder;

/// A message to the manager of a job.
#[derive(Debug)]
pub(crate) struct ManagerMessage {
    /// The job of the manager.
    pub(crate) job: JobId,
    pub(crate) order: ManagerOrder,
    /// The connection that is passed with [`ManagerOrder::Link`].
    pub(crate) link: Option<OwnedFd>,
}

impl ManagerMessage {
    /// An order without a connection.
    pub(crate) const fn new(job: JobId, order: ManagerOrder) -> Self {
        Self { job, order, link: None }
    }
}
