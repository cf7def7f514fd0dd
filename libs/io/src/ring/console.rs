//! The common part of all consoles: find the daemon, send a request, wait for the answer.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mpd_wire::frame;
use mpd_wire::frame::{InvalidFrame, Kind};
use mpd_wire::message::{ConsoleReply, Opening, RingRequest, RingView, VERSION};

use crate::network::conn::{Conn, Filled};
use crate::ring::rundir::{PrivateRing, RunDir, RunDirError};
use crate::ring::siblings;

/// The longest time for an answer that a daemon gives without asking other daemons.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon that a console can ask.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// The daemon that serves this directory.
    Standing(RunDir),
    /// The first daemon of a private ring.
    Private(PrivateRing),
}

impl Endpoint {
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

    /// The error for a daemon that cannot be reached.
    fn no_daemon_error(&self) -> ConsoleError {
        match self {
            Self::Standing(rundir) => {
                let private = rundir.private_rings().unwrap_or_default();
                let (path, siblings) = (rundir.path().display(), siblings::running_rings(rundir));
                let gone = rundir.saved_members();
                let gone =
                    gone.map(|count| format!("; its ring of {count} hosts is gone from here"));
                ConsoleError::NoDaemon {
                    path: format!("{path}{}{siblings}", gone.unwrap_or_default()),
                    private: private.iter().map(|ring| ring.owner).collect(),
                }
            }
            Self::Private(_) => ConsoleError::Closed,
        }
    }
}

/// Why a console has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// No daemon serves that directory.
    #[error("no daemon is running with {path}{}", instead(.private))]
    NoDaemon {
        /// The directory.
        path: String,
        /// The processes that began private rings there.
        private: Vec<u32>,
    },
    /// The directory is not safe to use.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    System(std::io::Error),
    /// The bytes received are no frame or no reply.
    #[error("the daemon sent an invalid message: {0}")]
    Frame(InvalidFrame),
    /// The daemon closed the connection.
    #[error("the daemon closed the connection without an answer")]
    Closed,
    /// No answer came in this time.
    #[error("the daemon has not answered for {} s", rounded(*.0))]
    Silent(Duration),
    /// The daemon sent an answer of another kind.
    #[error(
        "the daemon's answer does not fit the question; mpd and this program must be of one release"
    )]
    Unfit,
    /// The refusal, as the daemon sent it.
    #[error("{0}")]
    Refused(String),
}

impl From<InvalidFrame> for ConsoleError {
    fn from(error: InvalidFrame) -> Self {
        Self::Frame(error)
    }
}

impl From<std::io::Error> for ConsoleError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Seconds for people: whole ones, and below ten with one decimal.
fn rounded(time: Duration) -> f64 {
    let tenths = (time.as_secs_f64() * 10.0).round();
    if tenths < 100.0 { tenths / 10.0 } else { (tenths / 10.0).round() }
}

/// Most private jobs that an error names.
const MAX_NAMED: usize = 8;

/// The end of the message for [`ConsoleError::NoDaemon`]: the private rings there, else how to start a daemon.
fn instead(private: &[u32]) -> String {
    if private.is_empty() {
        return "; start one with 'mpd --daemon', or a ring with 'mpdboot'".to_owned();
    }
    let mut names: Vec<String> =
        private.iter().take(MAX_NAMED).map(|owner| format!("p{owner}")).collect();
    if private.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    format!("; jobs run here without one ({}): see 'mpdlistjobs'", names.join(", "))
}

/// A connection to the daemon of this host.
#[derive(Debug)]
pub struct Console {
    conn: Conn,
    closed: bool,
    /// Whether an answer has come.
    is_answered: bool,
}

impl Console {
    /// Connects to the daemon of `rundir` and sends `opening`.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn open(rundir: &RunDir, opening: &Opening) -> Result<Self, ConsoleError> {
        Self::enter(&Endpoint::Standing(rundir.clone()), opening)
    }

    fn enter(endpoint: &Endpoint, opening: &Opening) -> Result<Self, ConsoleError> {
        let Some(mut conn) = endpoint.connect()? else { return Err(endpoint.no_daemon_error()) };
        conn.send(opening);
        conn.flush_blocking()?;
        Ok(Self { conn, closed: false, is_answered: false })
    }

    /// Connects and sends a request about the ring.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn ask(rundir: &RunDir, request: RingRequest) -> Result<Self, ConsoleError> {
        Self::ask_at(&Endpoint::Standing(rundir.clone()), request)
    }

    /// Does the same with any daemon.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn ask_at(endpoint: &Endpoint, request: RingRequest) -> Result<Self, ConsoleError> {
        Self::enter(endpoint, &Opening::Ring { version: VERSION, request })
    }

    /// The next answer; a refusal is an error. Waits at most `patience`; if that is `None`, without a limit.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn answer(&mut self, patience: Option<Duration>) -> Result<ConsoleReply, ConsoleError> {
        const SLICE_MS: u128 = 60_000;
        let deadline = patience.map(|p| (Instant::now() + p, p));
        loop {
            if let Some((kind, payload)) = self.conn.next_frame()? {
                match (kind, frame::decode_message(payload)) {
                    (Kind::Unknown(code), _) if self.is_answered => self.conn.skip_frame(code),
                    (Kind::Unknown(code), _) => {
                        return Err(InvalidFrame::Unknown(format!("frame {code}")).into());
                    }
                    // The first one is the answer, and later ones are reports.
                    (_, Err(InvalidFrame::Unknown(kind))) if self.is_answered => {
                        self.conn.skip(&kind);
                    }
                    (_, Err(invalid)) => return Err(invalid.into()),
                    (_, Ok(ConsoleReply::Refused { problem })) => {
                        return Err(ConsoleError::Refused(explained(problem)));
                    }
                    (_, Ok(reply)) => {
                        self.is_answered = true;
                        return Ok(reply);
                    }
                }
                continue;
            }
            if self.closed {
                return Err(ConsoleError::Closed);
            }
            let left = deadline.map_or(SLICE_MS, |(at, _)| {
                at.saturating_duration_since(Instant::now()).as_millis().min(SLICE_MS)
            });
            // The answer may have come together with the end.
            match (self.conn.wait(u16::try_from(left).unwrap_or(u16::MAX))?, deadline) {
                (Some(filled), _) => self.closed = filled == Filled::Closed,
                (None, Some((at, patience))) if at <= Instant::now() => {
                    return Err(ConsoleError::Silent(patience));
                }
                (None, _) => {}
            }
        }
    }
}

/// A refusal, with the reason if a daemon of release 0.1 cannot read the request.
pub fn explained(problem: String) -> String {
    let unread = ["malformed message: unknown variant", "unknown frame kind"];
    if unread.iter().any(|beginning| problem.starts_with(beginning)) {
        return format!(
            "this program speaks version {VERSION}, and the daemon is of another release"
        );
    }
    problem
}

/// Asks the daemon of `rundir` for the ring as it knows it. Waits at most `patience` for each part of the answer.
///
/// # Errors
/// [`ConsoleError`].
pub fn describe(rundir: &RunDir, patience: Duration) -> Result<RingView, ConsoleError> {
    let mut console = Console::ask(rundir, RingRequest::Describe)?;
    let mut all = Vec::new();
    loop {
        match console.answer(Some(patience))? {
            ConsoleReply::RingPart { members } => all.extend(members),
            ConsoleReply::Ring(mut view) => {
                all.append(&mut view.members);
                return Ok(RingView { members: all, ..view });
            }
            _ => return Err(ConsoleError::Unfit),
        }
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_message_is_rounded_and_a_cause_is_in_it_once() {
        let silent = |nanos| ConsoleError::Silent(Duration::from_nanos(nanos)).to_string();
        assert_eq!(silent(7_999_999_629), "the daemon has not answered for 8 s");
        assert_eq!(silent(2_450_000_000), "the daemon has not answered for 2.5 s");
        assert_eq!(silent(15_200_000_000), "the daemon has not answered for 15 s");
        let full = std::io::Error::other("no space");
        let error = ConsoleError::from(full);
        assert_eq!(error.to_string(), "the connection to the daemon failed: no space");
        assert!(std::error::Error::source(&error).is_none());
    }
}
