//! Reads standard input for the job.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::{Interest, Registry, Token};
use mpd_io::files::input::Input as Stdin;
use mpd_io::files::logging::plain;
use mpd_io::network::watch::watch;
use mpd_wire::frame;

/// Interval between checks whether this process has the terminal, while input waits in the
/// terminal.
pub(crate) const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// Standard input, if the job needs it.
#[derive(Debug)]
pub(crate) struct Feed {
    stdin: Option<Stdin>,
    is_ready: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum Fed {
    /// These bytes were read.
    Bytes(Vec<u8>),
    /// Standard input has ended.
    End,
    /// Standard input cannot be read any further, for this reason.
    Lost(String),
}

impl Feed {
    /// The input of a job that needs none.
    pub(crate) const fn none() -> Self {
        Self { stdin: None, is_ready: false }
    }

    /// Opens standard input. The second result is a reason why it can never be read; it is known
    /// before the job starts.
    ///
    /// # Errors
    /// Standard input is closed or cannot be watched.
    pub(crate) fn open(registry: &Registry, token: Token) -> Result<(Self, Option<String>)> {
        let fd = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        let stdin = Stdin::new(fd).context("standard input")?;
        if !stdin.is_always_ready() {
            watch(registry, stdin.as_raw_fd(), token, Interest::READABLE)
                .context("standard input")?;
        }
        let unreadable = match stdin.is_always_ready() {
            true => stdin.read(&mut []).err(),
            false => None,
        };
        let feed = Self { stdin: Some(stdin), is_ready: true };
        Ok((feed, unreadable.map(|e| plain(&e))))
    }

    /// Marks standard input as possibly readable.
    pub(crate) const fn wake(&mut self) {
        self.is_ready = true;
    }

    /// Reads at most `credit` bytes without waiting. After the end there is no further result.
    pub(crate) fn read(&mut self, credit: usize) -> Option<Fed> {
        let stdin = self.stdin.as_ref().filter(|_| self.is_ready && credit > 0)?;
        if stdin.is_in_background() {
            return None;
        }
        let mut bytes = vec![0; frame::BULK_CHUNK.min(credit)];
        let fed = match stdin.read(&mut bytes) {
            Ok(0) => Fed::End,
            Ok(n) => {
                bytes.truncate(n);
                return Some(Fed::Bytes(bytes));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                // Input that waits in a terminal of another process group causes no event.
                self.is_ready = stdin.is_in_background();
                return None;
            }
            Err(e) => Fed::Lost(plain(&e)),
        };
        self.stdin = None;
        Some(fed)
    }

    /// Time until the next call of [`Feed::read`]; `None` if an event will come.
    pub(crate) fn wait(&self, credit: usize) -> Option<Duration> {
        let stdin = self.stdin.as_ref().filter(|_| self.is_ready && credit > 0)?;
        Some(if stdin.is_in_background() { BACKGROUND_INTERVAL } else { Duration::ZERO })
    }
}
