//! Consoles that find a private ring by its socket in the run directory.

use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use mpd_io::ring::private_socket::Listed;
use mpd_sansio::Time;

use crate::daemon::acceptor::Acceptor;

/// The socket of a private ring for consoles.
#[derive(Debug)]
pub(super) struct Guests {
    /// The process id of the mpirun that the ring is for.
    owner: u32,
    listed: Option<Listed>,
    acceptor: Acceptor,
}

impl Guests {
    /// The socket of the ring that the process `owner` began. Without a usable `directory` there is no socket and
    /// no guest. `removes_rundir`: see [`Listed::open`].
    pub(super) fn of(owner: u32, directory: Option<&Path>, removes_rundir: bool) -> Self {
        let open = |directory| Listed::open(directory, owner, removes_rundir);
        let listed = directory.map(open).transpose().unwrap_or_else(|error| {
            log::info!("consoles do not find this job: {error}");
            None
        });
        let mut acceptor = Acceptor::new("guest");
        // An event reports the first connection.
        acceptor.mark_idle();
        Self { owner, listed, acceptor }
    }

    /// The process id of the mpirun that the ring is for.
    pub(super) const fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether consoles can find the ring.
    pub(super) const fn are_findable(&self) -> bool {
        self.listed.is_some()
    }

    /// The listening socket.
    pub(super) fn listener(&self) -> Option<RawFd> {
        self.listed.as_ref().map(|listed| listed.listener().as_raw_fd())
    }

    pub(super) const fn acceptor_mut(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    pub(super) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// The next connection of a guest.
    pub(super) fn next(&mut self, now: Time) -> Option<UnixStream> {
        let listener = self.listed.as_ref()?.listener();
        self.acceptor.next(now, || listener.accept()).map(|(stream, _)| stream)
    }
}
