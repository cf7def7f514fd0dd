//! The manager's end of a rank's PMI connection, and what the loop reports of it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// The manager's end of a rank's PMI connection.
#[derive(Debug)]
pub(super) struct PmiSocket {
    pub(super) stream: UnixStream,
    token: Token,
    is_watched_for_writing: bool,
}

impl PmiSocket {
    /// Has the loop report requests. It does not report that the socket accepts bytes, which it nearly always does: the
    /// kernel would report that for each answer that the client reads.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch(registry: &Registry, token: Token, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { stream, token, is_watched_for_writing: false })
    }

    /// Has the loop also report that the socket accepts bytes, since it is full. This remains so: few clients read so late.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch_writing(&mut self, registry: &Registry) -> io::Result<()> {
        if self.is_watched_for_writing {
            return Ok(());
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.reregister(&mut SourceFd(&self.stream.as_raw_fd()), self.token, both)?;
        self.is_watched_for_writing = true;
        Ok(())
    }
}
