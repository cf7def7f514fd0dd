//! Registers descriptors with an event queue: inherited ones of any kind, and Unix streams.

use std::io;
use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::host::scarce::persist;

/// Has the queue report events of an inherited descriptor. Descriptors that are always ready, such as `/dev/null`,
/// cannot be registered; the call succeeds without an effect.
///
/// # Errors
/// The system's.
pub fn watch(registry: &Registry, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    match persist(|| registry.register(&mut SourceFd(&fd), token, interest)) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// What an event queue reports of a Unix stream. It does not report that the socket accepts bytes, which it nearly always
/// does: the kernel would report that whenever the peer reads. From the first time on that the socket is full, it does.
#[derive(Debug, Default)]
pub struct StreamWatch {
    has_writing: bool,
}

impl StreamWatch {
    /// Has the queue report what arrives.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self, registry: &Registry, fd: RawFd, token: Token) -> io::Result<()> {
        persist(|| registry.register(&mut SourceFd(&fd), token, Interest::READABLE))
    }

    /// Has the queue also report that the socket accepts bytes. For a socket that did not accept all.
    ///
    /// # Errors
    /// The system's; the next call tries again.
    pub fn add_writing(&mut self, registry: &Registry, fd: RawFd, token: Token) -> io::Result<()> {
        if !self.has_writing {
            let both = Interest::READABLE | Interest::WRITABLE;
            persist(|| registry.reregister(&mut SourceFd(&fd), token, both))?;
            self.has_writing = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_pipe_is_watched_and_what_is_always_ready_is_no_error() {
        let poll = mio::Poll::new().unwrap();
        let (pipe, _writer) = io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for fd in [pipe.as_raw_fd(), null.as_raw_fd()] {
            watch(poll.registry(), fd, Token(0), Interest::READABLE).unwrap();
        }
        assert!(watch(poll.registry(), -1, Token(0), Interest::READABLE).is_err());
    }
}
