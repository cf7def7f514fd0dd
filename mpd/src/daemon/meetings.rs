//! Requests of root managers whose ranks meet ranks of other jobs. A daemon without a ring knows no other job.

use mpd_wire::JobId;
use mpd_wire::message::{ManagerOrder, MeetingAnswer, MeetingOperation};

use crate::daemon::manager_message::ManagerMessage;

/// A request of a root manager of this host.
#[derive(Debug)]
pub(super) struct MeetingRequest {
    /// The manager's job, and the number that the manager gave the request.
    pub(super) job: JobId,
    pub(super) request: u32,
    pub(super) operation: MeetingOperation,
}

impl MeetingRequest {
    /// The message with the answer.
    pub(super) fn answered(self, answer: MeetingAnswer) -> ManagerMessage {
        ManagerMessage::new(self.job, ManagerOrder::Met { request: self.request, answer })
    }
}
