//! All rings that consoles of one run directory can ask: that of the standing daemon, and private ones.

use std::time::{Duration, Instant};

use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, HostedPart, JobRef, RingRequest};

use crate::conn::Conn;
use crate::console::{Console, ConsoleError};
use crate::rundir::{PrivateRing, RunDir, RunDirError};
use crate::siblings;

/// How long the daemon of a private ring may take, which asks the hosts of its one job.
const PRIVATE_PATIENCE: Duration = Duration::from_secs(12);
const LEAST: Duration = Duration::from_millis(100);

/// A daemon that a console can ask.
#[derive(Clone, Debug)]
pub enum Door {
    /// The daemon that serves this directory.
    Standing(RunDir),
    /// The first daemon of a private ring.
    Private(PrivateRing),
}

impl Door {
    /// Connects; `None` when no daemon is there.
    ///
    /// # Errors
    /// As for [`RunDir::connect`].
    pub fn connect(&self) -> Result<Option<Conn>, RunDirError> {
        match self {
            Self::Standing(rundir) => rundir.connect(),
            Self::Private(ring) => ring.connect(),
        }
    }

    /// Why nobody is there.
    pub(crate) fn nobody(&self) -> ConsoleError {
        match self {
            Self::Standing(rundir) => {
                let private = rundir.private_rings().unwrap_or_default();
                ConsoleError::NoDaemon {
                    path: format!("{}{}", rundir.path().display(), siblings::told(rundir)),
                    private: private.iter().map(|ring| ring.owner).collect(),
                }
            }
            Self::Private(_) => ConsoleError::Closed,
        }
    }
}

/// The jobs of one ring.
#[derive(Clone, Debug)]
pub struct RingJobs {
    /// The daemon that was asked, and its name.
    pub door: Door,
    /// See `door`.
    pub me: DaemonName,
    /// What runs where.
    pub jobs: Vec<HostedPart>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
}

impl RingJobs {
    /// The jobs that are meant, each once, in order.
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
    /// By ring, that of the standing daemon first.
    pub rings: Vec<RingJobs>,
    /// Why a ring is not among them although it is there.
    pub problems: Vec<String>,
}

/// What runs in the rings of `rundir`, in those of them where the job `wanted` can be. Waits at most `patience` for
/// each answer of the standing daemon. A ring that ends meanwhile is left out.
///
/// # Errors
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
    let standing = (kind != Some(true)).then(|| Door::Standing(rundir.clone()));
    let doors = standing.into_iter().chain(private.into_iter().map(Door::Private));
    let began = Instant::now();
    // All are asked before the first is waited for.
    let asked: Vec<(Door, Result<Console, ConsoleError>)> = doors
        .map(|door| {
            let console = Console::ask_at(&door, RingRequest::Jobs);
            (door, console)
        })
        .collect();
    let mut all = AllJobs::default();
    let mut first_error = None;
    for (door, console) in asked {
        let patience = match &door {
            Door::Standing(_) => patience,
            // One deadline for all of them, and a moment for what has come already.
            Door::Private(_) => PRIVATE_PATIENCE.saturating_sub(began.elapsed()).max(LEAST),
        };
        match (console.and_then(|console| told_jobs(console, patience)), &door) {
            (Ok((me, jobs, missing)), _) => all.rings.push(RingJobs { door, me, jobs, missing }),
            (Err(ConsoleError::Closed | ConsoleError::System(_)), Door::Private(_)) => {}
            (Err(ConsoleError::Silent(_)), Door::Private(ring)) => {
                all.problems.push(format!("job p{}: its daemon has not answered", ring.owner));
            }
            (Err(error), Door::Private(ring)) => {
                all.problems.push(format!("job p{}: {error}", ring.owner));
            }
            (Err(error), Door::Standing(_)) => first_error = Some(error),
        }
    }
    match first_error {
        Some(error) if all.rings.is_empty() => return Err(error),
        Some(ConsoleError::NoDaemon { .. }) | None => {}
        Some(error) => all.problems.push(error.to_string()),
    }
    Ok(all)
}

type Told = (DaemonName, Vec<HostedPart>, Vec<DaemonName>);

/// All answers of one daemon.
fn told_jobs(mut console: Console, patience: Duration) -> Result<Told, ConsoleError> {
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

/// Why a job is in no ring that can be asked for it.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// A ring does not say.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// There is no such job.
    #[error("no {job}; 'mpdlistjobs' lists them{}", .problems.iter().map(|p| format!(" ({p})")).collect::<String>())]
    NoJob {
        /// What was wanted.
        job: JobRef,
        /// Rings that did not answer.
        problems: Vec<String>,
    },
    /// Jobs of several rings are meant.
    #[error("there are several: {}; name one by its id", .0.join(", "))]
    Several(Vec<String>),
}

/// The daemon that can be asked for something of `job`. Asks the private rings only if there are some.
///
/// # Errors
/// [`FindError`]: no ring has the job, or several have one that is called so.
pub fn find(rundir: &RunDir, job: &JobRef, patience: Duration) -> Result<Door, FindError> {
    let standing = Door::Standing(rundir.clone());
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
        [one] => Ok(one.door.clone()),
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
