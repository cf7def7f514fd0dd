//! Reads and writes on the connections of clients, of PMI and of PMIx. Nothing here blocks.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

use mpd_io::host::scarce::persist;
use nix::sys::socket::{Shutdown, shutdown};

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// No data is left; an event reports new data.
    Drained,
    /// Data was read, and more may be left.
    More,
    /// The end of the stream.
    Closed,
}

/// Reads once. With `is_ending` the end of the stream is still to be read.
pub(super) fn read(
    stream: &mut impl Read,
    buffer: &mut [u8],
    is_ending: bool,
    receive: impl FnOnce(&[u8]),
) -> ReadProgress {
    loop {
        match stream.read(buffer) {
            Ok(0) => return ReadProgress::Closed,
            Ok(n) => {
                receive(&buffer[..n]);
                let more = n == buffer.len() || is_ending;
                return if more { ReadProgress::More } else { ReadProgress::Drained };
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return ReadProgress::Drained,
            Err(_) => return ReadProgress::Closed,
        }
    }
}

/// Writes the output of a session as far as its client accepts it. If the socket is full, an event reports room. If the
/// client is gone, reading reports the end. If the system fails, no event would report anything: then the connection is
/// shut down, so that the client does not wait for an answer for ever.
pub(super) fn flush<S>(
    stream: &mut (impl Write + AsRawFd),
    session: &mut S,
    output: impl Fn(&S) -> &[u8],
    consume: impl Fn(&mut S, usize),
) {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
    while !output(session).is_empty() {
        match persist(|| stream.write(output(session))) {
            Ok(written) => consume(session, written),
            Err(e) if matches!(e.kind(), BrokenPipe | ConnectionReset | WouldBlock) => return,
            Err(e) => {
                log::warn!("cannot answer a rank: {e}");
                let _ = shutdown(stream.as_raw_fd(), Shutdown::Both);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A stream that first fails this number of times with this error, and then accepts three bytes at a time.
    struct Failing(usize, i32, UnixStream);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Ok(bytes.len().min(3));
            }
            self.0 -= 1;
            Err(io::Error::from_raw_os_error(self.1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl AsRawFd for Failing {
        fn as_raw_fd(&self) -> RawFd {
            self.2.as_raw_fd()
        }
    }

    /// What is left of an answer of six bytes, and whether the client is at the end of the stream.
    fn flushed(failures: usize, errno: i32) -> (usize, bool) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut answer = b"answer".to_vec();
        let consume = |answer: &mut Vec<u8>, bytes| drop(answer.drain(..bytes));
        let mut stream = Failing(failures, errno, ours);
        flush(&mut stream, &mut answer, |answer| answer, consume);
        (answer.len(), theirs.read(&mut [0]).is_ok())
    }

    #[test]
    fn an_answer_is_written_after_a_short_lack_of_memory_and_another_failure_ends_the_connection() {
        let (open, ended) = (false, true);
        assert_eq!(flushed(0, 0), (0, open));
        assert_eq!(flushed(3, libc::ENOBUFS), (0, open));
        assert_eq!(flushed(1, libc::EAGAIN), (6, open));
        assert_eq!(flushed(1, libc::EPIPE), (6, open));
        assert_eq!(flushed(1, libc::EIO), (6, ended));
        assert_eq!(flushed(usize::MAX, libc::ENOBUFS), (6, ended));
    }
}
