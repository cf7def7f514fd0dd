//! A connection of frames over a Unix stream: bounded reads, a write queue, passed descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::outgoing::Outgoing;
use crate::raw::adopt_received;
use mpd_proto::frame::{self, Decoder, InvalidFrame, Kind};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, UnixCredentials, getsockopt, recvmsg, sendmsg,
    sockopt,
};

/// Bytes read per turn at most, so that one busy peer cannot starve the others.
const READ_PER_TURN: usize = 1 << 20;

/// Descriptors taken from one peer at most.
const MAX_DESCRIPTORS: usize = 4;

/// How a turn of reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Nothing more is there now; the poll will tell.
    Empty,
    /// More may be there; call again.
    More,
    /// The peer closed its side.
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Conn {
    stream: UnixStream,
    decoder: Decoder,
    out: Outgoing,
    descriptors: Vec<OwnedFd>,
}

impl Conn {
    /// Takes over a connected stream and makes it non-blocking.
    ///
    /// # Errors
    /// When that fails.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            decoder: Decoder::default(),
            out: Outgoing::default(),
            descriptors: Vec::new(),
        })
    }

    /// Who is at the other end, as the kernel knows it.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn peer(&self) -> io::Result<UnixCredentials> {
        Ok(getsockopt(&self.stream, sockopt::PeerCredentials)?)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// Those of the socket; a reset counts as closed.
    pub fn fill(&mut self) -> io::Result<Filled> {
        let mut buffer = [0_u8; 64 * 1024];
        let mut total = 0;
        while total < READ_PER_TURN {
            match self.receive(&mut buffer) {
                Ok(0) => return Ok(Filled::Closed),
                Ok(n) => {
                    self.decoder.push(&buffer[..n]);
                    total += n;
                }
                Err(Errno::EAGAIN) => return Ok(Filled::Empty),
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET | Errno::EPIPE) => return Ok(Filled::Closed),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Filled::More)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> nix::Result<usize> {
        let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.stream.as_raw_fd();
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(fd, &mut slices, Some(&mut space), flags)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                let received = numbers.into_iter().map(adopt_received);
                self.descriptors.extend(received);
                self.descriptors.truncate(MAX_DESCRIPTORS);
            }
        }
        Ok(message.bytes)
    }

    /// Waits until something can be read, at most `patience_ms` milliseconds, and reads it; `None` for
    /// silence. Only for programs that have nothing else to do.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn wait(&mut self, patience_ms: u16) -> io::Result<Option<Filled>> {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(patience_ms))? {
            0 => Ok(None),
            _ => self.fill().map(Some),
        }
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When the bytes are no frames.
    pub fn next_frame(&mut self) -> Result<Option<(Kind, &[u8])>, InvalidFrame> {
        self.decoder.next_frame()
    }

    /// Whether bytes of an unfinished frame are waiting.
    pub fn is_partial(&self) -> bool {
        self.decoder.is_partial()
    }

    /// Descriptors that the peer passed so far.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// Queues a message; [`Conn::flush`] writes it.
    pub fn send(&mut self, message: &impl serde::Serialize) {
        frame::encode_message(message, self.out.buffer());
    }

    /// Queues a message whose size nobody bounds.
    ///
    /// # Errors
    /// It is longer than a frame; nothing is queued.
    pub fn try_send(&mut self, message: &impl serde::Serialize) -> Result<(), InvalidFrame> {
        frame::try_encode_message(message, self.out.buffer())
    }

    /// Queues bulk bytes as frames of `kind`.
    pub fn send_bulk(&mut self, kind: Kind, bytes: &[u8]) {
        frame::encode_bulk(kind, bytes, self.out.buffer());
    }

    /// Queues one frame.
    pub fn send_frame(&mut self, kind: Kind, payload: &[u8]) {
        frame::encode(kind, payload, self.out.buffer());
    }

    /// Bytes queued and not yet written.
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// Writes what the socket takes. A writable event calls for it again while bytes are queued.
    ///
    /// # Errors
    /// Those of the socket: the peer is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush(&mut &self.stream)
    }

    /// Writes the first queued bytes with `descriptors` attached. For a fresh connection only.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn flush_with(&mut self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&numbers)];
        let slices = [IoSlice::new(self.out.waiting())];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &slices, &control, flags, None)?;
        self.out.advance(sent);
        self.flush()
    }

    /// Writes everything, waiting if need be. Only for programs that have nothing else to do.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn flush_blocking(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        let result = self.flush();
        self.stream.set_nonblocking(true)?;
        result
    }

    /// Says that nothing more will be sent. What the peer still says can be read.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

impl AsRawFd for Conn {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
