//! Questions to the kernel about one TCP socket of this host. The table of all sockets takes the kernel milliseconds, the
//! answer to such a question some microseconds.
//!
//! The messages are those of netlink's socket diagnosis (`sock_diag(7)`). Their numbers are in the host's byte order,
//! addresses and ports in that of the network.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// The type of questions and answers: `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// Length of a message's header in bytes.
const HEADER: usize = 16;

/// Length of a question in bytes.
const QUESTION: usize = HEADER + 56;

/// Where an answer has the user and the inode of the socket.
const UID: usize = HEADER + 64;
const INODE: usize = UID + 4;

/// The far end, as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// The user that owns the socket.
    pub uid: u32,
    /// The socket's inode, as in `/proc/PID/fd`; 0 until the connection is accepted.
    pub inode: u64,
}

/// A socket for questions.
#[derive(Debug)]
pub(crate) struct SocketDiagnosis(OwnedFd);

impl SocketDiagnosis {
    /// Opens the socket.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open() -> io::Result<Self> {
        let protocol = SockProtocol::NetlinkSockDiag;
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(Self(socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?))
    }

    /// Looks for the socket with these addresses. Without a connected one, the kernel shows the socket that listens at
    /// the local address. A kernel without this diagnosis answers that there is nothing.
    pub(crate) fn look_up(&self, local: SocketAddrV4, remote: SocketAddrV4) -> Answer {
        let fd = self.0.as_raw_fd();
        let mut answer = [0; 512];
        // The kernel answers within the call that asks.
        let length = send(fd, &question(local, remote), MsgFlags::MSG_DONTWAIT)
            .and_then(|_| recv(fd, &mut answer, MsgFlags::MSG_DONTWAIT));
        length.map_or(Answer::Failed, |length| read(answer.get(..length).unwrap_or_default()))
    }
}

/// What the kernel says about a socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It exists. `None`: it is not connected.
    Socket(Option<FarEnd>),
    /// It does not exist, or this kernel shows none.
    Nothing,
    /// The kernel refused the question, or its answer is not understood.
    Failed,
}

fn question(local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    const REQUEST: u16 = 1;
    let mut bytes = Vec::with_capacity(QUESTION);
    bytes.extend_from_slice(&u32::try_from(QUESTION).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST.to_ne_bytes());
    // The number of the question, and that of the asker's port.
    bytes.extend_from_slice(&[0; 8]);
    let family = u8::try_from(libc::AF_INET).unwrap_or(u8::MAX);
    let protocol = u8::try_from(libc::IPPROTO_TCP).unwrap_or(u8::MAX);
    bytes.extend_from_slice(&[family, protocol, 0, 0]);
    // Any state.
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&local.port().to_be_bytes());
    bytes.extend_from_slice(&remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        bytes.extend_from_slice(&address.octets());
        bytes.extend_from_slice(&[0; 12]);
    }
    // Any interface, and any socket with these addresses.
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

fn read(answer: &[u8]) -> Answer {
    const ESTABLISHED: u8 = 1;
    /// `NLMSG_ERROR`.
    const PROBLEM: u16 = 2;
    let number = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    match (kind, answer.get(HEADER + 1), number(UID), number(INODE)) {
        (Some(PROBLEM), ..) => {
            let nothing = (-libc::ENOENT).cast_unsigned();
            if number(HEADER) == Some(nothing) { Answer::Nothing } else { Answer::Failed }
        }
        (Some(BY_FAMILY), Some(state), Some(uid), Some(inode)) => {
            let socket = FarEnd { uid, inode: inode.into() };
            Answer::Socket((*state == ESTABLISHED).then_some(socket))
        }
        _ => Answer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    fn v4(address: io::Result<SocketAddr>) -> SocketAddrV4 {
        match address.unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => panic!("{address} is no address of IPv4"),
        }
    }

    #[test]
    fn the_kernel_shows_a_connected_socket_and_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (v4(stream.local_addr()), v4(stream.peer_addr()));
        let kernel = SocketDiagnosis::open().unwrap();
        let at = *local.ip();
        // A kernel may be built without this.
        match kernel.look_up(local, remote) {
            Answer::Socket(socket) => {
                let socket = socket.unwrap();
                assert_eq!(socket.uid, nix::unistd::getuid().as_raw());
                assert_ne!(socket.inode, 0);
                let listening = SocketAddrV4::new(at, remote.port());
                assert_eq!(
                    kernel.look_up(listening, SocketAddrV4::new(at, 1)),
                    Answer::Socket(None)
                );
            }
            other => assert_eq!(other, Answer::Nothing),
        }
        let nobody = SocketAddrV4::new(at, 1);
        assert_eq!(kernel.look_up(local, nobody), Answer::Nothing);
    }

    #[test]
    fn short_and_negative_answers_show_no_socket() {
        let mut answer = vec![0; 128];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[HEADER + 1] = 1;
        answer[UID..UID + 4].copy_from_slice(&7_u32.to_ne_bytes());
        answer[INODE..INODE + 4].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(read(&answer), Answer::Socket(Some(FarEnd { uid: 7, inode: 9 })));
        assert_eq!(read(&answer[..INODE]), Answer::Failed);
        answer[HEADER + 1] = 6;
        assert_eq!(read(&answer), Answer::Socket(None));
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        answer[HEADER..HEADER + 4].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(read(&answer), Answer::Nothing);
        answer[HEADER..HEADER + 4].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&answer), Answer::Failed);
        assert_eq!(read(&[]), Answer::Failed);
    }
}
