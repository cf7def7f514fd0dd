//! The manager's end of a rank's PMI connection, and what the loop reports of it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use mio::{Registry, Token};
use mpd_io::network::watch::StreamWatch;

/// The manager's end of a rank's PMI connection.
#[derive(Debug)]
pub(super) struct PmiSocket {
    pub(super) stream: UnixStream,
    token: Token,
    watch: StreamWatch,
}

impl PmiSocket {
    /// Has the loop report requests.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch(registry: &Registry, token: Token, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let watch = StreamWatch::default();
        watch.begin(registry, stream.as_raw_fd(), token)?;
        Ok(Self { stream, token, watch })
    }

    /// Has the loop also report that the socket accepts bytes, since it is full.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch_writing(&mut self, registry: &Registry) -> io::Result<()> {
        self.watch.add_writing(registry, self.stream.as_raw_fd(), self.token)
    }
}
