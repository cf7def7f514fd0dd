//! All rings that consoles of one run directory can ask: the ring of the standing daemon, and private rings.

use std::time::{Duration, Instant};

use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, HostedPart, JobRef, RingRequest};

use crate::ring::console::{Console, ConsoleError, Endpoint};
use crate::ring::rundir::RunDir;

/// The longest time for an answer of a private ring's daemon, which asks the hosts of its one job.
const PRIVATE_PATIENCE: Duration = Duration::from_secs(12);
const LEAST: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct RingJobs {
    /// The daemon that was asked.
    pub endpoint: Endpoint,
    pub me: DaemonName,
    /// The jobs, with the hosts where they run.
    pub jobs: Vec<HostedPart>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
}

impl RingJobs {
    /// The jobs that `job` names, each once, in order.
    pub fn meant(&self, job: &JobRef) -> Vec<&HostedPart> {
        let job = job.clone().as_asked_of(&self.me);
        let is_meant =
            |hosted: &&HostedPart| job.means(&hosted.part.job, hosted.part.alias.as_deref());
        self.jobs.iter().filter(is_meant).collect()
    }
}

/// The jobs of all rings that consoles of a run directory can ask.
#[derive(Clone, Debug, Default)]
pub struct AllJobs {
    /// The jobs by ring, the ring of the standing daemon first.
    pub rings: Vec<RingJobs>,
    /// The errors of rings that exist and could not be asked.
    pub problems: Vec<String>,
}

/// The jobs in the rings of `rundir` in which the job `wanted` can be. Waits at most `patience` for each answer of the
/// standing daemon. A ring that ends meanwhile is left out.
///
/// # Errors
/// No ring can be asked; the error is that of the standing daemon.
/// No ring can be asked, and why the standing daemon cannot.
pub fn jobs(
    rundir: &RunDir,
    wanted: Option<&JobRef>,
    patience: Duration,
) -> Result<AllJobs, ConsoleError> {
    let kind = wanted.and_then(JobRef::is_of_private_ring);
    let private = match kind {
        Some(false) => Vec::new(),
        _ => rundir.private_rings()?,
    };
    let standing = (kind != Some(true)).then(|| Endpoint::Standing(rundir.clone()));
    let endpoints = standing.into_iter().chain(private.into_iter().map(Endpoint::Private));
    let began = Instant::now();
    // All daemons are asked before the wait for the first answer.
    let asked: Vec<(Endpoint, Result<Console, ConsoleError>)> = endpoints
        .map(|endpoint| {
            let console = Console::ask_at(&endpoint, RingRequest::Jobs);
            (endpoint, console)
        })
        .collect();
    let mut all = AllJobs::default();
    let mut first_error = None;
    for (endpoint, console) in asked {
        let patience = match &endpoint {
            Endpoint::Standing(_) => patience,
            // One deadline for all of them, and at least a moment for answers that have arrived.
            Endpoint::Private(_) => PRIVATE_PATIENCE.saturating_sub(began.elapsed()).max(LEAST),
        };
        match (console.and_then(|console| read_jobs(console, patience)), &endpoint) {
            (Ok((me, jobs, missing)), _) => {
                all.rings.push(RingJobs { endpoint, me, jobs, missing })
            }
            (Err(ConsoleError::Closed | ConsoleError::System(_)), Endpoint::Private(_)) => {}
            (Err(ConsoleError::Silent(_)), Endpoint::Private(ring)) => {
                all.problems.push(format!("job p{}: its daemon has not answered", ring.owner));
            }
            (Err(error), Endpoint::Private(ring)) => {
                all.problems.push(format!("job p{}: {error}", ring.owner));
            }
            (Err(error), Endpoint::Standing(_)) => first_error = Some(error),
        }
    }
    match first_error {
        Some(error) if all.rings.is_empty() => return Err(error),
        Some(ConsoleError::NoDaemon { .. }) | None => {}
        Some(error) => all.problems.push(error.to_string()),
    }
    Ok(all)
}

type JobsAnswer = (DaemonName, Vec<HostedPart>, Vec<DaemonName>);

/// All answers of one daemon.
fn read_jobs(mut console: Console, patience: Duration) -> Result<JobsAnswer, ConsoleError> {
    let mut all = Vec::new();
    loop {
        let ConsoleReply::Jobs { me, jobs, missing, more } = console.answer(Some(patience))? else {
            return Err(ConsoleError::Unfit);
        };
        all.extend(jobs);
        if !more {
            return Ok((me, all, missing));
        }
    }
}

/// Why no ring can be asked for a job.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// A ring gives no answer.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// There is no such job.
    #[error("no {job}; 'mpdlistjobs' lists them{}", .problems.iter().map(|p| format!(" ({p})")).collect::<String>())]
    NoJob {
        /// The job that was wanted.
        job: JobRef,
        /// Rings that did not answer.
        problems: Vec<String>,
    },
    /// Several rings have a job with this name.
    #[error("there are several: {}; name one by its id", .0.join(", "))]
    Several(Vec<String>),
}

/// The daemon that can be asked about `job`. Asks the private rings only if there are any.
///
/// # Errors
/// [`FindError`]: no ring has the job, or several have a job of this name.
pub fn find(rundir: &RunDir, job: &JobRef, patience: Duration) -> Result<Endpoint, FindError> {
    let standing = Endpoint::Standing(rundir.clone());
    if job.is_of_private_ring() == Some(false) {
        return Ok(standing);
    }
    let is_alias = job.is_of_private_ring().is_none();
    if is_alias && rundir.private_rings().map_err(ConsoleError::from)?.is_empty() {
        return Ok(standing);
    }
    let AllJobs { rings, problems } = jobs(rundir, Some(job), patience)?;
    let has_it = |ring: &&RingJobs| !ring.meant(job).is_empty();
    let found: Vec<&RingJobs> = rings.iter().filter(has_it).collect();
    match &found[..] {
        [] => Err(FindError::NoJob { job: job.clone(), problems }),
        [one] => Ok(one.endpoint.clone()),
        several => Err(FindError::Several(ids(several.iter().flat_map(|ring| ring.meant(job))))),
    }
}

/// The ids of these jobs, each once.
pub fn ids<'a>(parts: impl Iterator<Item = &'a HostedPart>) -> Vec<String> {
    let mut ids: Vec<String> = parts.map(|hosted| hosted.part.job.to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
