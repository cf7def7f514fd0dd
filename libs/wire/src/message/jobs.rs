//! Messages about running jobs: the job that a request names, and the ranks of a job on a host.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::World;
use crate::{DaemonName, JobId, Rank, RankSet, console_of};

/// Most ranks in one [`RankRun`]; more ranks need several.
pub const MAX_RUN: usize = 4096;

/// Most runs in one [`JobPart`].
pub const MAX_RUNS: usize = 4096;

/// The job, or the jobs, of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobRef {
    /// The job of this number that the receiving daemon accepted.
    Number(u64),
    /// The job in a private ring of this host that the console with this process id submitted.
    Private(u32),
    /// The job of this id; without an instance, the job of this name.
    Id(JobId),
    /// All jobs with this alias.
    Alias(String),
}

/// The text does not name a job.
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
    /// Reads `NUMBER`, `pPID`, one of them with `@HOST`, or any other text as an alias; `None` for
    /// an empty text.
    pub fn or_alias(text: &str) -> Option<Self> {
        let alias = || (!text.is_empty()).then(|| Self::Alias(text.to_owned()));
        text.parse().ok().or_else(alias)
    }

    /// The same reference for every daemon of the ring, where `daemon` received the request.
    pub fn as_asked_of(self, daemon: &DaemonName) -> Self {
        match self {
            // A daemon's name is always valid in an id.
            Self::Number(number) => JobId::new(number, daemon.as_str()).map_or(self, Self::Id),
            Self::Private(_) | Self::Id(_) | Self::Alias(_) => self,
        }
    }

    /// Whether the job must be in a private ring; `None` if it can be in any ring.
    pub const fn is_of_private_ring(&self) -> Option<bool> {
        match self {
            Self::Number(_) => Some(false),
            Self::Private(_) => Some(true),
            Self::Id(id) => Some(id.is_private()),
            Self::Alias(_) => None,
        }
    }

    /// Whether the job with this id and alias matches. A number matches no job.
    pub fn means(&self, job: &JobId, alias: Option<&str>) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Private(console) => job.is_private() && job.number() == u64::from(*console),
            Self::Id(id) => id.means(job),
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

/// Most waiting spawns that a listing has of a job.
pub const MAX_READY: usize = 256;

/// Most blocked and most ended ranks that a listing has of a job. Both lists fit one frame.
pub const MAX_LISTED_RANKS: usize = 1 << 15;

/// The state of the spawns of a job, as its root manager knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnState {
    /// Ranks that wait for a spawn or for processes that they have spawned, numbered through the job.
    pub blocked: RankSet,
    /// Ranks that have ended, of worlds with living ranks and of the first world.
    pub ended: RankSet,
    /// The number of ranks that run and that no user has retired.
    pub running: u32,
    /// Spawns that wait, in their order.
    #[serde(deserialize_with = "at_most::<_, _, MAX_READY>")]
    pub ready: Vec<ReadySpawn>,
    /// How many more wait.
    pub more_ready: u32,
}

/// A spawn that waits for slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadySpawn {
    /// The rank that requested it, numbered through the job; `None`: a user.
    pub spawner: Option<Rank>,
    /// How many processes.
    pub size: u32,
    /// The first program as the spawner wrote it.
    pub program: String,
}

/// Ranks of one host that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRun {
    /// Their world, if it was spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// The rank that spawned their world: the number of its world, and its number there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(u32, Rank)>,
    /// The program as the user wrote it.
    pub program: String,
    /// The ranks, numbered through the job.
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

/// The ranks of a job on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPart {
    pub job: JobId,
    /// The job's alias.
    pub alias: Option<String>,
    /// The user that owns the job.
    pub user: String,
    /// The process id of its manager; 0 if unknown so far.
    pub manager: u32,
    /// The ranks started so far.
    #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
    pub runs: Vec<RankRun>,
    /// On the host of the root manager, if ranks have spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawns: Option<SpawnState>,
}

/// A job's part and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedPart {
    /// The daemon there.
    pub host: DaemonName,
    pub part: JobPart,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_a_job_of_the_receiving_daemon() {
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
    fn the_process_id_of_a_console_names_its_private_job() {
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
            parent: None,
            program: "a".to_owned(),
            ranks,
            pids: pids.to_vec(),
        };
        assert!(run(RankSet::below(2), &[7, 8]).is_sound());
        assert!(!run(RankSet::below(2), &[7]).is_sound());
        assert!(!run(RankSet::all(), &[7]).is_sound());
    }
}
