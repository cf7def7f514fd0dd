//! Descriptors over Unix sockets, one with each byte or datagram.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::host::scarce::persist;
use crate::raw::adopt_received;

/// What was received.
#[derive(Debug)]
pub enum Passed {
    /// A byte, and the descriptor that came with it.
    Message(u8, Option<OwnedFd>),
    /// Nothing has arrived.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// Passes a descriptor with a byte, without waiting.
///
/// # Errors
/// Those of the socket.
pub fn pass(socket: impl AsFd, byte: u8, descriptor: impl AsFd) -> io::Result<()> {
    let numbers = [descriptor.as_fd().as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&numbers)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let bytes = [byte];
    let slices = [IoSlice::new(&bytes)];
    persist(|| sendmsg::<()>(socket.as_fd().as_raw_fd(), &slices, &rights, flags, None))?;
    Ok(())
}

/// Receives the next byte with its descriptor, without waiting.
///
/// # Errors
/// Those of the socket. A reset counts as the end.
pub fn receive(socket: impl AsFd) -> io::Result<Passed> {
    next(socket, MsgFlags::MSG_DONTWAIT)
}

/// Waits without a limit for the next byte with its descriptor. Only for programs that have nothing else to do, and for
/// sockets that block.
///
/// # Errors
/// Those of the socket. A reset counts as the end.
pub fn wait(socket: impl AsFd) -> io::Result<Passed> {
    next(socket, MsgFlags::empty())
}

fn next(socket: impl AsFd, flags: MsgFlags) -> io::Result<Passed> {
    let mut byte = [0];
    let mut space = cmsg_space!([RawFd; 8]);
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
    loop {
        let mut slices = [IoSliceMut::new(&mut byte)];
        let fd = socket.as_fd().as_raw_fd();
        let message = match recvmsg::<()>(fd, &mut slices, Some(&mut space), flags) {
            Ok(message) => message,
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) => return Ok(Passed::Nothing),
            Err(Errno::ECONNRESET) => return Ok(Passed::Closed),
            Err(error) => return Err(error.into()),
        };
        let mut descriptor = None;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                for number in numbers {
                    descriptor = Some(adopt_received(number));
                }
            }
        }
        if message.bytes == 0 {
            return Ok(Passed::Closed);
        }
        return Ok(Passed::Message(byte[0], descriptor));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn each_byte_comes_with_its_descriptor() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        pass(&ours, b'P', &null).unwrap();
        pass(&ours, b'Q', &null).unwrap();
        assert!(matches!(receive(&theirs).unwrap(), Passed::Message(b'P', Some(_))));
        assert!(matches!(receive(&theirs).unwrap(), Passed::Message(b'Q', Some(_))));
        assert!(matches!(receive(&theirs).unwrap(), Passed::Nothing));
        pass(&ours, b'R', &null).unwrap();
        assert!(matches!(wait(&theirs).unwrap(), Passed::Message(b'R', Some(_))));
        drop(ours);
        assert!(matches!(wait(&theirs).unwrap(), Passed::Closed));
        assert!(matches!(receive(&theirs).unwrap(), Passed::Closed));
    }

    #[test]
    fn datagrams_wait_until_they_are_received() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        pass(&ours, 1, &null).unwrap();
        pass(&ours, 2, &null).unwrap();
        assert!(matches!(receive(&theirs).unwrap(), Passed::Message(1, Some(_))));
        assert!(matches!(receive(&theirs).unwrap(), Passed::Message(2, Some(_))));
        assert!(matches!(receive(&theirs).unwrap(), Passed::Nothing));
    }
}
