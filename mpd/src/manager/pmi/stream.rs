//! The connection of one client.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::manager::pmi_socket::PmiSocket;

/// The PMI connection of a rank.
#[derive(Debug)]
pub(super) struct PmiStream {
    pub(super) socket: PmiSocket,
    /// The client closed its end, so the end of the stream is to be read.
    pub(super) is_ending: bool,
}

/// A PMIx connection.
#[derive(Debug)]
pub(super) struct PmixStream {
    pub(super) stream: TcpStream,
    /// The client has closed its end, so the end of the stream is to be read.
    pub(super) is_ending: bool,
}

impl PmixStream {
    /// An accepted connection, whose events have that token.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(registry: &Registry, token: usize, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), Token(token), both)?;
        Ok(Self { stream, is_ending: false })
    }
}
