//! The connection to the process manager. It sends whole requests and receives bytes.
//!
//! It knows nothing of PMI. The bytes of two requests are never mixed, even if two threads send at
//! the same time. No call raises SIGPIPE, since the program has its own use of signals.

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
    /// The connection of an inherited descriptor. The connection has a duplicate of it, and the
    /// inherited descriptor stays open: a library that is initialized a second time needs it.
    pub(crate) fn inherited(fd: i32) -> Result<Self, Error> {
        let socket = raw::duplicate(fd).map_err(|source| Error::Descriptor { fd, source })?;
        Ok(Self::new(socket))
    }

    /// Connects to `host:port`.
    pub(crate) fn connect(address: &str) -> Result<Self, Error> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream =
            connect().map_err(|source| Error::Connect { address: address.to_owned(), source })?;
        Ok(Self::new(stream.into()))
    }

    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, writing: Mutex::new(()) }
    }

    /// Writes all the bytes. Waits while the socket is full.
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

    /// Reads at least one byte. Waits if there is none.
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

    /// Waits for an event of the socket. The launcher may have made the socket non-blocking. It
    /// shares this flag with us, so the flag is not changed.
    fn wait(&self, flags: PollFlags) -> Result<(), Error> {
        let mut polled = [PollFd::new(self.socket.as_fd(), flags)];
        match nix::poll::poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(Error::Io(errno.into())),
        }
    }
}
