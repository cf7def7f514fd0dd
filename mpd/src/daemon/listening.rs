//! The console socket of a daemon and its run directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use mpd_io::ring::rundir::RunDir;
use mpd_sansio::Time;
use nix::fcntl::Flock;

use crate::cli::Cli;
use crate::daemon::acceptor::Acceptor;

/// The fate of the run directory at the end of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// It stays for the next daemon.
    Kept,
    /// It is removed if no job is running. The managers of jobs would look for the next daemon there.
    RemovedIfIdle,
    /// The same, but jobs outlive the daemon: the next one begins with the user's next job.
    OfSite,
    Removed,
}

impl Leftover {
    /// A private ring has no next daemon, and the ring of a batch job ends with it.
    pub(super) const fn of(cli: &Cli) -> Self {
        match (cli.is_private(), cli.in_batch, cli.idle) {
            (true, _, _) => Self::Removed,
            (false, true, _) => Self::RemovedIfIdle,
            (false, false, Some(_)) => Self::OfSite,
            (false, false, None) => Self::Kept,
        }
    }
}

/// The console socket, with the lock of the run directory. A private ring of one does not have one.
#[derive(Debug)]
pub(super) struct Listening {
    listener: UnixListener,
    rundir: RunDir,
    leftover: Leftover,
    _lock: Flock<File>,
    acceptor: Acceptor,
}

impl Listening {
    pub(super) fn begin(rundir: &RunDir, leftover: Leftover) -> anyhow::Result<Self> {
        let (lock, listener) = rundir.serve()?;
        let (rundir, acceptor) = (rundir.clone(), Acceptor::new("console"));
        let listening = Self { listener, rundir, leftover, _lock: lock, acceptor };
        listening.listener.set_nonblocking(true)?;
        Ok(listening)
    }

    /// Whether the jobs here end with this daemon, because none follows that their managers could find.
    pub(super) fn ends_jobs(&self) -> bool {
        self.leftover == Leftover::RemovedIfIdle
    }

    /// Whether this is the ring of a user on a site.
    pub(super) fn is_of_site(&self) -> bool {
        self.leftover == Leftover::OfSite
    }

    /// The state of the listening socket.
    pub(super) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// An event reports a waiting connection.
    pub(super) const fn mark_ready(&mut self) {
        self.acceptor.mark_ready();
    }

    /// Accepts the next connection.
    pub(super) fn next(&mut self, now: Time) -> Option<UnixStream> {
        let accept = || -> io::Result<_> { self.listener.accept() };
        self.acceptor.next(now, accept).map(|(stream, _)| stream)
    }
}

impl AsRawFd for Listening {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

impl Drop for Listening {
    /// Removes the socket, so that the next daemon finds no stale one. Managers notice that and wait for the next
    /// daemon. The directory is removed too if no daemon follows.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.rundir.socket());
        let is_idle = || fs::read_dir(self.rundir.jobs()).is_ok_and(|mut all| all.next().is_none());
        let is_over = match self.leftover {
            Leftover::Kept => false,
            Leftover::RemovedIfIdle | Leftover::OfSite => is_idle(),
            Leftover::Removed => true,
        };
        if is_over {
            let _ = fs::remove_dir_all(self.rundir.path());
        }
    }
}
