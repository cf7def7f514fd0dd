//! The console socket of a daemon and its run directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use mpd_io::rundir::RunDir;
use mpd_machine::Time;
use nix::fcntl::Flock;

use crate::daemon::door::Door;

/// See the module. A private ring of one has neither.
#[derive(Debug)]
pub(super) struct Listening {
    listener: UnixListener,
    rundir: RunDir,
    is_private: bool,
    _lock: Flock<File>,
    door: Door,
}

impl Listening {
    pub(super) fn begin(rundir: &RunDir, is_private: bool) -> anyhow::Result<Self> {
        let (lock, listener) = rundir.serve()?;
        let (rundir, door) = (rundir.clone(), Door::new("console"));
        let listening = Self { listener, rundir, is_private, _lock: lock, door };
        listening.listener.set_nonblocking(true)?;
        Ok(listening)
    }

    /// The state of the listening socket.
    pub(super) const fn door(&self) -> &Door {
        &self.door
    }

    /// An event came.
    pub(super) const fn knock(&mut self) {
        self.door.knock();
    }

    /// Accepts the next connection.
    pub(super) fn next(&mut self, now: Time) -> Option<UnixStream> {
        let accept = || -> io::Result<_> { self.listener.accept() };
        self.door.next(now, accept).map(|(stream, _)| stream)
    }
}

impl AsRawFd for Listening {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

impl Drop for Listening {
    /// The next daemon finds no stale socket, managers notice and wait for it. A private ring has no next
    /// daemon, and its directory no other use.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.rundir.socket());
        if self.is_private {
            let _ = fs::remove_dir_all(self.rundir.path());
        }
    }
}
