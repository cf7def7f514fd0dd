//! Requests to the daemon of this host, each with its reply.

use std::time::{Duration, Instant};

use mpd_io::ring::all_rings::{self, FindError};
use mpd_io::ring::console::Endpoint;
use mpd_io::ring::console::{self, Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::DaemonName;
use mpd_wire::message::{
    ConsoleReply, HostedPart, JobOrder, JobRef, MemberDescription, Published, RingRequest, RingView,
};

pub use mpd_io::ring::console::PATIENCE;

/// Deadline for a request that concerns all members of the ring. It exceeds the daemon's own
/// deadline of 10 s, so that the daemon's answer arrives first.
pub const RING_PATIENCE: Duration = Duration::from_secs(15);

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The daemon did not answer, or it refused.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// No ring has the job, or several rings have it.
    #[error(transparent)]
    Find(#[from] FindError),
}

impl AskError {
    /// The daemon's reply does not fit the request.
    pub const UNFIT: Self = Self::Console(ConsoleError::Unfit);

    /// The text of the refusal, if the daemon refused.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Console(ConsoleError::Refused(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether the daemon accepted the connection but did not answer in time.
    pub const fn is_silence(&self) -> bool {
        matches!(self, Self::Console(ConsoleError::Silent(_)))
    }
}

/// The result of laps: messages that went round the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Laps {
    /// All laps were completed.
    Home {
        /// Hops of the last lap.
        hops: u32,
        /// The members on the way of the last lap, if they were requested.
        names: Vec<DaemonName>,
        /// Time from the request to the end of the last lap.
        took: Duration,
    },
    /// A lap was lost.
    Lost {
        /// Number of laps that were completed before.
        home: u32,
    },
}

/// The answers of all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Members that answered, in the order of the ring.
    pub members: Vec<MemberDescription>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
    /// Largest number of forwarding steps to any member.
    pub depth: u32,
}

/// The ring as the daemon knows it.
///
/// # Errors
/// [`AskError`].
pub fn describe(rundir: &RunDir, patience: Duration) -> Result<RingView, AskError> {
    Ok(console::describe(rundir, patience)?)
}

/// Sends messages round the ring, one after the other.
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

/// Requests an answer from every member.
///
/// # Errors
/// [`AskError`].
pub fn census(rundir: &RunDir) -> Result<Census, AskError> {
    let mut console = Console::ask(rundir, RingRequest::Census)?;
    let mut all = Vec::new();
    loop {
        match console.answer(Some(RING_PATIENCE))? {
            ConsoleReply::CensusPart { members } => all.extend(members),
            ConsoleReply::Census { members, missing, depth } => {
                all.extend(members);
                return Ok(Census { members: all, missing, depth });
            }
            _ => return Err(AskError::UNFIT),
        }
    }
}

/// The jobs of all rings of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The name of the standing daemon; `None` if only private rings run here.
    pub me: Option<DaemonName>,
    /// The parts of jobs on each host. Within a ring, this host comes first, then the order of the
    /// ring.
    pub jobs: Vec<HostedPart>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
    /// Rings that did not answer, and why.
    pub problems: Vec<String>,
}

/// The jobs of the rings that consoles of `rundir` can reach.
///
/// # Errors
/// [`AskError`].
pub fn jobs(rundir: &RunDir) -> Result<Listing, AskError> {
    let all = all_rings::jobs(rundir, None, RING_PATIENCE)?;
    let problems = all.problems;
    let mut listing = Listing { me: None, jobs: Vec::new(), missing: Vec::new(), problems };
    for ring in all.rings {
        if let Endpoint::Standing(_) = ring.endpoint {
            listing.me = Some(ring.me);
        }
        listing.jobs.extend(by_host(ring.jobs));
        listing.missing.extend(ring.missing);
    }
    Ok(listing)
}

/// Puts the parts of one host together. The sort is stable, so their order is kept.
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

/// The state of the daemon's machine, or of the manager of a job here.
///
/// # Errors
/// [`AskError`].
pub fn state(rundir: &RunDir, job: Option<JobRef>) -> Result<String, AskError> {
    let endpoint = match &job {
        Some(job) => all_rings::find(rundir, job, RING_PATIENCE)?,
        None => Endpoint::Standing(rundir.clone()),
    };
    let mut console = Console::ask_at(&endpoint, RingRequest::State { job })?;
    let mut all = String::new();
    loop {
        let ConsoleReply::State { text, more } = console.answer(Some(PATIENCE))? else {
            return Err(AskError::UNFIT);
        };
        all += &text;
        if !more {
            return Ok(all);
        }
    }
}

/// Sends a command to members; returns the members that did not confirm it.
///
/// # Errors
/// [`AskError`].
pub fn command(rundir: &RunDir, request: RingRequest) -> Result<Vec<DaemonName>, AskError> {
    command_at(&Endpoint::Standing(rundir.clone()), request)
}

/// Sends an order to a job, through its ring.
///
/// # Errors
/// [`AskError`], also if no ring has the job, or several rings have a job of this name.
pub fn job_command(
    rundir: &RunDir,
    job: JobRef,
    order: JobOrder,
) -> Result<Vec<DaemonName>, AskError> {
    let endpoint = all_rings::find(rundir, &job, RING_PATIENCE)?;
    command_at(&endpoint, RingRequest::Job { job, order })
}

fn command_at(endpoint: &Endpoint, request: RingRequest) -> Result<Vec<DaemonName>, AskError> {
    match Console::ask_at(endpoint, request)?.answer(Some(RING_PATIENCE))? {
        ConsoleReply::Done { missing } => Ok(missing),
        _ => Err(AskError::UNFIT),
    }
}

/// Sends one request and returns its reply.
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

/// The time left until `deadline`.
pub fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
