//! One end of the control socket between a manager and a launcher shim. It carries packets of bounded length, some with
//! a descriptor. Neither end waits for the other.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

use crate::host::scarce::persist;
use crate::raw::adopt_received;
use mpd_wire::message::{MAX_SHIM_MESSAGE, decode_for_shim, encode_for_shim};

/// Most packets that may wait for the other end.
const MAX_WAITING: usize = 256;

/// The result of a receive.
#[derive(Debug)]
pub enum Received<M> {
    /// A message, and the descriptor that came with it.
    Message(M, Option<OwnedFd>),
    /// No packet has arrived.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// One end of a control socket, with the packets that wait for the other end.
#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
}

impl Control {
    /// Both ends. The second one is for a child.
    ///
    /// # Errors
    /// The system's.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = Self::sockets()?;
        Ok((Self::adopt(ours), theirs))
    }

    /// Both ends of a socket of this kind, without messages.
    ///
    /// # Errors
    /// The system's.
    pub fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?)
    }

    /// Takes over an end.
    pub const fn adopt(socket: OwnedFd) -> Self {
        Self { socket, waiting: VecDeque::new() }
    }

    /// Sends a message, or queues it until the other end reads.
    ///
    /// # Errors
    /// The message is too long, too many wait already, or the other end is closed.
    pub fn send(
        &mut self,
        message: &impl serde::Serialize,
        descriptor: Option<OwnedFd>,
    ) -> io::Result<()> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let packet = encode_for_shim(message).map_err(io::Error::other)?;
        self.waiting.push_back((packet, descriptor));
        self.flush()
    }

    /// Whether messages wait for the other end.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends waiting packets, as far as the socket accepts them.
    ///
    /// # Errors
    /// The other end is closed; no packet waits any longer.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((packet, descriptor)) = self.waiting.front() {
            match self.send_packet(packet, descriptor.as_ref()) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => {
                    self.waiting.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn send_packet(&self, packet: &[u8], descriptor: Option<&OwnedFd>) -> nix::Result<()> {
        let numbers: Vec<RawFd> = descriptor.map(AsRawFd::as_raw_fd).into_iter().collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let rights = if numbers.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let slices = [IoSlice::new(packet)];
        persist(|| sendmsg::<()>(self.socket.as_raw_fd(), &slices, rights, flags, None)).map(drop)
    }

    /// The next message. Further descriptors of a packet are closed.
    ///
    /// # Errors
    /// A packet that is no message, or the system's error.
    pub fn receive<M: serde::de::DeserializeOwned>(&self) -> io::Result<Received<M>> {
        let mut buffer = vec![0; MAX_SHIM_MESSAGE + 1];
        let mut space = cmsg_space!([RawFd; 8]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let (length, descriptor) = loop {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            let socket = self.socket.as_raw_fd();
            let message = match recvmsg::<()>(socket, &mut slices, Some(&mut space), flags) {
                Ok(message) => message,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Ok(Received::Nothing),
                Err(Errno::ECONNRESET) => return Ok(Received::Closed),
                Err(error) => return Err(error.into()),
            };
            let mut descriptor = None;
            for rights in message.cmsgs()? {
                if let ControlMessageOwned::ScmRights(numbers) = rights {
                    for number in numbers {
                        descriptor = Some(adopt_received(number));
                    }
                }
            }
            break (message.bytes, descriptor);
        };
        if length == 0 {
            return Ok(Received::Closed);
        }
        let message = decode_for_shim(&buffer[..length]);
        let message = message.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Received::Message(message, descriptor))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Control {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::message::{MAX_SHIM_TEXT, ShimOrder};

    use super::*;

    fn received(control: &Control) -> Option<(ShimOrder, bool)> {
        match control.receive().unwrap() {
            Received::Message(order, descriptor) => Some((order, descriptor.is_some())),
            Received::Nothing | Received::Closed => None,
        }
    }

    #[test]
    fn messages_arrive_whole_in_order_and_with_their_descriptors() {
        let (mut ours, theirs) = Control::pair().unwrap();
        let theirs = Control::adopt(theirs);
        let null = std::fs::File::open("/dev/null").unwrap();
        ours.send(&ShimOrder::Connect, Some(null.into())).unwrap();
        ours.send(&ShimOrder::Quit, None).unwrap();
        assert_eq!(received(&theirs), Some((ShimOrder::Connect, true)));
        assert_eq!(received(&theirs), Some((ShimOrder::Quit, false)));
        assert!(matches!(theirs.receive::<ShimOrder>().unwrap(), Received::Nothing));
        drop(ours);
        assert!(matches!(theirs.receive::<ShimOrder>().unwrap(), Received::Closed));
    }

    #[test]
    fn an_end_that_does_not_read_blocks_nothing_and_loses_nothing() {
        let (mut ours, theirs) = Control::pair().unwrap();
        let theirs = Control::adopt(theirs);
        let order = ShimOrder::Command { piece: "x".repeat(MAX_SHIM_TEXT), last: true };
        let sent = (0..10_000).take_while(|_| ours.send(&order, None).is_ok()).count();
        assert!((MAX_WAITING..5000).contains(&sent) && ours.has_waiting(), "{sent}");
        let mut count = 0;
        while received(&theirs).is_some() {
            count += 1;
            ours.flush().unwrap();
        }
        assert_eq!(count, sent);
    }

    #[test]
    fn a_packet_that_is_no_message_is_an_error() {
        let (ours, theirs) = Control::pair().unwrap();
        ours.send_packet(b"{}", None).unwrap();
        let error = Control::adopt(theirs).receive::<ShimOrder>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
