//! The job that debuggers are attached to: which process on which host is which rank.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use mpd_io::console::{self, Jobs};
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_proto::debug::numbers::Numbers;
use mpd_proto::job::{Argset, Bytes, Debug, HostWish, JobSpec, MAX_ARGSETS};
use mpd_proto::message::{HostedPart, JobRef};
use mpd_proto::ring::DaemonName;
use mpd_proto::{Rank, RankSet};

use crate::caller::Caller;
use crate::debug::Wish;

/// How long the ring may take to say what runs in it.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a debugger needs of the user's environment.
const DEBUGGERS_VARIABLES: [&str; 5] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER"];

/// A rank of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    /// Its number.
    rank: Rank,
    /// Where it runs.
    host: DaemonName,
    /// Its process id there.
    pid: u32,
}

/// What is to be attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The job.
    pub job: JobRef,
    /// Some of its ranks only.
    pub ranks: Option<RankSet>,
}

impl Target {
    /// The words of a job that debuggers run in, of which [`Target::aim`] makes one for each process: it has
    /// what a debugger itself needs of our environment, and goes on as long as it likes.
    pub(crate) fn words(wish: &Wish, caller: &Caller) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            ["-n", "1", "-hosts", "localhost", "-timeout", "0", "-envnone"].map(Into::into).into();
        // What the user has set for gdb is for what the user types.
        let wanted: &[&str] = if wish.stacks.is_some() { &[] } else { &DEBUGGERS_VARIABLES };
        let is_wanted = |name: &Bytes| wanted.iter().any(|wanted| wanted.as_bytes() == name);
        for (name, value) in caller.environment.iter().filter(|(name, _)| is_wanted(name)) {
            let (name, value) = (OsStr::from_bytes(name), OsStr::from_bytes(value));
            words.extend(["-env".into(), name.to_owned(), value.to_owned()]);
        }
        if wish.stacks.is_some() {
            words.extend(["-wdir", "/"].map(OsString::from));
        }
        words.extend(["--".into(), OsStr::from_bytes(wish.gdb()).to_owned()]);
        words
    }

    /// Finds the processes and makes of `like` the job whose ranks debug them. What people call these ranks.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn aim(self, like: &mut JobSpec) -> Result<Numbers, TargetError> {
        let processes = find(self.job, self.ranks.as_ref())?;
        *like = attach(like.clone(), &processes);
        Ok(Numbers::of_some(&processes.iter().map(|process| process.rank).collect()))
    }
}

/// Why there is nothing to attach to.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The ring does not say.
    #[error("cannot tell which jobs run")]
    Ring(#[source] anyhow::Error),
    /// There is no such job.
    #[error("there is no {0}; 'mpdlistjobs' lists those that there are{1}")]
    NoJob(JobRef, Unheard),
    /// There are several.
    #[error("there are several: {0}; name one by its id")]
    Several(String),
    /// It has no such ranks.
    #[error("{job} has no rank {wanted}; its ranks are {there}")]
    NoRanks {
        /// The job.
        job: JobRef,
        /// Of those that were wanted, the ones that there are not.
        wanted: RankSet,
        /// Those that there are.
        there: RankSet,
    },
    /// A session of a debugger that large cannot be.
    #[error(
        "{0} processes are more than the {MAX_ARGSETS} that debuggers can be attached to at once; name some with -r"
    )]
    TooMany(usize),
}

/// Hosts that have not said what runs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unheard(Vec<DaemonName>);

impl std::fmt::Display for Unheard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.0.iter().map(DaemonName::as_str).collect();
        write!(f, " (no answer from {})", names.join(", "))
    }
}

/// The processes of the job that is meant, in the order of their ranks; only `ranks` if given.
///
/// # Errors
/// [`TargetError`].
fn find(job: JobRef, ranks: Option<&RankSet>) -> Result<Vec<Process>, TargetError> {
    let (me, parts, missing) = listing().map_err(TargetError::Ring)?;
    choose(job.as_asked_of(&me), ranks, &parts, missing)
}

fn listing() -> anyhow::Result<Jobs> {
    let rundir = RunDir::resolve(None, &RingName::resolve(None)?, &host_name());
    Ok(console::jobs(&rundir, PATIENCE)?)
}

/// Of all that runs, the ranks of the job; those that it has spawned are not among them.
fn choose(
    job: JobRef,
    wanted: Option<&RankSet>,
    parts: &[HostedPart],
    missing: Vec<DaemonName>,
) -> Result<Vec<Process>, TargetError> {
    let is_meant = |hosted: &&HostedPart| job.means(&hosted.part.job, hosted.part.alias.as_deref());
    let meant: Vec<&HostedPart> = parts.iter().filter(is_meant).collect();
    let mut ids: Vec<String> = meant.iter().map(|hosted| hosted.part.job.to_string()).collect();
    ids.sort();
    ids.dedup();
    if ids.len() > 1 {
        return Err(TargetError::Several(ids.join(", ")));
    }
    let mut processes: Vec<Process> = Vec::new();
    for HostedPart { host, part } in meant {
        for run in part.runs.iter().filter(|run| run.world.is_none()) {
            let pairs = run.ranks.ranks().zip(&run.pids);
            processes.extend(pairs.map(|(rank, &pid)| Process { rank, host: host.clone(), pid }));
        }
    }
    if processes.is_empty() {
        return Err(TargetError::NoJob(job, Unheard(missing)));
    }
    processes.sort_by_key(|process| process.rank);
    if let Some(wanted) = wanted {
        let there: RankSet = processes.iter().map(|process| process.rank).collect();
        let mut none = wanted.clone();
        none.remove(&there);
        // "all" are those that there are.
        if !none.is_empty() && *wanted != RankSet::all() {
            return Err(TargetError::NoRanks { job, wanted: none, there });
        }
        processes.retain(|process| wanted.contains(process.rank));
    }
    match processes.len() {
        many if many > MAX_ARGSETS => Err(TargetError::TooMany(many)),
        _ => Ok(processes),
    }
}

/// The job whose ranks are debuggers of these processes, on their hosts; the rest of it is as `like` says,
/// which has one program, the debugger.
fn attach(like: JobSpec, processes: &[Process]) -> JobSpec {
    let mut spec = like;
    let Some(pattern) = spec.argsets.pop() else { return spec };
    spec.argsets = processes
        .iter()
        .map(|process| Argset {
            size: 1,
            hosts: Some(vec![HostWish { name: process.host.to_string(), slots: None }]),
            ..pattern.clone()
        })
        .collect();
    spec.placement.hosts.clear();
    spec.placement.exclude.clear();
    let gdb = pattern.program;
    spec.debug = Some(Debug { gdb, attach: processes.iter().map(|p| p.pid).collect() });
    spec
}

#[cfg(test)]
mod tests {
    use mpd_proto::job::World;
    use mpd_proto::message::{JobPart, RankRun};

    use super::*;

    fn name(host: &str) -> DaemonName {
        DaemonName::new(host).unwrap()
    }

    fn part(host: &str, job: &str, ranks: &str, pids: &[u32], world: Option<World>) -> HostedPart {
        let run = RankRun {
            world,
            program: "a".to_owned(),
            ranks: ranks.parse().unwrap(),
            pids: pids.to_vec(),
        };
        let part = JobPart {
            job: job.parse().unwrap(),
            alias: Some("ocean".to_owned()),
            user: "me".to_owned(),
            manager: 1,
            runs: vec![run],
        };
        HostedPart { host: name(host), part }
    }

    fn listed() -> Vec<HostedPart> {
        vec![
            part("h2", "1@h1", "1,3", &[21, 23], None),
            part("h1", "1@h1", "0,2", &[10, 12], None),
            part("h1", "1@h1", "4", &[99], Some(World { number: 1, first: Rank(4), size: 1 })),
            part("h1", "2@h2", "0", &[77], None),
        ]
    }

    fn chosen(job: &str, ranks: Option<&str>) -> Result<String, String> {
        let job = JobRef::or_alias(job).unwrap().as_asked_of(&name("h1"));
        let ranks: Option<RankSet> = ranks.map(|ranks| ranks.parse().unwrap());
        let found = choose(job, ranks.as_ref(), &listed(), vec![name("h9")]);
        let text = |p: &Process| format!("{}:{}:{}", p.rank, p.host, p.pid);
        found
            .map(|all| all.iter().map(text).collect::<Vec<_>>().join(" "))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_ranks_of_a_job_are_found_wherever_they_run_and_those_that_it_spawned_left_out() {
        assert_eq!(chosen("1", None).unwrap(), "0:h1:10 1:h2:21 2:h1:12 3:h2:23");
        assert_eq!(chosen("1@h1", Some("1-2")).unwrap(), "1:h2:21 2:h1:12");
        assert_eq!(chosen("2@h2", Some("0")).unwrap(), "0:h1:77");
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(chosen("7", None).unwrap_err().contains("no job 7@h1"));
        assert!(chosen("7", None).unwrap_err().contains("no answer from h9"));
        assert!(chosen("ocean", None).unwrap_err().contains("1@h1, 2@h2"));
        assert_eq!(
            chosen("1", Some("3-5")).unwrap_err(),
            "job 1@h1 has no rank 4-5; its ranks are 0-3"
        );
    }
}
