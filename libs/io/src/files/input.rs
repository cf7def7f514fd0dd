//! Reads an inherited standard input without blocking. `inherited.rs` describes the method.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::{getpgrp, read, tcgetpgrp};

use crate::files::inherited::{How, Inherited, Way};

/// A standard input.
#[derive(Debug)]
pub struct Input {
    stream: Inherited,
}

impl Input {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// The kernel gives no status of the descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { stream: Inherited::new(fd, Way::In)? })
    }

    /// Whether reading never has to wait.
    pub fn is_always_ready(&self) -> bool {
        self.stream.how == How::File
    }

    /// Whether this is a terminal whose foreground is another process group now. A read would stop this process.
    pub fn is_in_background(&self) -> bool {
        self.stream.is_terminal
            && tcgetpgrp(&self.stream).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Reads the available bytes; 0 bytes mean the end.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self.stream.how {
                How::File | How::Own => read(&self.stream, buffer),
                How::Socket => recv(self.stream.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT),
                How::Polled if self.stream.is_ready()? => read(&self.stream, buffer),
                How::Polled => Err(Errno::EAGAIN),
            };
            match result {
                Err(Errno::EINTR) => {}
                // The foreground changed between the check and the read.
                Err(Errno::EIO) if self.is_in_background() => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                other => return Ok(other?),
            }
        }
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for Input {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
