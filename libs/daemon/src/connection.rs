//! One connection on the Unix socket of a daemon: what its other end may send. An unexpected frame is refused.
//!
//! `D` are the descriptors that consoles pass.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_jobtable::Input as JobInput;
use mpd_sansio::Time;
use mpd_wire::frame::{self, InvalidFrame, Kind, Versions};
use mpd_wire::job::{JobSpec, MAX_SPEC};
use mpd_wire::message::{ConsoleReply, ManagerReport, Opening, VERSION};
use mpd_wire::{ConsoleId, JobId};
use serde::Deserialize;

use crate::guests::{check_guest, check_job_of_guest};
use crate::input::{Input, Submitted};

/// How long a peer may take to finish its request, or to read the last answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Limits of the number of connections without managers. The actual limit leaves enough descriptors for links and jobs.
const MAX_CONSOLES: usize = 4096;
const MIN_CONSOLES: usize = 8;

/// Most unread bytes of a console before it is closed. Listings of jobs may be long at once.
const MAX_UNREAD: usize = 1 << 20;
const MAX_UNREAD_JOBS: usize = 32 << 20;

/// The release of this daemon.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// How a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the socket of the run directory.
    Standing,
    /// Inherited from the mpirun of a private ring, which is this process.
    Owner(u32),
    /// Through the socket of a private ring, from this process.
    Guest(u32),
}

/// The present role of a connection.
#[derive(Debug)]
enum State<D> {
    /// The mpirun of a private ring, which has sent nothing yet. It submits when all hosts are in the ring.
    Owner,
    /// Has sent nothing yet.
    ExpectOpening,
    /// A console that is sending its specification.
    ExpectSpec {
        wanted: usize,
        got: Vec<u8>,
        passed: VecDeque<D>,
    },
    /// Has sent a request and waits for the answer. One that submits a job has handed this in.
    Asking(Option<Handed<D>>),
    /// Has the last answer; closes when the answer is written.
    Leaving,
    Manager(JobId),
}

/// A connection.
#[derive(Debug)]
pub struct Connection<D> {
    /// Consoles are known by it.
    console: ConsoleId,
    way: Way,
    /// Whether a debugger would find the job that it submits.
    is_findable: bool,
    state: State<D>,
    /// The time of the connection, or of the last answer.
    since: Time,
}

/// What a frame means.
#[derive(Debug)]
pub enum Taken {
    /// It only changed the state.
    Frame,
    /// The console passes descriptors with it: give them to [`Connection::pass`].
    Passes,
    /// It is of an unknown kind.
    Skipped(String),
    /// A manager reports.
    Report(Input),
    /// A console asks or submits. Nothing is read before the answer.
    Asks(Input),
    /// A manager whose daemon was replaced registers. Nothing is read before the answer.
    Registers(Opening),
}

/// What the root manager of a job gets from its console.
#[derive(Debug)]
pub struct Handed<D> {
    /// The encoded specification.
    pub encoded: Vec<u8>,
    /// Standard output and error of the console.
    pub outputs: [D; 2],
    /// PMI connection and pidfd of the process that becomes the job's one rank.
    pub adopted: Option<[D; 2]>,
}

impl<D> Connection<D> {
    /// A new connection, which has sent nothing. `is_findable`: whether a debugger would find its job.
    pub const fn new(console: ConsoleId, way: Way, is_findable: bool, now: Time) -> Self {
        let state = match way {
            Way::Owner(_) => State::Owner,
            Way::Standing | Way::Guest(_) => State::ExpectOpening,
        };
        Self { console, way, is_findable, state, since: now }
    }

    /// The connection of the manager of `job`, which this daemon has started.
    pub fn of_manager(console: ConsoleId, job: JobId, now: Time) -> Self {
        Self { state: State::Manager(job), ..Self::new(console, Way::Standing, true, now) }
    }

    // ----- frames -----

    /// Takes a frame.
    ///
    /// # Errors
    /// Why it is refused; a text for people.
    pub fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<Taken, String> {
        match (&mut self.state, kind) {
            (State::Owner | State::ExpectOpening, Kind::Control) => self.open(opening(payload)?),
            (State::ExpectSpec { wanted, got, passed }, Kind::Spec) => {
                if got.len() + payload.len() > *wanted {
                    return Err("the specification is longer than announced".into());
                }
                got.extend_from_slice(payload);
                if got.len() < *wanted {
                    return Ok(Taken::Frame);
                }
                let (encoded, passed) = (std::mem::take(got), std::mem::take(passed));
                self.submit(encoded, passed)
            }
            (State::Manager(job), Kind::Control) => {
                let report = match frame::decode_message(payload) {
                    Ok(report) => report,
                    Err(InvalidFrame::Unknown(kind)) => return Ok(Taken::Skipped(kind)),
                    Err(invalid) => return Err(invalid.to_string()),
                };
                if matches!(&report, ManagerReport::Grow { launch } if launch.job != *job) {
                    return Err("a manager can grow only its own job".into());
                }
                let job = job.clone();
                Ok(Taken::Report(Input::Jobs(JobInput::Reported { job, report })))
            }
            (State::Manager(_), Kind::Unknown(code)) => Ok(Taken::Skipped(format!("frame {code}"))),
            _ => Err("an unexpected frame".into()),
        }
    }

    fn open(&mut self, opening: Opening) -> Result<Taken, String> {
        if matches!(self.way, Way::Guest(_)) {
            check_guest(&opening)?;
        }
        Ok(match opening {
            Opening::Submit { spec_bytes, .. } => {
                let wanted = spec_bytes as usize;
                if wanted == 0 || wanted > MAX_SPEC {
                    return Err(format!(
                        "arguments and environment of {wanted} bytes are more than the {MAX_SPEC} that a job may have"
                    ));
                }
                self.state = State::ExpectSpec { wanted, got: Vec::new(), passed: VecDeque::new() };
                Taken::Passes
            }
            Opening::Status { .. } => self.ask(Input::Status { console: self.console }, None),
            Opening::Ring { request, .. } => {
                self.ask(Input::Asked { console: self.console, request }, None)
            }
            Opening::Register { .. } => {
                self.state = State::Asking(None);
                Taken::Registers(opening)
            }
        })
    }

    fn ask(&mut self, input: Input, handed: Option<Handed<D>>) -> Taken {
        self.state = State::Asking(handed);
        Taken::Asks(input)
    }

    fn submit(&mut self, encoded: Vec<u8>, mut passed: VecDeque<D>) -> Result<Taken, String> {
        let spec = JobSpec::decode(&encoded).map_err(|e| e.to_string())?;
        spec.check().map_err(|e| e.to_string())?;
        if matches!(self.way, Way::Guest(_)) {
            check_job_of_guest(&spec)?;
        }
        let (Some(stdout), Some(stderr)) = (passed.pop_front(), passed.pop_front()) else {
            return Err("the console passed no standard output and error".into());
        };
        let adopted = match spec.adopted {
            false => None,
            true => match (passed.pop_front(), passed.pop_front()) {
                (Some(pmi), Some(process)) => Some([pmi, process]),
                _ => return Err("the console passed no process to be adopted".into()),
            },
        };
        let mut handed = Handed { encoded, outputs: [stdout, stderr], adopted };
        let process = match self.way {
            Way::Standing => None,
            Way::Owner(pid) | Way::Guest(pid) => Some(pid),
        };
        let mut submitted =
            Submitted { console: self.console, process, spec, spec_bytes: 0, notice: None };
        if !self.is_findable {
            submitted.never_hold(&mut handed.encoded);
        }
        submitted.spec_bytes = u32::try_from(handed.encoded.len()).unwrap_or(u32::MAX);
        Ok(self.ask(Input::Submitted(Box::new(submitted)), Some(handed)))
    }

    // ----- changes -----

    /// Takes the descriptors of a console that submits.
    pub fn pass(&mut self, descriptors: VecDeque<D>) {
        if let State::ExpectSpec { passed, .. } = &mut self.state {
            *passed = descriptors;
        }
    }

    /// It gets its last answer, and leaves when it has read it.
    pub fn leave(&mut self, now: Time) {
        self.state = State::Leaving;
        self.since = now;
    }

    /// Its request is refused.
    pub fn refuse(&mut self) {
        self.state = State::Leaving;
    }

    /// It is the manager of this job.
    pub fn register(&mut self, job: JobId) {
        self.state = State::Manager(job);
    }

    // ----- queries -----

    /// Whether it is closed when all is written. Its frames are not read any more.
    pub const fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving)
    }

    /// The job of this manager; `None`: it is no manager.
    pub const fn manager(&self) -> Option<&JobId> {
        match &self.state {
            State::Manager(job) => Some(job),
            _ => None,
        }
    }

    /// What it has handed in with the job that it submits.
    pub const fn handed(&self) -> Option<&Handed<D>> {
        match &self.state {
            State::Asking(handed) => handed.as_ref(),
            _ => None,
        }
    }

    /// When it has taken too long for its request, or for reading the answer.
    pub fn deadline(&self) -> Option<Time> {
        let is_timed = !matches!(self.state, State::Manager(_) | State::Asking(_) | State::Owner);
        is_timed.then(|| self.since + PATIENCE)
    }
}

impl Submitted {
    /// Lets crashed ranks end, since a debugger would not find the job.
    fn never_hold(&mut self, encoded: &mut Vec<u8>) {
        let Some(on_crash) = self.spec.on_crash.as_mut().filter(|on_crash| on_crash.hold) else {
            return;
        };
        on_crash.hold = false;
        *encoded = self.spec.encode();
        let text = "no debugger will open at a crash: the run directory cannot be used, so it would not find the job";
        self.notice = Some(text.to_owned());
    }
}

/// Most connections without managers in a process that may have so many descriptors.
pub fn most_consoles(descriptors: u64) -> usize {
    let most = usize::try_from(descriptors / 4).unwrap_or(MAX_CONSOLES);
    most.clamp(MIN_CONSOLES, MAX_CONSOLES)
}

/// Most unread bytes with which a console gets a further answer after this one.
pub const fn most_unread(reply: &ConsoleReply) -> usize {
    match reply {
        ConsoleReply::Jobs { .. }
        | ConsoleReply::RingPart { .. }
        | ConsoleReply::CensusPart { .. } => MAX_UNREAD_JOBS,
        _ => MAX_UNREAD,
    }
}

/// The version in each [`Opening`].
#[derive(Deserialize)]
struct Hello {
    version: Versions,
}

/// Reads the first message of a connection. The version counts first: another release has other messages.
fn opening(payload: &[u8]) -> Result<Opening, String> {
    let hello = frame::decode_message::<BTreeMap<String, Hello>>(payload);
    if let Some(Hello { version }) = hello.ok().and_then(|hello| hello.into_values().next())
        && VERSION.common(version).is_none()
    {
        return Err(format!(
            "this daemon speaks version {VERSION} and you speak {version}: use the programs that were installed with it"
        ));
    }
    frame::decode_message(payload).map_err(|invalid| match invalid {
        InvalidFrame::Unknown(kind) | InvalidFrame::UnknownPart(kind) => {
            format!("the request '{kind}' is unknown to the daemon of release {RELEASE} here")
        }
        invalid => invalid.to_string(),
    })
}
