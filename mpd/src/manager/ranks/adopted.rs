//! A process that ran before its job: a program that was started alone and has called for a process
//! manager. It is rank 0 of a job of one, on the connection that it opened for that.
//!
//! It is no child of ours, so it is held and signaled by a pidfd, and how it ends is not known, only that it
//! did. It may outlive its job: once it has finalized and closed its connection, it is nobody's business
//! here. Until then it is a rank like others, and is killed with its job.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::adopt_inherited;
use mpd_io::pidfd::Pidfd;
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;

use super::process::{Handle, RankProcess, watch_pmi};
use crate::manager::tokens::ADOPTED;

/// The rank that it is.
pub(super) const RANK: Rank = Rank(0);

/// What concerns it before it is a rank, and when it was seen to have ended.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// The process that is to be the one rank, until it is.
    pub(super) arrived: Option<Arrived>,
    /// An event says that it has ended.
    pub(super) ended: bool,
}

impl Adoption {
    /// What there is to adopt for the manager at `place`.
    pub(super) fn of(spec: &JobSpec, place: usize) -> Result<Self> {
        let arrived = (spec.adopted && place == 0).then(Arrived::inherit).transpose()?;
        Ok(Self { arrived, ended: false })
    }
}

/// One that is to become a rank.
#[derive(Debug)]
pub(super) struct Arrived {
    pmi: UnixStream,
    process: Adopted,
}

impl Arrived {
    /// Takes over what the daemon passed: descriptors 8 its PMI connection, 9 its pidfd.
    fn inherit() -> Result<Self> {
        let inherit = |number| adopt_inherited(number).context("no process was passed");
        let (pmi, pidfd): (OwnedFd, OwnedFd) = (inherit(8)?, inherit(9)?);
        let pidfd = Pidfd::received(pidfd).context("the process that was passed")?;
        // Nothing but bytes goes over it, so it does not matter of which family it is.
        let pmi = UnixStream::from(pmi);
        Ok(Self { pmi, process: Adopted { pidfd, has_aborted: false } })
    }

    /// Makes it a rank: its process and its PMI connection. What it said is reported by events from now on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(
        self,
        registry: &Registry,
        token: usize,
    ) -> io::Result<(RankProcess, UnixStream)> {
        let Self { pmi, process } = self;
        watch_pmi(registry, token, &pmi)?;
        let end = process.pidfd.as_raw_fd();
        registry.register(&mut SourceFd(&end), Token(ADOPTED), Interest::READABLE)?;
        let number = process.number().unwrap_or(0);
        Ok((RankProcess::of(Handle::Adopted(process), number), pmi))
    }
}

/// One that is a rank.
#[derive(Debug)]
pub(crate) struct Adopted {
    pidfd: Pidfd,
    has_aborted: bool,
}

impl Adopted {
    /// Its number, if it has not ended.
    pub(crate) fn number(&self) -> Option<u32> {
        self.pidfd.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// It calls for the end of the job, and will end by itself, with a code that its user sees.
    pub(crate) const fn has_aborted(&mut self) {
        self.has_aborted = true;
    }

    /// Signals it alone: the processes of its group are its user's.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        if self.has_aborted && signal == libc::SIGTERM {
            return Ok(());
        }
        self.pidfd.signal(signal)
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.pidfd.is_over()
    }

    /// Its end is reported no more.
    pub(super) fn forget(&self, registry: &Registry) {
        let _ = registry.deregister(&mut SourceFd(&self.pidfd.as_raw_fd()));
    }
}
