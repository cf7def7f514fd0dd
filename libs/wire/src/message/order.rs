//! What a scatter asks of every member, and what members answer: the payloads that the ring carries
//! without reading them.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Cookie, JobKey, Share, Shares};
use crate::message::jobs::{JobPart, JobRef, MAX_RUNS};
use crate::message::top::{HostUse, RunUse};
use crate::{DaemonName, JobId, MAX_MEMBERS, RankSet};

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
    /// Whoever is named gets new processes only where it is named, or like any other again.
    Drain {
        /// Who.
        #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
        members: Vec<DaemonName>,
        /// Whether they are draining from now on.
        draining: bool,
    },
    /// Hosts that have a share start a manager for the job.
    Launch(Launch),
    /// The job ended before all its managers had connected: those that look for the one above need not.
    Cancel {
        /// Which.
        job: JobId,
    },
    /// Say which jobs run here: [`OrderAnswer::Jobs`].
    ListJobs {
        /// An answer has little room: this part of what there is to say, counted from 0.
        page: u32,
    },
    /// Say what the ranks here use: [`OrderAnswer::Top`].
    Top {
        /// An answer has little room: this part of what there is to say, counted from 0. With part 0
        /// managers are told to count output, for the next time that this is asked.
        page: u32,
    },
    /// Where the root manager of the job is, the job is ended.
    KillJob {
        /// Which.
        job: JobRef,
    },
    /// Where the root manager of the job is, it signals the ranks.
    SignalJob {
        /// Which.
        job: JobRef,
        /// The signal's number.
        signal: u8,
        /// Only the rank's own process, not its process group.
        single: bool,
    },
    /// Where the root manager of the job is, it gives standard input to these ranks from now on.
    SwitchStdin {
        /// Which.
        job: JobRef,
        /// Who receives.
        ranks: RankSet,
    },
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
    pub cookie: Cookie,
    /// See [`crate::message::StartJob::kvsname`].
    pub kvsname: String,
    /// Below which each host makes the job's directory. Its name there is chosen by that host.
    pub tmpdir: String,
    /// Who runs what.
    pub shares: Shares,
    /// The first place that has no manager yet: 0 for a new job, whose root is started before anybody is
    /// told. Places before it are told for the tree's sake, and nobody is missed there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Launch {
    /// The shares of hosts that are to start a manager, with their places: never the root's.
    pub fn newcomers(&self) -> impl Iterator<Item = (usize, &Share)> {
        self.shares.iter().enumerate().skip((self.first as usize).max(1))
    }

    /// Whether this host can take it as it stands. Whoever holds the ring's key can have sent it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), InvalidTmpdir> {
        check_tmpdir(&self.tmpdir)
    }
}

/// A directory for temporary files that no job can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TMPDIR={shown:?}: {problem}; name another directory")]
pub struct InvalidTmpdir {
    shown: String,
    problem: &'static str,
}

/// Longest path of a directory (`PATH_MAX`).
const MAX_PATH: usize = 4096;
/// Most characters of a path that a message repeats.
const MAX_SHOWN: usize = 200;

fn check_tmpdir(path: &str) -> Result<(), InvalidTmpdir> {
    let problem = if path.len() >= MAX_PATH {
        "the path is too long"
    } else if !path.starts_with('/') {
        "the path is not absolute"
    } else if path.split('/').any(|part| part == "..") {
        "the path has a \"..\" in it"
    } else if path.contains('\0') {
        "the path has a NUL byte in it"
    } else {
        return Ok(());
    };
    Err(InvalidTmpdir { shown: path.chars().take(MAX_SHOWN).collect(), problem })
}

/// One member's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OrderAnswer {
    /// It has been seen to.
    Done,
    /// There is no root manager of such a job here.
    NoSuchJob,
    /// What runs here.
    Jobs {
        /// A part of it.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        jobs: Vec<JobPart>,
        /// Whether there is a next page.
        more: bool,
    },
    /// What is used here.
    Top {
        /// This machine.
        machine: HostUse,
        /// Some of the ranks.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        runs: Vec<RunUse>,
        /// Whether there is a next page.
        more: bool,
    },
    /// The order makes no sense here.
    Unknown,
    /// It cannot be carried out here.
    Failed {
        /// Why, for people.
        problem: String,
    },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instance;

    #[test]
    fn a_job_with_a_directory_that_is_relative_climbs_or_has_no_bound_is_refused() {
        let daemon = DaemonName::new("h1").unwrap();
        let launch = |tmpdir: &str| Launch {
            job: "1@h1".parse().unwrap(),
            key: JobKey::from_bytes([1; 32]),
            cookie: Cookie::from_bytes([1; 16]),
            kvsname: "kvs_0".to_owned(),
            tmpdir: tmpdir.to_owned(),
            shares: Shares::alone(daemon.clone(), Instance::from_bytes([1; 16]), 1),
            first: 0,
        };
        for good in ["/tmp", "/", "/var/tmp/..a/b..", "/home/a b"] {
            assert_eq!(launch(good).check(), Ok(()), "{good}");
        }
        let long = format!("/{}", "x".repeat(MAX_PATH));
        for bad in ["", "tmp", "../tmp", "/tmp/../home/alice", "/..", "/a\0b", &long] {
            let problem = launch(bad).check().unwrap_err().to_string();
            assert!(problem.starts_with("TMPDIR=") && problem.len() < 300, "{problem}");
        }
    }
}
