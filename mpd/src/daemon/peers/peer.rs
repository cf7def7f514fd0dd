//! One connection: its state, and the frames that it sends.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use mpd_daemon::{Input, check_guest, check_job_of_guest};
use mpd_io::network::conn::{Conn, Filled};
use mpd_jobtable::Input as JobInput;
use mpd_sansio::Time;
use mpd_wire::frame::{InvalidFrame, Kind, Versions};
use mpd_wire::job::{JobSpec, MAX_SPEC};
use mpd_wire::message::{ConsoleReply, ManagerReport, Opening, VERSION};
use mpd_wire::{JobId, Pid, frame};
use serde::Deserialize;

use crate::daemon::submission::{Handed, Submission};

/// Something that a connection reports. A connection that waits for an answer is identified by its token.
#[derive(Debug)]
pub(crate) enum Event {
    Input(Box<Input>),
    /// A console submits a job. In a private ring, `process` becomes the job's id.
    Submits {
        console: usize,
        process: Option<u32>,
        submission: Box<Submission>,
    },
}

impl Event {
    /// An event of a manager here.
    pub(crate) fn of_jobs(input: JobInput) -> Self {
        Self::of(Input::Jobs(input))
    }

    pub(crate) fn of(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

/// What happens to a connection after it was served.
#[derive(Debug)]
pub(super) enum Verdict {
    Keep,
    Close,
}

/// The release of this daemon.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// One step of reading.
enum Taken {
    /// No whole frame is buffered.
    Nothing,
    /// A frame that only changed the state.
    Frame,
    Report(Event),
    /// An event that needs an answer. Nothing is read before the answer.
    Question(Event),
}

/// The descriptors that came with a submission.
type Passed = VecDeque<OwnedFd>;

/// The present role of a connection.
#[derive(Debug)]
pub(super) enum State {
    /// The mpirun of a private ring, which has sent nothing yet. It submits when all hosts are in the ring.
    Owner,
    /// Has sent nothing yet.
    ExpectOpening,
    /// A console that is sending its specification.
    ExpectSpec {
        wanted: usize,
        got: Vec<u8>,
        passed: Passed,
    },
    /// Has sent a request and waits for the answer.
    Asking,
    /// Has the last answer; closes when the answer is written.
    Leaving,
    Manager(JobId),
}

/// How a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the socket of the run directory.
    Standing,
    /// Inherited from the mpirun of a private ring, which is this process.
    Owner(u32),
    /// Through the socket of a private ring, from this process.
    Guest(u32),
}

impl Way {
    /// The process that gives a job in a private ring its id.
    pub(super) const fn console(self) -> Option<u32> {
        match self {
            Self::Standing => None,
            Self::Owner(pid) | Self::Guest(pid) => Some(pid),
        }
    }

    const fn is_guest(self) -> bool {
        matches!(self, Self::Guest(_))
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) conn: Conn,
    pub(super) way: Way,
    pub(super) state: State,
    /// The time of the connection, or of the last answer.
    pub(super) since: Time,
    /// A manager was sent more than its job.
    pub(super) has_more: bool,
}

impl Peer {
    pub(super) const fn is_manager(&self) -> bool {
        matches!(self.state, State::Manager(_))
    }

    pub(super) fn is_manager_of(&self, job: &JobId) -> bool {
        matches!(&self.state, State::Manager(of) if of == job)
    }

    /// Whether its manager has not read its whole job, to which nothing was added.
    pub(super) const fn is_unread(&self) -> bool {
        self.conn.is_reset() && !self.has_more
    }

    /// Whether the time for its request, or for reading the answer, is limited.
    pub(super) const fn is_timed(&self) -> bool {
        !matches!(self.state, State::Manager(_) | State::Asking | State::Owner)
    }

    /// Reads once and appends the events of this connection, whose token is `token`. The flag is set if unread data
    /// may be left.
    pub(super) fn serve(&mut self, token: usize, events: &mut Vec<Event>) -> (Verdict, bool) {
        // A peer that is gone may have sent something before.
        let _ = self.conn.flush();
        let filled = match self.conn.fill() {
            Ok(filled) => filled,
            Err(e) => {
                log::debug!("reading from a peer: {e}");
                return (Verdict::Close, false);
            }
        };
        loop {
            match self.take_frame(token) {
                Ok(Taken::Nothing) => break,
                Ok(Taken::Frame) => {}
                Ok(Taken::Report(event)) => events.push(event),
                // A job whose console is gone does not start. Its console may have waited for a stopped daemon.
                Ok(Taken::Question(Event::Submits { .. })) if filled == Filled::Closed => {
                    return (Verdict::Close, false);
                }
                Ok(Taken::Question(event)) => {
                    self.state = State::Asking;
                    events.push(event);
                    return (Verdict::Keep, false);
                }
                Err(problem) => {
                    if self.is_manager() {
                        log::warn!("closing a connection: {problem}");
                        return (Verdict::Close, false);
                    }
                    self.refuse(problem);
                    break;
                }
            }
        }
        if filled == Filled::Closed || (filled == Filled::Empty && self.conn.flush().is_err()) {
            return (Verdict::Close, false);
        }
        let done = matches!(self.state, State::Leaving) && self.conn.queued() == 0;
        (if done { Verdict::Close } else { Verdict::Keep }, filled == Filled::More)
    }

    /// Refuses what this connection sent.
    pub(super) fn refuse(&mut self, problem: String) {
        log::warn!("closing a connection: {problem}");
        self.conn.send(&ConsoleReply::Refused { problem });
        self.state = State::Leaving;
    }

    /// Takes one frame.
    fn take_frame(&mut self, token: usize) -> Result<Taken, String> {
        if matches!(self.state, State::Leaving) {
            return Ok(Taken::Nothing);
        }
        let Some((kind, payload)) = self.conn.next_frame().map_err(|e| e.to_string())? else {
            return Ok(Taken::Nothing);
        };
        match (&mut self.state, kind) {
            (State::Owner | State::ExpectOpening, Kind::Control) => {
                let opening = opening(payload)?;
                self.open(token, opening)
            }
            (State::ExpectSpec { wanted, got, passed }, Kind::Spec) => {
                if got.len() + payload.len() > *wanted {
                    return Err("the specification is longer than announced".into());
                }
                got.extend_from_slice(payload);
                if got.len() < *wanted {
                    return Ok(Taken::Frame);
                }
                let (encoded, passed) = (std::mem::take(got), std::mem::take(passed));
                self.submit(token, encoded, passed)
            }
            (State::Manager(job), Kind::Control) => {
                let report = match frame::decode_message(payload) {
                    Ok(report) => report,
                    Err(InvalidFrame::Unknown(kind)) => {
                        self.conn.skip(&kind);
                        return Ok(Taken::Frame);
                    }
                    Err(invalid) => return Err(invalid.to_string()),
                };
                if matches!(&report, ManagerReport::Grow { launch } if launch.job != *job) {
                    return Err("a manager can grow only its own job".into());
                }
                Ok(Taken::Report(Event::of_jobs(JobInput::Reported { job: job.clone(), report })))
            }
            (State::Manager(_), Kind::Unknown(code)) => {
                self.conn.skip_frame(code);
                Ok(Taken::Frame)
            }
            _ => Err("an unexpected frame".into()),
        }
    }

    fn open(&mut self, token: usize, opening: Opening) -> Result<Taken, String> {
        if self.way.is_guest() {
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
                let passed = std::iter::from_fn(|| self.conn.take_descriptor()).collect();
                self.state = State::ExpectSpec { wanted, got: Vec::new(), passed };
                Taken::Frame
            }
            Opening::Status { .. } => {
                let pid = std::process::id();
                Taken::Question(Event::of(Input::Status { console: token, pid }))
            }
            Opening::Ring { request, .. } => {
                Taken::Question(Event::of(Input::Asked { console: token, request }))
            }
            Opening::Register { .. } => {
                let pid = Pid(self.conn.peer().map_or(0, |p| p.pid()));
                let registers = JobInput::Registers { connection: token, opening, pid };
                Taken::Question(Event::of_jobs(registers))
            }
        })
    }

    fn submit(
        &mut self,
        token: usize,
        encoded: Vec<u8>,
        mut passed: Passed,
    ) -> Result<Taken, String> {
        let spec = JobSpec::decode(&encoded).map_err(|e| e.to_string())?;
        spec.check().map_err(|e| e.to_string())?;
        if self.way.is_guest() {
            check_job_of_guest(&spec)?;
        }
        let (Some(stdout), Some(stderr)) = (passed.pop_front(), passed.pop_front()) else {
            return Err("the console passed no standard output and error".into());
        };
        let outputs = [stdout, stderr];
        let adopted = match spec.adopted {
            false => None,
            true => match (passed.pop_front(), passed.pop_front()) {
                (Some(pmi), Some(process)) => Some([pmi, process]),
                _ => return Err("the console passed no process to be adopted".into()),
            },
        };
        let handed = Handed { encoded, outputs, adopted };
        let submission = Submission { spec, handed, notice: None };
        Ok(Taken::Question(Event::Submits {
            console: token,
            process: self.way.console(),
            submission: Box::new(submission),
        }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_before_the_rest_is_read_and_an_unknown_request_by_its_name() {
        let refusal = |text: &str| opening(text.as_bytes()).unwrap_err();
        for other in [r#"{"status":{"version":9}}"#, r#"{"later":{"version":[12,13]}}"#] {
            let problem = refusal(other);
            assert!(
                problem.starts_with("this daemon speaks version 11 and you speak "),
                "{problem}"
            );
            assert!(
                problem.contains("speak 9:") || problem.contains("speak 12 to 13:"),
                "{problem}"
            );
        }
        let unknown = "the request 'later' is unknown to the daemon of release ";
        for later in [
            r#"{"later":{"version":[10,12]}}"#,
            r#"{"ring":{"version":11,"request":{"later":{"count":1}}}}"#,
        ] {
            assert!(refusal(later).starts_with(unknown), "{later}");
        }
        let status = opening(br#"{"status":{"version":[10,12],"later":1}}"#).unwrap();
        assert!(matches!(status, Opening::Status { .. }));
        assert!(refusal("{}").starts_with("malformed message"));
    }
}
