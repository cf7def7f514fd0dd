//! What a scatter asks of every member, and what members answer: the payloads that the ring carries
//! without reading them.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::{JobKey, Shares};
use crate::ring::DaemonName;

/// Acted on once by each member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Say a word of yourself: [`OrderAnswer::Word`].
    Speak,
    /// Whoever bears this name leaves the ring.
    Leave {
        /// Who.
        member: DaemonName,
    },
    /// Everybody ends.
    LeaveAll,
    /// Hosts that have a share start a manager for the job.
    Launch(Launch),
}

/// A job as its hosts learn of it. The specification is not here: it may be large and holds the user's
/// environment, so it goes down the job tree to those hosts alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The job.
    pub job: JobId,
    /// The key of its links.
    pub key: JobKey,
    /// See [`crate::message::StartJob::cookie`].
    pub cookie: String,
    /// See [`crate::message::StartJob::kvsname`].
    pub kvsname: String,
    /// See [`crate::message::StartJob::tmpdir`].
    pub tmpdir: String,
    /// Who runs what.
    pub shares: Shares,
}

/// One member's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OrderAnswer {
    /// It has been seen to.
    Done,
    /// The order makes no sense here.
    Unknown,
    /// A word of oneself.
    Word {
        /// Release.
        version: String,
        /// Process id.
        pid: u32,
        /// Jobs with a manager here.
        jobs: u32,
        /// Forwarding steps that the order took.
        hops: u32,
    },
}
