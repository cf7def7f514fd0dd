//! Registers inherited descriptors of any kind with an event queue.

use std::io;
use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// Has the queue report events of an inherited descriptor. Descriptors that are always ready, such as `/dev/null`,
/// cannot be registered; the call succeeds without an effect.
///
/// # Errors
/// The system's.
pub fn watch(registry: &Registry, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    match registry.register(&mut SourceFd(&fd), token, interest) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
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
