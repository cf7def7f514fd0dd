//! Writing to an inherited standard output or error without ever blocking and without touching flags
//! that other processes share.
//!
//! A pipe or terminal is opened a second time through `/proc/self/fd`, which gives a descriptor with
//! flags of its own. A socket is written with `MSG_DONTWAIT`. A regular file never blocks. Where a
//! second opening is refused, the descriptor is polled first and written in pieces of `PIPE_BUF`,
//! which a pipe that is writable always takes.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{isatty, write};

/// Capacity asked for an output that is a pipe: fewer switches between us and its reader. It changes
/// nothing that its other users can tell, and a refusal is harmless.
const PIPE_BYTES: i32 = 1 << 20;

#[derive(Debug)]
enum How {
    /// Never blocks, and epoll does not take it.
    File,
    /// Opened by ourselves, non-blocking.
    Own,
    Socket,
    /// Shared flags, not ours to set.
    Polled,
}

/// An output that a user gave us.
#[derive(Debug)]
pub struct Output {
    fd: OwnedFd,
    how: How,
    identity: (u64, u64),
    terminal: bool,
}

impl Output {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// When the kernel cannot say what it is.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&fd)?;
        let identity = (stat.st_dev, stat.st_ino);
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let (fd, how) = match kind {
            SFlag::S_IFSOCK => (fd, How::Socket),
            SFlag::S_IFIFO | SFlag::S_IFCHR => match reopen(&fd) {
                Ok(own) => (own, How::Own),
                Err(_) => (fd, How::Polled),
            },
            _ => (fd, How::File),
        };
        if kind == SFlag::S_IFIFO {
            let _ = fcntl(&fd, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        }
        let terminal = kind == SFlag::S_IFCHR && isatty(&fd).unwrap_or(false);
        Ok(Self { fd, how, identity, terminal })
    }

    /// Whether both lead to the same file, pipe or terminal.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Whether it is a terminal.
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether readiness has to be polled for at all.
    pub const fn can_block(&self) -> bool {
        !matches!(self.how, How::File)
    }

    /// Writes what it takes now.
    ///
    /// # Errors
    /// `WouldBlock`, or what the reader's end did.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let result = match self.how {
                How::File | How::Own => write(&self.fd, bytes),
                How::Socket => {
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    send(self.fd.as_raw_fd(), bytes, flags)
                }
                How::Polled => self.write_polled(bytes),
            };
            match result {
                Err(Errno::EINTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn write_polled(&self, bytes: &[u8]) -> nix::Result<usize> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut fds, PollTimeout::ZERO)? == 0 {
            return Err(Errno::EAGAIN);
        }
        write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
    }
}

/// The same open file with a description of its own, so that the flag set here is seen by nobody else.
fn reopen(fd: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    Ok(OpenOptions::new().write(true).custom_flags(flags.bits()).open(path)?.into())
}

impl AsRawFd for Output {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

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
    fn a_polled_pipe_does_not_block_either() {
        let (_reader, writer) = io::pipe().unwrap();
        let output =
            Output { fd: writer.into(), how: How::Polled, identity: (0, 0), terminal: false };
        assert!(fill(&output) >= 4096);
    }
}
