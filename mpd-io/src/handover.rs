//! One descriptor handed over a Unix stream, with one byte that says what it is.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::raw::adopt_received;

/// Hands a descriptor over. Waits for nothing.
///
/// # Errors
/// The other end is gone, or has not taken what it was handed before.
pub fn hand_over(stream: &UnixStream, word: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let numbers = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&numbers)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(&[word])], &rights, flags, None)?;
    Ok(())
}

/// What was handed over.
#[derive(Debug)]
pub enum Taken {
    /// A word, and its descriptor if it came with one.
    Word(u8, Option<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

/// Takes what the other end handed over next. Waits for it if the stream does.
///
/// # Errors
/// Those of the socket, or this process has no room for a descriptor.
pub fn take(stream: &UnixStream) -> io::Result<Taken> {
    let mut word = [0];
    let mut space = cmsg_space!([RawFd; 1]);
    let mut slices = [IoSliceMut::new(&mut word)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = match recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut space), flags) {
        Err(Errno::EAGAIN) => return Ok(Taken::Nothing),
        Err(Errno::ECONNRESET) => return Ok(Taken::Closed),
        result => result?,
    };
    let mut descriptor = None;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            for number in numbers {
                descriptor = Some(adopt_received(number));
            }
        }
    }
    if message.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    Ok(if message.bytes == 0 { Taken::Closed } else { Taken::Word(word[0], descriptor) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn descriptors_come_in_order_and_the_end_is_seen() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        assert!(matches!(take(&theirs).unwrap(), Taken::Nothing));
        let pipes = [io::pipe().unwrap(), io::pipe().unwrap()];
        for (word, (_, writer)) in (b'a'..).zip(&pipes) {
            hand_over(&ours, word, writer.as_fd()).unwrap();
        }
        for (word, (mut reader, writer)) in (b'a'..).zip(pipes) {
            drop(writer);
            let Taken::Word(told, Some(fd)) = take(&theirs).unwrap() else { panic!("no pipe") };
            assert_eq!(told, word);
            std::fs::File::from(fd).write_all(b"here").unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "here");
        }
        drop(ours);
        assert!(matches!(take(&theirs).unwrap(), Taken::Closed));
    }
}
