//! Standard input on its way to the job.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::{Interest, Registry, Token};
use mpd_io::input::Input as Stdin;
use mpd_io::logging::plain;
use mpd_io::watch::watch;
use mpd_wire::frame;

/// How often a terminal that is not ours is looked at again while input waits in it.
pub(crate) const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// Standard input, as far as it is wanted.
#[derive(Debug)]
pub(crate) struct Feed {
    stdin: Option<Stdin>,
    is_ready: bool,
}

/// What was read.
#[derive(Debug)]
pub(crate) enum Fed {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The end.
    End,
    /// It cannot be read any further, for this reason.
    Lost(String),
}

impl Feed {
    /// Of a job that wants none.
    pub(crate) const fn none() -> Self {
        Self { stdin: None, is_ready: false }
    }

    /// Opens it, and says why it can never be read, if so: that is known before the job, however soon that ends.
    ///
    /// # Errors
    /// It is not there, or cannot be watched.
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

    /// There may be more to read.
    pub(crate) const fn wake(&mut self) {
        self.is_ready = true;
    }

    /// Reads at most so many bytes, if that does not wait. Behind the end nothing comes.
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
                // What waits in a terminal that is not ours makes no new event.
                self.is_ready = stdin.is_in_background();
                return None;
            }
            Err(e) => Fed::Lost(plain(&e)),
        };
        self.stdin = None;
        Some(fed)
    }

    /// How long until [`Feed::read`] is to be tried again; none: when it is woken.
    pub(crate) fn wait(&self, credit: usize) -> Option<Duration> {
        let stdin = self.stdin.as_ref().filter(|_| self.is_ready && credit > 0)?;
        Some(if stdin.is_in_background() { BACKGROUND_INTERVAL } else { Duration::ZERO })
    }
}
