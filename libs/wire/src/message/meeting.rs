//! Requests of root managers whose ranks meet ranks of other jobs.

use serde::{Deserialize, Serialize};

use crate::JobId;
use crate::message::Payload;

/// Most bytes that a root manager passes to another one at a time.
pub const MAX_PASSED: usize = 64 * 1024;

/// A request of a root manager to its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeetingOperation {
    /// Find the job of this user whose PMIx namespaces have this mark: [`namespace_mark`](crate::job::namespace_mark).
    Find { mark: String },
    /// Pass bytes to the root manager of a job of this user.
    Pass {
        to: JobId,
        /// The bytes, at most [`MAX_PASSED`].
        payload: Payload,
    },
}

/// The answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeetingAnswer {
    Found(JobId),
    /// The daemon of the job has passed the bytes to its root manager.
    Passed,
    /// No such job runs, or it belongs to another user.
    Gone,
    /// The request failed, and may succeed soon; the reason for people.
    Later(String),
}
