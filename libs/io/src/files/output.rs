//! Writes to an inherited standard output or error without blocking. `inherited.rs` describes the method.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::PIPE_BUF;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::write;

use crate::files::inherited::{How, Inherited, Way};
use crate::host::scarce::persist;

/// The capacity requested for an output that is a pipe, for fewer switches between this process and the reader. Other
/// users of the pipe notice no difference, and a refusal is harmless.
const PIPE_BYTES: i32 = 1 << 20;

/// A standard output or error.
#[derive(Debug)]
pub struct Output {
    stream: Inherited,
}

impl Output {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// The kernel gives no status of the descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let stream = Inherited::new(fd, Way::Out)?;
        if stream.is_pipe {
            let _ = fcntl(&stream, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        }
        Ok(Self { stream })
    }

    /// Whether both lead to the same file, pipe or terminal.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.stream.identity == other.stream.identity
    }

    pub const fn is_terminal(&self) -> bool {
        self.stream.is_terminal
    }

    /// Whether a write may have to wait for readiness.
    pub fn can_block(&self) -> bool {
        self.stream.how != How::File
    }

    /// Writes as many bytes as fit now.
    ///
    /// # Errors
    /// `WouldBlock`, or the error that the reading end has caused.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let result = match self.stream.how {
                How::File | How::Own => write(&self.stream, bytes),
                How::Socket => {
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    persist(|| send(self.stream.as_raw_fd(), bytes, flags))
                }
                // A pipe that is ready accepts at least this many bytes.
                How::Polled if self.stream.is_ready()? => {
                    write(&self.stream, &bytes[..bytes.len().min(PIPE_BUF)])
                }
                How::Polled => Err(Errno::EAGAIN),
            };
            match result {
                Err(Errno::EINTR) => {}
                other => return Ok(other?),
            }
        }
    }
}

impl AsRawFd for Output {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::fcntl::OFlag;

    use super::*;

    fn fill(output: &Output) -> usize {
        let mut total = 0;
        loop {
            match output.write(&[b'x'; 8192]) {
                Ok(n) => total += n,
                Err(e) => {
                    assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                    return total;
                }
            }
        }
    }

    #[test]
    fn a_full_pipe_does_not_block_and_the_shared_flags_stay_as_they_were() {
        let (_reader, writer) = io::pipe().unwrap();
        let shared = writer.try_clone().unwrap();
        let output = Output::new(writer.into()).unwrap();
        assert!(fill(&output) >= 4096);
        let flags = OFlag::from_bits_truncate(fcntl(&shared, FcntlArg::F_GETFL).unwrap());
        assert!(!flags.contains(OFlag::O_NONBLOCK));
    }

    #[test]
    fn a_full_socket_does_not_block() {
        let (_reader, writer) = UnixStream::pair().unwrap();
        assert!(fill(&Output::new(writer.into()).unwrap()) >= 4096);
    }

    #[test]
    fn a_full_polled_pipe_does_not_block() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut output = Output::new(writer.into()).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        output.stream.fd = writer.into();
        output.stream.how = How::Polled;
        assert!(fill(&output) >= 4096);
    }
}
