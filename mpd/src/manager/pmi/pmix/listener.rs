//! The listening socket for PMIx clients, and the checks that a connection must pass before a byte of it is read.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::farend::FarEnd;

use crate::manager::tokens::PMIX;

/// Most connections that are accepted in one turn.
const PER_TURN: usize = 64;

/// The socket; it listens on the loopback interface only.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    pub(super) port: u16,
    /// Connections may be waiting.
    pub(super) is_ready: bool,
}

impl Listener {
    /// Listens with the given socket, else on a port that the kernel chooses.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(registry: &Registry, bound: Option<TcpListener>) -> io::Result<Self> {
        let new = || mpd_io::tcp::listen(Some(Ipv4Addr::LOCALHOST.into()), 0);
        let listener = bound.map_or_else(new, Ok)?;
        let port = listener.local_addr()?.port();
        let fd = listener.as_raw_fd();
        registry.register(&mut SourceFd(&fd), Token(PMIX), Interest::READABLE)?;
        Ok(Self { listener, port, is_ready: false })
    }

    /// Accepts waiting connections of this user.
    ///
    /// # Errors
    /// The system has no descriptor for a waiting connection.
    pub(super) fn accept(&mut self) -> io::Result<Vec<TcpStream>> {
        let mut accepted = Vec::new();
        while accepted.len() < PER_TURN {
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
        let own = nix::unistd::geteuid().as_raw();
        let far_ends = FarEnd::of_all(&accepted);
        let both = accepted.into_iter().zip(far_ends);
        // A far end that the kernel does not show has closed the connection.
        let ours = both.filter(|(_, far_end)| far_end.is_some_and(|far_end| far_end.uid == own));
        Ok(ours.map(|(stream, _)| stream).collect())
    }
}
