//! What every console has in common: find the daemon, ask, wait for the answer.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mpd_proto::frame::{self, InvalidFrame};
use mpd_proto::message::{ConsoleReply, HostedPart, Opening, RingRequest, VERSION};
use mpd_proto::ring::DaemonName;

use crate::conn::{Conn, Filled};
use crate::rundir::{RunDir, RunDirError};

/// How long a daemon may take to answer what it knows itself.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Nobody serves that directory.
    #[error(
        "no daemon is running with {path}; start one with 'mpd --daemon', or a ring with 'mpdboot'"
    )]
    NoDaemon {
        /// The directory.
        path: String,
    },
    /// The directory is not to be trusted.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The connection failed.
    #[error("cannot speak with the daemon: {0}")]
    System(#[from] std::io::Error),
    /// What came is no frame or no reply.
    #[error("the daemon speaks another language: {0}")]
    Frame(#[from] InvalidFrame),
    /// The daemon closed the connection.
    #[error("the daemon closed the connection without an answer")]
    Closed,
    /// Silence.
    #[error("the daemon has not answered for {0:?}")]
    Silent(Duration),
    /// The daemon answered something else.
    #[error(
        "the daemon's answer does not fit the question; mpd and this program must be of one release"
    )]
    Unfit,
    /// The daemon's own words.
    #[error("{0}")]
    Refused(String),
}

/// A connection to the daemon of this host.
#[derive(Debug)]
pub struct Console {
    conn: Conn,
    closed: bool,
}

impl Console {
    /// Connects to the daemon of `rundir` and says `opening`.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn open(rundir: &RunDir, opening: &Opening) -> Result<Self, ConsoleError> {
        let Some(mut conn) = rundir.connect()? else {
            return Err(ConsoleError::NoDaemon { path: rundir.path().display().to_string() });
        };
        conn.send(opening);
        conn.flush_blocking()?;
        Ok(Self { conn, closed: false })
    }

    /// Connects and asks for something of the ring.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn ask(rundir: &RunDir, request: RingRequest) -> Result<Self, ConsoleError> {
        Self::open(rundir, &Opening::Ring { version: VERSION, request })
    }

    /// The next answer; a refusal is an error. Waits at most `patience`, for ever if that is `None`.
    ///
    /// # Errors
    /// [`ConsoleError`].
    pub fn answer(&mut self, patience: Option<Duration>) -> Result<ConsoleReply, ConsoleError> {
        const SLICE_MS: u128 = 60_000;
        let deadline = patience.map(|p| (Instant::now() + p, p));
        loop {
            if let Some((_, payload)) = self.conn.next_frame()? {
                return match frame::decode_message(payload)? {
                    ConsoleReply::Refused { problem } => Err(ConsoleError::Refused(problem)),
                    reply => Ok(reply),
                };
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

/// What runs in the ring of the daemon of `rundir`: that daemon, the parts as they come, and live members that did not
/// answer. Waits at most `patience` for each of its answers.
///
/// # Errors
/// [`ConsoleError`].
pub fn jobs(rundir: &RunDir, patience: Duration) -> Result<Jobs, ConsoleError> {
    let mut console = Console::ask(rundir, RingRequest::Jobs)?;
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

/// See [`jobs`].
pub type Jobs = (DaemonName, Vec<HostedPart>, Vec<DaemonName>);

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}
