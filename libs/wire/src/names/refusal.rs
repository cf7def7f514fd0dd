//! Refused requests for a published name, of which the job that published it is informed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Claim, NameKey};
use crate::JobId;

/// Requests for a name that were refused because of their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub name: String,
    /// The job that asked last.
    pub by: JobId,
    pub fault: KeyFault,
    /// The number of requests.
    pub count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFault {
    /// The name has a key, and the request was without one.
    Missing,
    /// The name has another key.
    Wrong,
    /// The name has no key, and the request had one.
    Needless,
}

impl Refusal {
    /// The refusal of a request of `job` for a claim with this key; `None` if it is not refused.
    pub fn of(claim: &Claim, job: &JobId, key: Option<&NameKey>) -> Option<Self> {
        let fault = match (&claim.lock, key) {
            _ if claim.opens_with(key) => return None,
            (Some(_), None) => KeyFault::Missing,
            (Some(_), Some(_)) => KeyFault::Wrong,
            (None, _) => KeyFault::Needless,
        };
        Some(Self { name: claim.name.clone(), by: job.clone(), fault, count: 1 })
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "without its key",
            Self::Wrong => "with a wrong key",
            Self::Needless => "with a key, and it has none",
        })
    }
}

/// The line for the publisher.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, by, fault, count } = self;
        match count {
            1 => write!(f, "job {by} asked for the name {name:?} {fault}, and was refused"),
            _ => write!(
                f,
                "{count} requests for the name {name:?} were refused; job {by} asked last, {fault}"
            ),
        }
    }
}
