//! Words about jobs that run: which one is meant, and what of it runs on a host.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::World;
use crate::{DaemonName, JobId, RankSet, console_of};

/// Most ranks in one [`RankRun`]; more are several.
pub const MAX_RUN: usize = 4096;

/// Most runs in one [`JobPart`].
pub const MAX_RUNS: usize = 4096;

/// The job, or the jobs, that a user means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobRef {
    /// The one of this number that the daemon which is asked has accepted.
    Number(u64),
    /// The one in a private ring of this host that the console with this process id submitted.
    Private(u32),
    /// This one.
    Id(JobId),
    /// All that their users call so.
    Alias(String),
}

/// Not the way in which a job is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NUMBER, pPID or one of them with @HOST is needed, as 'mpdlistjobs' lists it")]
pub struct InvalidJobRef;

/// `NUMBER` or `pPID`, or one of them with `@HOST`.
impl std::str::FromStr for JobRef {
    type Err = InvalidJobRef;

    fn from_str(text: &str) -> Result<Self, InvalidJobRef> {
        match (text.parse(), console_of(text)) {
            (Ok(number), _) => Ok(Self::Number(number)),
            (_, Some(console)) => Ok(Self::Private(console)),
            _ => text.parse().map(Self::Id).map_err(|_| InvalidJobRef),
        }
    }
}

impl JobRef {
    /// `NUMBER`, `pPID`, one of them with `@HOST`, or the alias that any other text is; none for no text.
    pub fn or_alias(text: &str) -> Option<Self> {
        let alias = || (!text.is_empty()).then(|| Self::Alias(text.to_owned()));
        text.parse().ok().or_else(alias)
    }

    /// The same, as any daemon of the ring understands it, after `daemon` was asked.
    pub fn as_asked_of(self, daemon: &DaemonName) -> Self {
        match self {
            // A daemon's name is always fit for an id.
            Self::Number(number) => JobId::new(number, daemon.as_str()).map_or(self, Self::Id),
            Self::Private(_) | Self::Id(_) | Self::Alias(_) => self,
        }
    }

    /// Whether only a job of a private ring can be meant; none: of any ring.
    pub const fn is_of_private_ring(&self) -> Option<bool> {
        match self {
            Self::Number(_) => Some(false),
            Self::Private(_) => Some(true),
            Self::Id(id) => Some(id.is_private()),
            Self::Alias(_) => None,
        }
    }

    /// Whether a job of this id and alias is meant. Numbers mean none.
    pub fn means(&self, job: &JobId, alias: Option<&str>) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Private(console) => job.is_private() && job.number() == u64::from(*console),
            Self::Id(id) => id == job,
            Self::Alias(text) => alias == Some(text),
        }
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "job {number}"),
            Self::Private(console) => write!(f, "job p{console}"),
            Self::Id(id) => write!(f, "job {id}"),
            Self::Alias(alias) => write!(f, "job called '{alias}'"),
        }
    }
}

/// Ranks of one host that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankRun {
    /// Their world, if it was spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// As the user wrote it.
    pub program: String,
    /// Which ranks, numbered through the job.
    pub ranks: RankSet,
    /// The process id of each, in the order of the ranks.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
    pub pids: Vec<u32>,
}

impl RankRun {
    /// Whether every rank has a process id.
    pub fn is_sound(&self) -> bool {
        self.ranks.count() as usize == self.pids.len()
    }
}

/// What runs of a job on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPart {
    /// The job.
    pub job: JobId,
    /// What its user calls it.
    pub alias: Option<String>,
    /// Whose it is.
    pub user: String,
    /// The process id of its manager, 0 if that is not known yet.
    pub manager: u32,
    /// Its ranks, as far as they were started.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
    pub runs: Vec<RankRun>,
}

/// The same, and where that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedPart {
    /// The daemon there.
    pub host: DaemonName,
    /// What runs.
    pub part: JobPart,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_a_job_of_the_daemon_that_was_asked() {
        let h1 = DaemonName::new("h1").unwrap();
        let (ours, theirs): (JobId, JobId) = ("3@h1".parse().unwrap(), "3@h2".parse().unwrap());
        assert!(!JobRef::Number(3).means(&ours, None));
        let meant = JobRef::Number(3).as_asked_of(&h1);
        assert_eq!(meant.to_string(), "job 3@h1");
        assert!(meant.means(&ours, Some("x")) && !meant.means(&theirs, None));
        let alias = JobRef::Alias("x".to_owned()).as_asked_of(&h1);
        assert!(alias.means(&theirs, Some("x")) && !alias.means(&ours, None));
    }

    #[test]
    fn a_process_id_means_the_private_job_of_that_console() {
        let (private, counted): (JobId, JobId) =
            ("p3@h1".parse().unwrap(), "3@h1".parse().unwrap());
        let meant = JobRef::Private(3).as_asked_of(&DaemonName::new("h2").unwrap());
        assert!(meant.means(&private, None) && !meant.means(&counted, None));
        let number = JobRef::Number(3).as_asked_of(&DaemonName::new("h1").unwrap());
        assert!(!number.means(&private, None) && number.means(&counted, None));
        let of_private = |text: &str| JobRef::or_alias(text).unwrap().is_of_private_ring();
        assert_eq!(["3", "p3@h1", "x"].map(of_private), [Some(false), Some(true), None]);
    }

    #[test]
    fn a_job_is_a_number_or_an_id_and_any_other_text_an_alias() {
        assert_eq!("3".parse(), Ok(JobRef::Number(3)));
        assert_eq!("3@h1".parse(), Ok(JobRef::Id("3@h1".parse().unwrap())));
        assert_eq!("p3".parse(), Ok(JobRef::Private(3)));
        assert_eq!("p3@h1".parse(), Ok(JobRef::Id("p3@h1".parse().unwrap())));
        for bad in ["", "x", "-1", "@h1", "3@", "3@a b", "p", "p3x"] {
            assert_eq!(bad.parse::<JobRef>(), Err(InvalidJobRef), "{bad}");
        }
        assert_eq!(JobRef::or_alias("x"), Some(JobRef::Alias("x".to_owned())));
        assert_eq!(JobRef::or_alias("3"), Some(JobRef::Number(3)));
        assert_eq!(JobRef::or_alias(""), None);
    }

    #[test]
    fn a_run_with_another_number_of_pids_than_ranks_is_unsound() {
        let run = |ranks: RankSet, pids: &[u32]| RankRun {
            world: None,
            program: "a".to_owned(),
            ranks,
            pids: pids.to_vec(),
        };
        assert!(run(RankSet::below(2), &[7, 8]).is_sound());
        assert!(!run(RankSet::below(2), &[7]).is_sound());
        assert!(!run(RankSet::all(), &[7]).is_sound());
    }
}
