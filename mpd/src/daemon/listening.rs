//! The console socket of a daemon and its run directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use mpd_io::rundir::RunDir;
use mpd_machine::Time;
use nix::fcntl::Flock;

use crate::daemon::acceptor::Acceptor;

/// The console socket, with the lock of the run directory. A private ring of one does not have one.
#[derive(Debug)]
pub(super) struct Listening {
    listener: UnixListener,
    rundir: RunDir,
    is_private: bool,
    _lock: Flock<File>,
    acceptor: Acceptor,
}

impl Listening {
    pub(super) fn begin(rundir: &RunDir, is_private: bool) -> anyhow::Result<Self> {
        let (lock, listener) = rundir.serve()?;
        let (rundir, acceptor) = (rundir.clone(), Acceptor::new("console"));
        let listening = Self { listener, rundir, is_private, _lock: lock, acceptor };
        listening.listener.set_nonblocking(true)?;
        Ok(listening)
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
    /// daemon. A private ring has no next daemon, so its directory is removed too.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.rundir.socket());
        if self.is_private {
            let _ = fs::remove_dir_all(self.rundir.path());
        }
    }
}
