//! The job that debuggers attach to: its ranks with their hosts and processes.

use std::time::Duration;

use mpd_debug::numbers::Numbers;
use mpd_io::ring::all_rings::{self, AllJobs, RingJobs};
use mpd_io::ring::console::Endpoint;
use mpd_wire::job::{Argset, Debug, HostChoice, JobSpec, MAX_ARGSETS};
use mpd_wire::message::{HostedPart, JobRef};
use mpd_wire::{DaemonName, Rank, RankSet};

use crate::ring_options::RingOptions;

/// Time for the ring to list its jobs.
const PATIENCE: Duration = Duration::from_secs(15);

/// A rank of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    rank: Rank,
    /// Host of the rank.
    host: DaemonName,
    /// Process id on that host.
    pid: u32,
}

/// The target of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub job: JobRef,
    /// The selected ranks; `None` for all.
    pub ranks: Option<RankSet>,
}

impl Target {
    /// Finds the processes and turns `like` into the job whose ranks debug them. Returns the labels
    /// of these ranks, and the endpoint that runs the target job.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn aim(
        self,
        ring_options: &RingOptions,
        like: &mut JobSpec,
    ) -> Result<(Numbers, Endpoint), TargetError> {
        let (processes, endpoint) = find(ring_options, self.job, self.ranks.as_ref())?;
        *like = attach(like.clone(), &processes);
        let numbers = Numbers::of_some(&processes.iter().map(|process| process.rank).collect());
        Ok((numbers, endpoint))
    }
}

/// Why debuggers cannot attach.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The ring does not answer.
    #[error("cannot list the running jobs")]
    Ring(#[source] anyhow::Error),
    /// The job does not exist.
    #[error("there is no {0}; 'mpdlistjobs' lists the running jobs{1}")]
    NoJob(JobRef, Unreported),
    /// Several jobs have this name.
    #[error("there are several: {0}; name one by its id")]
    Several(String),
    /// The job does not have these ranks.
    #[error("{job} has no rank {wanted}; its ranks are {there}")]
    NoRanks {
        job: Box<JobRef>,
        /// The selected ranks that do not exist.
        wanted: RankSet,
        /// The existing ranks.
        there: RankSet,
    },
    /// There are too many processes for a session.
    #[error(
        "{0} processes are more than the {MAX_ARGSETS} that debuggers can attach to at once; select some with -r"
    )]
    TooMany(usize),
}

/// Hosts that have not listed their jobs, and the reasons of rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreported(Vec<DaemonName>, Vec<String>);

impl std::fmt::Display for Unreported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.0.is_empty() {
            let names: Vec<&str> = self.0.iter().map(DaemonName::as_str).collect();
            write!(f, " (no answer from {})", names.join(", "))?;
        }
        self.1.iter().try_for_each(|problem| write!(f, " ({problem})"))
    }
}

/// The processes of the job in the order of ranks, and its endpoint; only `ranks` if given.
///
/// # Errors
/// [`TargetError`].
fn find(
    ring_options: &RingOptions,
    job: JobRef,
    ranks: Option<&RankSet>,
) -> Result<(Vec<Process>, Endpoint), TargetError> {
    let listed = |job| Ok(all_rings::jobs(&ring_options.rundir()?, Some(job), PATIENCE)?);
    let all: AllJobs = listed(&job).map_err(TargetError::Ring)?;
    pick(job, ranks, all)
}

/// Finds the job among the jobs of all rings.
fn pick(
    job: JobRef,
    ranks: Option<&RankSet>,
    all: AllJobs,
) -> Result<(Vec<Process>, Endpoint), TargetError> {
    let AllJobs { rings, problems } = all;
    let ids = all_rings::ids(rings.iter().flat_map(|ring| ring.meant(&job)));
    if ids.len() > 1 {
        return Err(TargetError::Several(ids.join(", ")));
    }
    if let Some(ring) = rings.iter().find(|ring| !ring.meant(&job).is_empty()) {
        return Ok((choose(job, ranks, ring)?, ring.endpoint.clone()));
    }
    let missing = rings.iter().flat_map(|ring| ring.missing.clone()).collect();
    let job = match rings.first() {
        Some(ring) => job.as_asked_of(&ring.me),
        None => job,
    };
    Err(TargetError::NoJob(job, Unreported(missing, problems)))
}

/// The ranks of the job among the jobs of a ring, without spawned ranks.
fn choose(
    job: JobRef,
    wanted: Option<&RankSet>,
    ring: &RingJobs,
) -> Result<Vec<Process>, TargetError> {
    let job = job.as_asked_of(&ring.me);
    let mut processes: Vec<Process> = Vec::new();
    for HostedPart { host, part } in ring.meant(&job) {
        for run in part.runs.iter().filter(|run| run.world.is_none()) {
            let pairs = run.ranks.ranks().zip(&run.pids);
            processes.extend(pairs.map(|(rank, &pid)| Process { rank, host: host.clone(), pid }));
        }
    }
    if processes.is_empty() {
        return Err(TargetError::NoJob(job, Unreported(ring.missing.clone(), Vec::new())));
    }
    processes.sort_by_key(|process| process.rank);
    if let Some(wanted) = wanted {
        let there: RankSet = processes.iter().map(|process| process.rank).collect();
        let mut none = wanted.clone();
        none.remove(&there);
        // "all" selects the existing ranks.
        if !none.is_empty() && *wanted != RankSet::all() {
            let job = Box::new(job);
            return Err(TargetError::NoRanks { job, wanted: none, there });
        }
        processes.retain(|process| wanted.contains(process.rank));
    }
    match processes.len() {
        many if many > MAX_ARGSETS => Err(TargetError::TooMany(many)),
        _ => Ok(processes),
    }
}

/// The job whose ranks debug these processes, on their hosts. The rest of it is as in `like`, whose
/// only program is the debugger.
fn attach(like: JobSpec, processes: &[Process]) -> JobSpec {
    let mut spec = like;
    let Some(pattern) = spec.argsets.pop() else { return spec };
    spec.argsets = processes
        .iter()
        .map(|process| Argset {
            size: 1,
            hosts: Some(vec![HostChoice::new(process.host.to_string(), None)]),
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
    use mpd_io::ring::rundir::RunDir;
    use mpd_wire::job::World;
    use mpd_wire::message::{JobPart, RankRun};

    use super::*;

    fn name(host: &str) -> DaemonName {
        DaemonName::new(host).unwrap()
    }

    fn part(host: &str, job: &str, ranks: &str, pids: &[u32], world: Option<World>) -> HostedPart {
        let run = RankRun {
            world,
            parent: None,
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
            spawns: None,
        };
        HostedPart { host: name(host), part }
    }

    fn ring(me: &str, jobs: Vec<HostedPart>) -> RingJobs {
        let endpoint = Endpoint::Standing(RunDir::at(format!("/nowhere/{me}").into()));
        RingJobs { endpoint, me: name(me), jobs, missing: vec![name("h9")] }
    }

    fn listed() -> AllJobs {
        let jobs = vec![
            part("h2", "1@h1", "1,3", &[21, 23], None),
            part("h1", "1@h1", "0,2", &[10, 12], None),
            part("h1", "1@h1", "4", &[99], Some(World { number: 1, first: Rank(4), size: 1 })),
            part("h1", "2@h2", "0", &[77], None),
        ];
        let private = vec![part("h1", "p5@h1", "0-1", &[55, 56], None)];
        AllJobs { rings: vec![ring("h1", jobs), ring("h1", private)], problems: Vec::new() }
    }

    fn chosen(job: &str, ranks: Option<&str>) -> Result<String, String> {
        let job = JobRef::or_alias(job).unwrap();
        let ranks: Option<RankSet> = ranks.map(|ranks| ranks.parse().unwrap());
        let found = pick(job, ranks.as_ref(), listed());
        let text = |p: &Process| format!("{}:{}:{}", p.rank, p.host, p.pid);
        found
            .map(|(all, _)| all.iter().map(text).collect::<Vec<_>>().join(" "))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_ranks_of_a_job_are_found_on_all_hosts_without_spawned_ranks() {
        assert_eq!(chosen("1", None).unwrap(), "0:h1:10 1:h2:21 2:h1:12 3:h2:23");
        assert_eq!(chosen("1@h1", Some("1-2")).unwrap(), "1:h2:21 2:h1:12");
        assert_eq!(chosen("2@h2", Some("0")).unwrap(), "0:h1:77");
        assert_eq!(chosen("p5", None).unwrap(), "0:h1:55 1:h1:56");
        assert_eq!(chosen("p5@h1", Some("1")).unwrap(), "1:h1:56");
    }

    #[test]
    fn missing_jobs_and_ranks_are_named() {
        assert!(chosen("7", None).unwrap_err().contains("no job 7@h1"));
        assert!(chosen("7", None).unwrap_err().contains("no answer from h9"));
        assert!(chosen("ocean", None).unwrap_err().contains("1@h1, 2@h2, p5@h1"));
        assert!(chosen("p6", None).unwrap_err().contains("no job p6;"));
        assert_eq!(
            chosen("1", Some("3-5")).unwrap_err(),
            "job 1@h1 has no rank 4-5; its ranks are 0-3"
        );
    }
}
