//! Which process holds the far end of a TCP connection on this host. TCP has no credentials. The kernel's data about
//! its sockets and the list of descriptors of a process give the answer.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpStream};

use nix::unistd::Pid;

pub use crate::network::socket_diagnosis::FarEnd;
use crate::network::socket_diagnosis::{Answer, SocketDiagnosis};

impl FarEnd {
    /// Finds the far end of `stream`, a connection within this host.
    ///
    /// # Errors
    /// The table cannot be read, or does not contain the connection.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        Self::in_tables(stream).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the kernel does not show its far end")
        })
    }

    fn in_tables(stream: &TcpStream) -> Option<Self> {
        // As seen from the far end.
        let (local, remote) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
        ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
            let text = fs::read_to_string(table).unwrap_or_default();
            Self::in_table(&text, local, remote)
        })
    }

    fn in_table(text: &str, local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        text.lines().skip(1).find_map(|line| Self::in_line(line, local, remote))
    }

    /// Parses one line of a table. `None` unless it is a connected socket with these addresses.
    fn in_line(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, near, far, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        const ESTABLISHED: &str = "01";
        // Another socket of this host may have the same ports at another address.
        let is_it = state == ESTABLISHED
            && address(near) == Some(plain(local))
            && address(far) == Some(plain(remote));
        is_it.then_some(Self { uid: uid.parse().ok()?, inode: inode.parse().ok()? })
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

/// Finds the far ends of connections to a listening socket, over IPv4.
#[derive(Debug, Default)]
pub struct FarEnds {
    /// Whether the kernel answers questions about one socket; `None`: not known yet.
    has_diagnosis: Option<bool>,
    read_table: bool,
}

impl FarEnds {
    /// The far end of each stream. `None`: the far end has closed the connection, or the kernel does not show it.
    pub fn of(&mut self, streams: &[TcpStream]) -> Vec<Option<FarEnd>> {
        self.read_table = false;
        if streams.is_empty() {
            return Vec::new();
        }
        self.by_diagnosis(streams).unwrap_or_else(|| self.by_table(streams))
    }

    /// Whether the last look needed the table of all sockets. To read it takes the kernel milliseconds.
    pub const fn read_table(&self) -> bool {
        self.read_table
    }

    fn by_table(&mut self, streams: &[TcpStream]) -> Vec<Option<FarEnd>> {
        self.read_table = true;
        let text = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
        let look = |stream: &TcpStream| {
            FarEnd::in_table(&text, stream.peer_addr().ok()?, stream.local_addr().ok()?)
        };
        streams.iter().map(look).collect()
    }

    /// `None`: the kernel does not answer.
    fn by_diagnosis(&mut self, streams: &[TcpStream]) -> Option<Vec<Option<FarEnd>>> {
        if self.has_diagnosis == Some(false) {
            return None;
        }
        let kernel = SocketDiagnosis::open().ok()?;
        streams.iter().map(|stream| self.ask(&kernel, stream)).collect()
    }

    /// `None`: the kernel has no answers.
    #[expect(
        clippy::option_option,
        reason = "no answer differs from the answer that there is no such socket"
    )]
    fn ask(&mut self, kernel: &SocketDiagnosis, stream: &TcpStream) -> Option<Option<FarEnd>> {
        let (Ok(SocketAddr::V4(local)), Ok(SocketAddr::V4(remote))) =
            (stream.peer_addr(), stream.local_addr())
        else {
            // The far end has reset the connection.
            return Some(None);
        };
        let found = match kernel.look_up(local, remote) {
            Answer::Socket(socket) => {
                self.has_diagnosis = Some(true);
                socket
            }
            Answer::Nothing => None,
            Answer::Failed => return None,
        };
        // A kernel without the diagnosis denies every socket, and a listening one is certain to exist.
        if self.has_diagnosis.is_none() {
            let anyone = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            let listener = kernel.look_up(remote, anyone);
            self.has_diagnosis = Some(matches!(listener, Answer::Socket(_)));
        }
        (self.has_diagnosis == Some(true)).then_some(found)
    }
}

/// An address of a table: hexadecimal numbers in the byte order of this machine, and the port.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let number =
        |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let host = match host.len() {
        8 => Ipv4Addr::from(number(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (at, part) in octets.chunks_mut(4).enumerate() {
                part.copy_from_slice(&number(at * 8)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some((host, port))
}

/// An address of IPv4 in its own form, even if the socket is one of IPv6.
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket,
    };
    use nix::unistd::{getppid, getuid};

    use super::*;

    fn connect_from(local: SocketAddr, remote: SocketAddr) -> TcpStream {
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
        let fd = socket(AddressFamily::Inet, kind, flags, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrStorage::from(local)).unwrap();
        connect(fd.as_raw_fd(), &SockaddrStorage::from(remote)).unwrap();
        fd.into()
    }

    /// Looks by diagnosis, if the kernel has it, and in the table.
    fn both(streams: &[TcpStream]) -> Vec<Option<FarEnd>> {
        let found = FarEnds::default().of(streams);
        assert_eq!(FarEnds::default().by_table(streams), found);
        found
    }

    #[test]
    fn the_far_ends_of_several_connections_are_those_of_single_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        let accepted = [(); 3].map(|()| listener.accept().unwrap().0);
        let far_ends = both(&accepted);
        for (stream, far_end) in accepted.iter().zip(&far_ends) {
            assert_eq!(*far_end, Some(FarEnd::of(stream).unwrap()));
            assert_eq!(far_end.unwrap().uid, getuid().as_raw());
        }
        drop(clients);
        assert_eq!(both(&[]), []);
    }

    #[test]
    fn a_closed_connection_has_not_the_far_end_of_another_one_with_its_ports() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let port = client.local_addr().unwrap().port();
        let other = connect_from(([127, 0, 0, 2], port).into(), address);
        let accepted = [(); 2].map(|()| listener.accept().unwrap().0);
        // It waits for the other side, and is connected no more.
        other.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(FarEnd::of(&accepted[0]).is_ok());
        assert!(FarEnd::of(&accepted[1]).is_err());
        assert!(matches!(both(&accepted)[..], [Some(_), None]));
    }

    #[test]
    fn a_kernel_that_shows_listening_sockets_is_not_asked_for_its_table() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let known = SocketDiagnosis::open().is_ok_and(|kernel| {
            let SocketAddr::V4(address) = address else { return false };
            let anyone = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            matches!(kernel.look_up(address, anyone), Answer::Socket(_))
        });
        let accepted = [listener.accept().unwrap().0];
        drop(client);
        let mut far_ends = FarEnds::default();
        assert_eq!(far_ends.of(&accepted), [None]);
        assert_eq!(far_ends.read_table(), !known);
    }

    #[test]
    fn the_addresses_of_both_tables_are_read() {
        let of =
            |text: &str| address(text).map(|(host, port)| SocketAddr::new(host, port).to_string());
        let ours = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (loopback, zero) = (ours([127, 0, 0, 1]), ours([0; 4]));
        assert_eq!(of(&format!("{loopback}:1F90")).unwrap(), "127.0.0.1:8080");
        let mapped = format!("{zero}{zero}{}{loopback}:0050", ours([0, 0, 0xff, 0xff]));
        assert_eq!(of(&mapped).unwrap(), "127.0.0.1:80");
        let one = format!("{zero}{zero}{zero}{}:0050", ours([0, 0, 0, 1]));
        assert_eq!(of(&one).unwrap(), "[::1]:80");
        for bad in ["", ":", "7F:1", "0100007F", "0100007F:", "0100007F:10000", "0100007é:1"] {
            assert_eq!(of(bad), None, "{bad}");
        }
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
