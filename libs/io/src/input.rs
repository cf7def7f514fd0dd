//! Reading a standard input that a user gave us, without ever blocking. See `inherited.rs`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::{getpgrp, read, tcgetpgrp};

use crate::inherited::{How, Inherited, Way};

/// A standard input.
#[derive(Debug)]
pub struct Input {
    stream: Inherited,
}

impl Input {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// When the kernel cannot say what it is.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { stream: Inherited::new(fd, Way::In)? })
    }

    /// Whether there is never anything to wait for.
    pub fn is_always_ready(&self) -> bool {
        self.stream.how == How::File
    }

    /// Whether this is a terminal whose input belongs to another process group now. Reading it would
    /// stop us.
    pub fn is_in_background(&self) -> bool {
        self.stream.is_terminal
            && tcgetpgrp(&self.stream).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Reads what is there now; 0 bytes mean the end.
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
                // The terminal went to another group between look and read.
                Err(Errno::EIO) if self.is_in_background() => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                other => return Ok(other?),
            }
        }
    }
}

impl AsRawFd for Input {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
