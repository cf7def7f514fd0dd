//! Questions to the daemon of this host, each with the one answer that fits it.

use std::time::{Duration, Instant};

use mpd_io::console::{Console, ConsoleError};
use mpd_io::rings::{self, Door, FindError};
use mpd_io::rundir::RunDir;
use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, HostedPart, JobRef, Published, RingRequest, RingView, Word};

pub use mpd_io::console::PATIENCE;

/// How long the ring may take for what concerns all its members: the daemon's own deadline for it
/// is 10 s, and its answer wants to be heard.
pub const RING_PATIENCE: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No word from the daemon, or a refusal.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// No ring has the job that is meant, or several have.
    #[error(transparent)]
    Find(#[from] FindError),
}

impl AskError {
    /// The daemon answered something else than it was asked.
    pub const UNFIT: Self = Self::Console(ConsoleError::Unfit);

    /// The daemon's own words, if it refused.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Console(ConsoleError::Refused(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether the daemon is there and has said nothing.
    pub const fn is_silence(&self) -> bool {
        matches!(self, Self::Console(ConsoleError::Silent(_)))
    }
}

/// How laps went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Laps {
    /// All came home.
    Home {
        /// Hops of the last one.
        hops: u32,
        /// Its way, if asked for.
        names: Vec<DaemonName>,
        /// From request to end.
        took: Duration,
    },
    /// One was lost.
    Lost {
        /// How many came home before it.
        home: u32,
    },
}

/// A word from every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Those who answered, in the order of the ring.
    pub members: Vec<Word>,
    /// Live members that did not.
    pub missing: Vec<DaemonName>,
    /// Most forwarding steps to any member.
    pub depth: u32,
}

/// The ring as the daemon knows it.
///
/// # Errors
/// [`AskError`].
pub fn describe(rundir: &RunDir, patience: Duration) -> Result<RingView, AskError> {
    match one(rundir, RingRequest::Describe, patience)? {
        ConsoleReply::Ring(view) => Ok(view),
        _ => Err(AskError::UNFIT),
    }
}

/// A message round the ring.
///
/// # Errors
/// [`AskError`].
pub fn laps(rundir: &RunDir, laps: u32, trace: bool, patience: Duration) -> Result<Laps, AskError> {
    match one(rundir, RingRequest::Lap { laps, trace }, patience)? {
        ConsoleReply::LapsHome { hops, names, took_us } => {
            Ok(Laps::Home { hops, names, took: Duration::from_micros(took_us) })
        }
        ConsoleReply::LapLost { home } => Ok(Laps::Lost { home }),
        _ => Err(AskError::UNFIT),
    }
}

/// A word from every member.
///
/// # Errors
/// [`AskError`].
pub fn census(rundir: &RunDir) -> Result<Census, AskError> {
    match one(rundir, RingRequest::Census, RING_PATIENCE)? {
        ConsoleReply::Census { members, missing, depth } => Ok(Census { members, missing, depth }),
        _ => Err(AskError::UNFIT),
    }
}

/// The jobs of all rings here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The standing daemon; none: only private rings are here.
    pub me: Option<DaemonName>,
    /// What runs where, ring by ring, this host first, then in the order of the ring.
    pub jobs: Vec<HostedPart>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
    /// Rings that did not answer, and why.
    pub problems: Vec<String>,
}

/// What runs in the rings that consoles of `rundir` can ask.
///
/// # Errors
/// [`AskError`].
pub fn jobs(rundir: &RunDir) -> Result<Listing, AskError> {
    let all = rings::jobs(rundir, None, RING_PATIENCE)?;
    let problems = all.problems;
    let mut listing = Listing { me: None, jobs: Vec::new(), missing: Vec::new(), problems };
    for ring in all.rings {
        if let Door::Standing(_) = ring.door {
            listing.me = Some(ring.me);
        }
        listing.jobs.extend(by_host(ring.jobs));
        listing.missing.extend(ring.missing);
    }
    Ok(listing)
}

/// Later parts of a host come behind it; a stable sort keeps their order.
fn by_host(mut parts: Vec<HostedPart>) -> Vec<HostedPart> {
    let mut hosts: Vec<DaemonName> = Vec::new();
    for part in &parts {
        if hosts.last() != Some(&part.host) && !hosts.contains(&part.host) {
            hosts.push(part.host.clone());
        }
    }
    parts.sort_by_cached_key(|part| hosts.iter().position(|host| *host == part.host));
    parts
}

/// The names that jobs have published, in order.
///
/// # Errors
/// [`AskError`].
pub fn names(rundir: &RunDir) -> Result<Vec<Published>, AskError> {
    let mut console = Console::ask(rundir, RingRequest::Names)?;
    let mut all = Vec::new();
    loop {
        match console.answer(Some(PATIENCE))? {
            ConsoleReply::Names { names, more } => {
                all.extend(names);
                if !more {
                    return Ok(all);
                }
            }
            _ => return Err(AskError::UNFIT),
        }
    }
}

/// A command to members; gives those that could not be told.
///
/// # Errors
/// [`AskError`].
pub fn command(rundir: &RunDir, request: RingRequest) -> Result<Vec<DaemonName>, AskError> {
    command_at(&Door::Standing(rundir.clone()), request)
}

/// A command about a job, to the ring that has it.
///
/// # Errors
/// [`AskError`]: also if no ring has it, or several have one that is called so.
pub fn job_command(
    rundir: &RunDir,
    job: JobRef,
    request: impl FnOnce(JobRef) -> RingRequest,
) -> Result<Vec<DaemonName>, AskError> {
    let door = rings::find(rundir, &job, RING_PATIENCE)?;
    command_at(&door, request(job))
}

fn command_at(door: &Door, request: RingRequest) -> Result<Vec<DaemonName>, AskError> {
    match Console::ask_at(door, request)?.answer(Some(RING_PATIENCE))? {
        ConsoleReply::Done { missing } => Ok(missing),
        _ => Err(AskError::UNFIT),
    }
}

/// One question and the answer to it, whatever it is.
///
/// # Errors
/// [`AskError::Console`].
pub fn one(
    rundir: &RunDir,
    request: RingRequest,
    patience: Duration,
) -> Result<ConsoleReply, AskError> {
    Ok(Console::ask(rundir, request)?.answer(Some(patience))?)
}

/// What is left until `deadline`.
pub fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
