//! A connection to the daemon that is made again when the daemon is replaced.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mpd_io::ring::console::{Console, ConsoleError};

use crate::slots::RECONNECT;

/// Between attempts to reach a new daemon.
pub(crate) const AGAIN: Duration = Duration::from_millis(300);

/// The connection, or the time since when there is none.
#[derive(Debug)]
pub(crate) enum Connection {
    /// A daemon is there.
    There(Console),
    /// The daemon has ended.
    Lost {
        /// When.
        since: Instant,
        /// The time of the next attempt to reach a new one.
        next: Instant,
    },
}

impl Connection {
    /// What to wait for; `None`: the time of the next attempt, see [`Self::patience`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::There(console) => Some(console.as_fd()),
            Self::Lost { .. } => None,
        }
    }

    /// How long to wait at most; `None`: without a limit.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            Self::There(_) => None,
            Self::Lost { next, .. } => Some(next.saturating_duration_since(Instant::now())),
        }
    }

    /// The daemon has ended.
    pub(crate) fn lose(&mut self) {
        let since = Instant::now();
        *self = Self::Lost { since, next: since + AGAIN };
    }

    /// Tries to reach a new daemon with `ask`, if there is none and it is time.
    ///
    /// # Errors
    /// That of `ask`, if no daemon was reached for [`RECONNECT`].
    pub(crate) fn reconnect(
        &mut self,
        ask: impl FnOnce() -> Result<Console, ConsoleError>,
    ) -> Result<(), ConsoleError> {
        let now = Instant::now();
        let Self::Lost { since, next } = self else { return Ok(()) };
        if *next > now {
            return Ok(());
        }
        *next = now + AGAIN;
        let since = *since;
        match ask() {
            Ok(console) => *self = Self::There(console),
            Err(_) if since.elapsed() < RECONNECT => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
