//! A process that ran before its job: a program that was started alone and has requested a process manager. It is
//! rank 0 of a job of one, on the PMI connection that it opened.
//!
//! It is not a child of this manager, so a pidfd identifies and signals it. Its end is detected, but not its exit
//! code. It may outlive its job: once it has finalized and closed its connection, it no longer belongs to the job.
//! Before that it is a rank like others, and is killed with its job.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::process::pidfd::Pidfd;
use mpd_wire::Rank;

use super::adopted::Adopted;
use super::descriptors::RankDescriptor;
use super::process::{Handle, RankProcess};
use crate::manager::pmi_socket::PmiSocket;
use crate::manager::tokens::ADOPTED;

/// The rank of an adopted process.
pub(super) const RANK: Rank = Rank(0);

/// The adopted process before it is a rank, and whether it has ended.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// The process that is to become the rank, until it has become it.
    pub(super) arrived: Option<Arrived>,
    /// An event reports its end.
    pub(super) ended: bool,
}

impl Adoption {
    /// The process to adopt, if the daemon passed one.
    pub(super) fn of(passed: Option<[OwnedFd; 2]>) -> Result<Self> {
        Ok(Self { arrived: passed.map(Arrived::new).transpose()?, ended: false })
    }
}

/// A process that is to become a rank.
#[derive(Debug)]
pub(super) struct Arrived {
    pmi: UnixStream,
    process: Adopted,
}

impl Arrived {
    /// Takes over its PMI connection and its pidfd.
    fn new([pmi, pidfd]: [OwnedFd; 2]) -> Result<Self> {
        let pidfd = Pidfd::received(pidfd).context("the process that was passed")?;
        // Only bytes are sent over it, so the socket family does not matter.
        let pmi = UnixStream::from(pmi);
        Ok(Self { pmi, process: Adopted { pidfd, has_aborted: false } })
    }

    /// Makes the process a rank: returns its process and its PMI connection. Events report its requests from now
    /// on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(
        self,
        registry: &Registry,
        token: usize,
    ) -> io::Result<(RankProcess, PmiSocket)> {
        let Self { pmi, process } = self;
        let pmi = PmiSocket::watch(registry, RankDescriptor::pmi_token(token), pmi)?;
        let end = process.pidfd.as_raw_fd();
        registry.register(&mut SourceFd(&end), Token(ADOPTED), Interest::READABLE)?;
        let number = process.number().unwrap_or(0);
        Ok((RankProcess::of(Handle::Adopted(process), number), pmi))
    }
}
