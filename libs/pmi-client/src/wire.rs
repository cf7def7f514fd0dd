//! The connection to the process manager: whole requests out, bytes in.
//!
//! Knows nothing of PMI. Requests of several threads are never mixed. Nothing raises SIGPIPE: the
//! process belongs to somebody else.

use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::error::Error;
use crate::raw;

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    writing: Mutex<()>,
}

impl Wire {
    /// Over an inherited descriptor. It stays open beside ours when this is dropped, so that a
    /// library initialized a second time finds it again.
    pub(crate) fn inherited(fd: i32) -> Result<Self, Error> {
        let socket = raw::duplicate(fd).map_err(|source| Error::Descriptor { fd, source })?;
        Ok(Self::over(socket))
    }

    /// To `host:port`.
    pub(crate) fn connect(address: &str) -> Result<Self, Error> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream =
            connect().map_err(|source| Error::Connect { address: address.to_owned(), source })?;
        Ok(Self::over(stream.into()))
    }

    pub(crate) fn over(socket: OwnedFd) -> Self {
        Self { socket, writing: Mutex::new(()) }
    }

    /// Writes all of it.
    pub(crate) fn send(&self, mut bytes: &[u8]) -> Result<(), Error> {
        let _mine = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT)?,
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Error::Closed),
                Err(errno) => return Err(Error::Io(errno.into())),
            }
        }
        Ok(())
    }

    /// Reads what is there, at least one byte.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(0) | Err(Errno::ECONNRESET) => return Err(Error::Closed),
                Ok(read) => return Ok(read),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN)?,
                Err(errno) => return Err(Error::Io(errno.into())),
            }
        }
    }

    /// The launcher may have left the socket non-blocking; the flag is shared with it and stays.
    fn wait(&self, flags: PollFlags) -> Result<(), Error> {
        let mut polled = [PollFd::new(self.socket.as_fd(), flags)];
        match nix::poll::poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(Error::Io(errno.into())),
        }
    }
}
