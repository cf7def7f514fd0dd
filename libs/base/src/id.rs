//! Identifiers as types: the compiler rejects a rank in place of a job number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::member::{Instance, is_daemon_name};

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

/// The number of a process on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid(pub i32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection to the Unix socket of the daemon: a console, or a manager before it registers. The process chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsoleId(pub usize);

impl fmt::Display for ConsoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Precedes the number of a job in a private ring.
const PRIVATE: char = 'p';

/// Precedes the instance of the daemon in an id.
const RUN: char = '#';

/// A job: a number, `@`, the name of the daemon that accepted it, and the instance of that daemon. A
/// standing daemon counts its jobs. In a private ring the number is `p` and the process id of the
/// console that submitted the job.
///
/// People see and write `1@h1`. A daemon that starts again counts from the beginning, so programs
/// tell jobs of one name apart by the instance. Messages and records have it: `1@h1#` and 32
/// hexadecimal digits. An id that people wrote has no instance.
///
/// Names that must not be guessed (key-value space names) are made from random bits instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId {
    private: bool,
    number: u64,
    daemon: String,
    instance: Option<Instance>,
}

/// The text is not `NUMBER@DAEMON`, also with `#INSTANCE`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a job id (NUMBER@DAEMON)")]
pub struct InvalidJobId;

impl JobId {
    /// The `number`-th job of `daemon`, as people write it.
    ///
    /// # Errors
    /// The daemon's name is empty, longer than [`MAX_DAEMON_NAME`](crate::MAX_DAEMON_NAME), or has other characters than
    /// letters, digits, `.`, `_`, `-` and `:`.
    pub fn new(number: u64, daemon: &str) -> Result<Self, InvalidJobId> {
        if !is_daemon_name(daemon) {
            return Err(InvalidJobId);
        }
        Ok(Self { private: false, number, daemon: daemon.to_owned(), instance: None })
    }

    /// The job in the private ring of `daemon` that the console with this process id submitted.
    ///
    /// # Errors
    /// As for [`JobId::new`].
    pub fn private(console: u32, daemon: &str) -> Result<Self, InvalidJobId> {
        Ok(Self { private: true, ..Self::new(console.into(), daemon)? })
    }

    /// The job of this name that the daemon accepted in this run.
    #[must_use]
    pub fn of(self, instance: Instance) -> Self {
        Self { instance: Some(instance), ..self }
    }

    /// The id with the daemon's instance, as messages and records have it.
    pub fn in_full(&self) -> String {
        match self.instance {
            Some(instance) => format!("{self}{RUN}{instance}"),
            None => self.to_string(),
        }
    }

    /// Whether `job` has this name, and this instance if there is one here.
    pub fn means(&self, job: &Self) -> bool {
        let name = |id: &Self| (id.private, id.number);
        let is_called = name(self) == name(job) && self.daemon == job.daemon;
        is_called && self.instance.is_none_or(|instance| job.instance == Some(instance))
    }

    /// The number alone.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The run of the daemon that accepted the job; `None` in an id that people wrote.
    pub const fn instance(&self) -> Option<Instance> {
        self.instance
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
        if let Some((name, instance)) = text.split_once(RUN) {
            let instance = instance.parse().map_err(|_| InvalidJobId)?;
            return Ok(name.parse::<Self>()?.of(instance));
        }
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
        id.in_full()
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
    fn jobs_of_two_runs_of_a_daemon_differ_and_people_see_one_name() {
        let name: JobId = "1@h1".parse().unwrap();
        let [first, second] = [1, 2].map(|run| name.clone().of(Instance::from_bytes([run; 16])));
        assert_ne!(first, second);
        assert_eq!([&first, &second].map(ToString::to_string), ["1@h1", "1@h1"]);
        assert!(name.means(&first) && name.means(&second));
        assert!(first.means(&first) && !first.means(&second) && !first.means(&name));
        let full = "1@h1#01010101010101010101010101010101";
        assert_eq!((first.in_full().as_str(), full.parse()), (full, Ok(first.clone())));
        assert_eq!(serde_json::to_string(&first).unwrap(), format!("\"{full}\""));
        for bad in ["1@h1#", "1@h1#01", &format!("{full}#{}", "0".repeat(32))] {
            assert_eq!(bad.parse::<JobId>(), Err(InvalidJobId), "{bad}");
        }
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
