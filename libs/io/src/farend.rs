//! Which process holds the far end of a TCP connection on this host. TCP has no credentials. The kernel's data about
//! its sockets and the list of descriptors of a process give the answer.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};

use nix::unistd::Pid;

use crate::sockdiag::SocketDiagnosis;

/// The far end, as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// The user that owns the socket.
    pub uid: u32,
    /// The socket's inode, as in `/proc/PID/fd`; 0 until the connection is accepted.
    pub inode: u64,
}

impl FarEnd {
    /// Finds the far end of `stream`, a connection within this host.
    ///
    /// # Errors
    /// The table cannot be read, or does not contain the connection.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            let text = fs::read_to_string(table).unwrap_or_default();
            if let Some(found) = Self::in_table(&text, stream) {
                return Ok(found);
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "the kernel does not show its far end"))
    }

    /// Finds the far ends of connections within this host, over IPv4. `None`: the kernel does not show the connection.
    pub fn of_all(streams: &[TcpStream]) -> Vec<Option<Self>> {
        if streams.is_empty() {
            return Vec::new();
        }
        let kernel = SocketDiagnosis::open().ok();
        let ask = |stream: &TcpStream| {
            let (SocketAddr::V4(local), SocketAddr::V4(remote)) =
                (stream.peer_addr().ok()?, stream.local_addr().ok()?)
            else {
                return None;
            };
            kernel.as_ref()?.connected(local, remote)
        };
        let mut far_ends: Vec<_> = streams.iter().map(ask).collect();
        // The kernel may not answer, or the connection has ended.
        if far_ends.contains(&None) {
            let text = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
            for (far_end, stream) in far_ends.iter_mut().zip(streams) {
                *far_end = far_end.or_else(|| Self::in_table(&text, stream));
            }
        }
        far_ends
    }

    fn in_table(text: &str, stream: &TcpStream) -> Option<Self> {
        let ports = (stream.peer_addr().ok()?.port(), stream.local_addr().ok()?.port());
        text.lines().skip(1).find_map(|line| Self::in_line(line, ports))
    }

    /// Parses one line of the table. `None` unless it is the connection between these ports, near and far as seen
    /// from the far end.
    fn in_line(line: &str, (near, far): (u16, u16)) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        let is = |address: &str, port: u16| {
            let (host, number) = address.split_once(':')?;
            // Hexadecimal, in the byte order of the machine. An IPv4 address in the table of IPv6 is the last part.
            let loopback = u32::from_str_radix(host.get(host.len() - 8..)?, 16).ok()?;
            let is_here = loopback.to_ne_bytes()[0] == 127;
            (is_here && u16::from_str_radix(number, 16) == Ok(port)).then_some(())
        };
        is(local, near).and(is(remote, far))?;
        const ESTABLISHED: &str = "01";
        (state == ESTABLISHED).then_some(())?;
        Some(Self { uid: uid.parse().ok()?, inode: inode.parse().ok()? })
    }

    /// Whether the process has the socket open.
    ///
    /// # Errors
    /// This process may not inspect the other one.
    pub fn is_held_by(self, pid: Pid) -> io::Result<bool> {
        let wanted = format!("socket:[{}]", self.inode);
        let names = fs::read_dir(format!("/proc/{pid}/fd"))?;
        Ok(self.inode != 0
            && names
                .filter_map(|name| fs::read_link(name.ok()?.path()).ok())
                .any(|link| link.as_os_str().as_encoded_bytes() == wanted.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::unistd::{getppid, getuid};

    use super::*;

    #[test]
    fn the_far_ends_of_several_connections_are_those_of_single_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        let accepted = [(); 3].map(|()| listener.accept().unwrap().0);
        let far_ends = FarEnd::of_all(&accepted);
        for (stream, far_end) in accepted.iter().zip(&far_ends) {
            assert_eq!(*far_end, Some(FarEnd::of(stream).unwrap()));
            assert_eq!(far_end.unwrap().uid, getuid().as_raw());
        }
        drop(clients);
        assert_eq!(FarEnd::of_all(&[]), []);
    }

    #[test]
    fn the_process_that_accepted_a_connection_holds_its_far_end() {
        for host in ["127.0.0.1:0", "[::ffff:127.0.0.1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            assert_eq!(FarEnd::of(&stream).unwrap().inode, 0);
            let _accepted = listener.accept().unwrap();
            let far = FarEnd::of(&stream).unwrap();
            assert_eq!(far.uid, getuid().as_raw());
            assert!(far.is_held_by(Pid::this()).unwrap());
            assert!(!far.is_held_by(getppid()).unwrap_or(false));
        }
    }
}
