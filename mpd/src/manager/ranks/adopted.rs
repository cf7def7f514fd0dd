//! The process of a rank that ran before its job, see [`super::adoption`].

use std::io;
use std::os::fd::AsRawFd as _;

use mio::Registry;
use mio::unix::SourceFd;
use mpd_io::process::pidfd::Pidfd;

/// An adopted process that is a rank.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(super) pidfd: Pidfd,
    pub(super) has_aborted: bool,
}

impl Adopted {
    /// Its process id, if it has not ended.
    pub(crate) fn number(&self) -> Option<u32> {
        self.pidfd.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// Notes that the process has called `MPI_Abort`. It ends by itself, with a code that its user sees.
    pub(crate) const fn has_aborted(&mut self) {
        self.has_aborted = true;
    }

    /// Signals only the process: its process group belongs to its user.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        if self.has_aborted && signal == libc::SIGTERM {
            return Ok(());
        }
        self.pidfd.signal(signal)
    }

    /// Whether the process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.pidfd.is_over()
    }

    /// Stops the reports of its end.
    pub(super) fn forget(&self, registry: &Registry) {
        let _ = registry.deregister(&mut SourceFd(&self.pidfd.as_raw_fd()));
    }
}
