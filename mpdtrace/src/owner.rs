//! The owner of a request for slots: the connection to the daemon, to which the slots belong.
//!
//! If the daemon dies, the owner returns to the next one, and nothing is lost.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use mpd_alloc::data::{AllocId, AllocNews, AllocRequest, Strings};
use mpd_alloc::exchange::{Ask, Reply};
use mpd_io::ring::console::ConsoleError;
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::slots;

use crate::ask::AskError;
use crate::connection::Connection;

/// What the request has become.
#[derive(Debug)]
enum State {
    /// The daemon has not named the request yet.
    Asking,
    Waiting(AllocId, Option<u64>),
    Granted(AllocId),
}

/// An event for the owner's program.
#[derive(Debug)]
pub(crate) enum Change {
    /// News of the request. Nothing follows [`AllocNews::Over`].
    News(AllocNews),
    /// The daemon ended. The owner looks for the next one.
    DaemonLost,
}

/// Why the owner can do no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The daemon ended before it had the request.
    #[error("the daemon ended")]
    Early,
    /// No daemon has come in time, or it refuses.
    #[error(transparent)]
    Asked(#[from] AskError),
}

/// A request for slots, and the connection to which they belong.
#[derive(Debug)]
pub(crate) struct Owner {
    rundir: RunDir,
    request: AllocRequest,
    daemon: Connection,
    state: State,
}

impl Owner {
    /// Makes the request.
    ///
    /// # Errors
    /// The daemon is not there.
    pub(crate) fn ask(
        rundir: RunDir,
        request: AllocRequest,
        strings: Strings,
    ) -> Result<Self, AskError> {
        let boxed = Box::new(request.clone());
        let console = slots::ask(&rundir, &Ask::Allocate { request: boxed, strings })?;
        Ok(Self { rundir, request, daemon: Connection::There(console), state: State::Asking })
    }

    /// What to wait for; `None`: the time of the next attempt, see [`Self::patience`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.daemon.fd()
    }

    /// How long to wait at most; `None`: without a limit.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.daemon.patience()
    }

    /// The next event, if one is there.
    ///
    /// # Errors
    /// [`Lost`].
    pub(crate) fn next(&mut self) -> Result<Option<Change>, Lost> {
        let Connection::There(console) = &mut self.daemon else {
            self.reconnect()?;
            return Ok(None);
        };
        match slots::answer(console, Some(Duration::ZERO)) {
            Ok(Reply::News(news)) => {
                self.note(&news);
                Ok(Some(Change::News(news)))
            }
            Ok(_) => Err(AskError::UNFIT.into()),
            Err(ConsoleError::Silent(_)) => Ok(None),
            Err(ConsoleError::Closed | ConsoleError::System(_)) => {
                if matches!(self.state, State::Asking) {
                    return Err(Lost::Early);
                }
                self.daemon.lose();
                Ok(Some(Change::DaemonLost))
            }
            Err(error) => Err(AskError::from(error).into()),
        }
    }

    fn note(&mut self, news: &AllocNews) {
        match news {
            AllocNews::Waiting { id, ticket, .. } => {
                self.state = State::Waiting(id.clone(), *ticket);
            }
            AllocNews::Granted { id, .. } => self.state = State::Granted(id.clone()),
            AllocNews::Lost { .. } | AllocNews::Over { .. } => {}
        }
    }

    /// Tries to return to a new daemon.
    fn reconnect(&mut self) -> Result<(), Lost> {
        let (id, ticket, granted) = match &self.state {
            State::Asking => return Ok(()),
            State::Waiting(id, ticket) => (id.clone(), *ticket, false),
            State::Granted(id) => (id.clone(), None, true),
        };
        let (rundir, request) = (&self.rundir, &self.request);
        let resumed = self.daemon.reconnect(|| {
            let request = Box::new(request.clone());
            slots::ask(rundir, &Ask::Resume { id, request, ticket, granted })
        });
        Ok(resumed.map_err(AskError::from)?)
    }
}
