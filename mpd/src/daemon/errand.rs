//! A message to a manager of this host.

use std::os::fd::OwnedFd;

use mpd_wire::JobId;
use mpd_wire::message::ManagerOrder;

/// See the module.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Its job.
    pub(crate) job: JobId,
    pub(crate) order: ManagerOrder,
    /// A connection that travels with [`ManagerOrder::Link`].
    pub(crate) link: Option<OwnedFd>,
}

impl Errand {
    /// An order that no connection travels with.
    pub(crate) const fn new(job: JobId, order: ManagerOrder) -> Self {
        Self { job, order, link: None }
    }
}
