//! The listening socket for PMIx clients, and the checks that a connection must pass before a byte of it is read.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::network::far_end::FarEnds;

use crate::manager::tokens::PMIX;

/// Most connections that are accepted in one turn.
const PER_TURN: usize = 64;

/// Connections that are accepted before their users are looked up. If one is of another user, the turn accepts no more. It
/// costs another user as much to connect as it costs a manager to detect that. So the job's own work must come in between.
const AT_ONCE: usize = 16;

/// The socket; it listens on the loopback interface only.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    pub(super) port: u16,
    far_ends: FarEnds,
    /// Connections may be waiting.
    pub(super) is_ready: bool,
    is_resting: bool,
}

/// The connections of a turn.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// Those of this user.
    pub(super) own: Vec<TcpStream>,
    /// There were others, or closed ones.
    pub(super) met_foreign: bool,
    /// It took the kernel long to say whose they are.
    pub(super) was_slow: bool,
}

impl Listener {
    /// Listens with the given socket, else on a port that the kernel chooses.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(registry: &Registry, bound: Option<TcpListener>) -> io::Result<Self> {
        let new = || mpd_io::network::tcp::listen(Some(Ipv4Addr::LOCALHOST.into()), 0);
        let listener = bound.map_or_else(new, Ok)?;
        let port = listener.local_addr()?.port();
        let far_ends = FarEnds::default();
        let listener = Self { listener, port, far_ends, is_ready: false, is_resting: false };
        listener.watch(registry)?;
        Ok(listener)
    }

    fn watch(&self, registry: &Registry) -> io::Result<()> {
        let fd = self.listener.as_raw_fd();
        registry.register(&mut SourceFd(&fd), Token(PMIX), Interest::READABLE)
    }

    /// Lets connections wait in the kernel. They wake no one.
    pub(super) fn rest(&mut self, registry: &Registry) {
        let fd = self.listener.as_raw_fd();
        self.is_resting = registry.deregister(&mut SourceFd(&fd)).is_ok();
    }

    /// Ends a rest.
    ///
    /// # Errors
    /// Those of the system; the rest continues.
    pub(super) fn resume(&mut self, registry: &Registry) -> io::Result<()> {
        if self.is_resting {
            // An event follows at once if connections wait.
            self.watch(registry)?;
            self.is_resting = false;
        }
        Ok(())
    }

    /// Accepts waiting connections.
    ///
    /// # Errors
    /// The system has no descriptor for a waiting connection.
    pub(super) fn accept(&mut self) -> io::Result<Arrived> {
        let mut accepted = Arrived::default();
        let own = nix::unistd::geteuid().as_raw();
        for _ in 0..PER_TURN / AT_ONCE {
            let streams = match self.accept_some() {
                Err(_) if !accepted.own.is_empty() => break,
                streams => streams?,
            };
            let count = streams.len();
            let far_ends = self.far_ends.of(&streams);
            // A far end that the kernel does not show has closed the connection.
            let both = streams.into_iter().zip(far_ends);
            let ours = both.filter(|(_, far_end)| far_end.is_some_and(|it| it.uid == own));
            let before = accepted.own.len();
            accepted.own.extend(ours.map(|(stream, _)| stream));
            accepted.met_foreign = accepted.own.len() - before < count;
            accepted.was_slow |= self.far_ends.read_table();
            if accepted.met_foreign || !self.is_ready {
                break;
            }
        }
        Ok(accepted)
    }

    fn accept_some(&mut self) -> io::Result<Vec<TcpStream>> {
        let mut accepted = Vec::new();
        while accepted.len() < AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => accepted.push(stream),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.is_ready = false;
                    break;
                }
                // The peer has gone already.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => {}
                Err(_) if !accepted.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(accepted)
    }
}
