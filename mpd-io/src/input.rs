//! Reading an inherited standard input without ever blocking and without touching shared flags: the
//! counterpart of [`crate::output`].

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{getpgrp, isatty, read, tcgetpgrp};

#[derive(Debug, PartialEq, Eq)]
enum How {
    /// Never blocks, and epoll does not take it.
    File,
    /// Opened by ourselves, non-blocking.
    Own,
    Socket,
    /// Shared flags: polled before each read.
    Polled,
}

/// A standard input that a user gave us.
#[derive(Debug)]
pub struct Input {
    fd: OwnedFd,
    how: How,
    terminal: bool,
}

impl Input {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// When the kernel cannot say what it is.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let kind = SFlag::from_bits_truncate(fstat(&fd)?.st_mode) & SFlag::S_IFMT;
        let terminal = isatty(&fd).unwrap_or(false);
        let (fd, how) = match kind {
            SFlag::S_IFSOCK => (fd, How::Socket),
            SFlag::S_IFIFO | SFlag::S_IFCHR => match reopen(&fd) {
                Ok(own) => (own, How::Own),
                Err(_) => (fd, How::Polled),
            },
            _ => (fd, How::File),
        };
        Ok(Self { fd, how, terminal })
    }

    /// Whether there is never anything to wait for.
    pub fn is_always_ready(&self) -> bool {
        self.how == How::File
    }

    /// Whether this is a terminal whose input belongs to another process group now. Reading it would
    /// stop us.
    pub fn is_in_background(&self) -> bool {
        self.terminal && tcgetpgrp(&self.fd).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Reads what is there now; 0 bytes mean the end.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self.how {
                How::File | How::Own => read(&self.fd, buffer),
                How::Socket => recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT),
                How::Polled => {
                    let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
                    match poll(&mut fds, PollTimeout::ZERO)? {
                        0 => Err(Errno::EAGAIN),
                        _ => read(&self.fd, buffer),
                    }
                }
            };
            match result {
                Err(Errno::EINTR) => {}
                // The terminal went to another group between look and read.
                Err(Errno::EIO) if self.is_in_background() => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                other => return Ok(other?),
            }
        }
    }
}

fn reopen(fd: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    Ok(OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?.into())
}

impl AsRawFd for Input {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
