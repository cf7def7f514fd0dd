//! Identifiers as types: the compiler rejects a rank in place of a job number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A client's number within its world, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank as an index into a table of ranks.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Most bytes in the name of a daemon.
pub const MAX_DAEMON_NAME: usize = 255;

/// Precedes the number of a job in a private ring.
const PRIVATE: char = 'p';

/// A job: a number, `@`, and the name of the daemon that accepted it. A standing daemon counts its
/// jobs. In a private ring the number is `p` and the process id of the console that submitted the
/// job.
///
/// Unique among the running jobs of a ring. Names that must never be reused (key-value space names)
/// are made from random bits instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId {
    private: bool,
    number: u64,
    daemon: String,
}

/// The text is not `NUMBER@DAEMON`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a job id (NUMBER@DAEMON)")]
pub struct InvalidJobId;

impl JobId {
    /// The `number`-th job of `daemon`.
    ///
    /// # Errors
    /// The daemon's name is empty, longer than [`MAX_DAEMON_NAME`], or has other characters than
    /// letters, digits, `.`, `_`, `-` and `:`.
    pub fn new(number: u64, daemon: &str) -> Result<Self, InvalidJobId> {
        if !is_daemon_name(daemon) {
            return Err(InvalidJobId);
        }
        Ok(Self { private: false, number, daemon: daemon.to_owned() })
    }

    /// The job in the private ring of `daemon` that the console with this process id submitted.
    ///
    /// # Errors
    /// As for [`JobId::new`].
    pub fn private(console: u32, daemon: &str) -> Result<Self, InvalidJobId> {
        Ok(Self { private: true, ..Self::new(console.into(), daemon)? })
    }

    /// The number alone.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the job is in a private ring.
    pub const fn is_private(&self) -> bool {
        self.private
    }

    /// The daemon that accepted the job.
    pub fn daemon(&self) -> &str {
        &self.daemon
    }
}

/// Whether `name` may be the name of a daemon. Such a name is safe in ids, file names and messages.
pub fn is_daemon_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_DAEMON_NAME
        && !name.starts_with(['-', '.'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:".contains(&b))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.private {
            write!(f, "{PRIVATE}")?;
        }
        write!(f, "{}@{}", self.number, self.daemon)
    }
}

impl FromStr for JobId {
    type Err = InvalidJobId;
    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        let (number, daemon) = text.split_once('@').ok_or(InvalidJobId)?;
        match console_of(number) {
            Some(console) => Self::private(console, daemon),
            None => Self::new(number.parse().map_err(|_| InvalidJobId)?, daemon),
        }
    }
}

/// The process id in `pPID`, which names a job in a private ring.
pub fn console_of(text: &str) -> Option<u32> {
    let digits = text.strip_prefix(PRIVATE)?;
    // `parse()` would accept a plus sign.
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl TryFrom<String> for JobId {
    type Error = InvalidJobId;
    fn try_from(text: String) -> Result<Self, InvalidJobId> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_reads_back_what_it_prints() {
        let id = JobId::new(31, "vm_38649").unwrap();
        assert_eq!(id.to_string(), "31@vm_38649");
        assert_eq!("31@vm_38649".parse(), Ok(id));
    }

    #[test]
    fn the_number_of_a_private_job_is_a_process_id_behind_a_p() {
        let id = JobId::private(4711, "h1").unwrap();
        assert_eq!(id.to_string(), "p4711@h1");
        assert_eq!("p4711@h1".parse(), Ok(id.clone()));
        assert_ne!(Ok(id), JobId::new(4711, "h1"));
        for bad in ["p@h1", "pp1@h1", "p-1@h1", "p+1@h1", "p1", "p4294967296@h1"] {
            assert_eq!(bad.parse::<JobId>(), Err(InvalidJobId), "{bad}");
        }
    }

    #[test]
    fn a_name_that_could_be_a_path_or_an_option_is_no_daemon() {
        for bad in ["", "-x", "..", "a/b", "a b", "a\n", &"x".repeat(256)] {
            assert_eq!(JobId::new(1, bad), Err(InvalidJobId), "{bad:?}");
        }
    }
}
