//! The descriptors of a process that ran before its job. It is not a child of this manager, so a pidfd identifies and
//! signals it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::process::pidfd::Pidfd;
use mpd_ranks::Slot;

use super::descriptors::RankDescriptor;
use crate::manager::pmi_socket::PmiSocket;
use crate::manager::tokens::ADOPTED;

/// The adopted process, if the daemon passed one.
#[derive(Debug)]
pub(super) enum Adoption {
    None,
    /// It is to become a rank.
    Arrived(Arrived),
    /// It is a rank. The flag: an event reports its end.
    Rank(Pidfd, bool),
}

impl Adoption {
    /// Takes over its PMI connection and its pidfd.
    pub(super) fn of(passed: Option<[OwnedFd; 2]>) -> Result<Self> {
        let Some([pmi, pidfd]) = passed else { return Ok(Self::None) };
        let pidfd = Pidfd::received(pidfd).context("the process that was passed")?;
        // Only bytes are sent over it, so the socket family does not matter.
        Ok(Self::Arrived(Arrived { pmi: UnixStream::from(pmi), pidfd }))
    }

    /// The process, if it is a rank.
    pub(super) const fn rank(&self) -> Option<&Pidfd> {
        match self {
            Self::Rank(pidfd, _) => Some(pidfd),
            Self::None | Self::Arrived(_) => None,
        }
    }

    /// Stops the reports of its end.
    pub(super) fn forget(&mut self, registry: &Registry) {
        if let Some(pidfd) = self.rank() {
            let _ = registry.deregister(&mut SourceFd(&pidfd.as_raw_fd()));
        }
        *self = Self::None;
    }
}

/// A process that is to become a rank.
#[derive(Debug)]
pub(super) struct Arrived {
    pmi: UnixStream,
    pidfd: Pidfd,
}

impl Arrived {
    /// Makes the process a rank: returns it and its PMI connection. Events report its requests from now on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(self, registry: &Registry, slot: Slot) -> io::Result<(Pidfd, PmiSocket)> {
        let Self { pmi, pidfd } = self;
        let pmi = PmiSocket::watch(registry, RankDescriptor::Pmi.token(slot), pmi)?;
        let end = pidfd.as_raw_fd();
        registry.register(&mut SourceFd(&end), Token(ADOPTED), Interest::READABLE)?;
        Ok((pidfd, pmi))
    }
}
