//! Which process holds the far end of a TCP connection on this host. TCP knows no credentials; the kernel's table
//! of sockets and the descriptors of a process tell.

use std::fs;
use std::io;
use std::net::TcpStream;

use nix::unistd::Pid;

/// The far end, as the kernel's table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// Whose socket it is.
    pub uid: u32,
    /// Its number in `/proc/PID/fd`; 0 until it was accepted.
    pub inode: u64,
}

impl FarEnd {
    /// Looks for the far end of `stream`, which leads to this host.
    ///
    /// # Errors
    /// The table cannot be read, or does not have it.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        let ports = (stream.peer_addr()?.port(), stream.local_addr()?.port());
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            let text = fs::read_to_string(table).unwrap_or_default();
            if let Some(found) = text.lines().skip(1).find_map(|line| Self::in_line(line, ports)) {
                return Ok(found);
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "the kernel does not show its far end"))
    }

    /// From one line of the table, if that is a connection of `ports`, near and far as seen from there.
    fn in_line(line: &str, (near, far): (u16, u16)) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        let is = |address: &str, port: u16| {
            let (host, number) = address.split_once(':')?;
            // Written as the machine has it; an IPv4 address in the other table is its last part.
            let loopback = u32::from_str_radix(host.get(host.len() - 8..)?, 16).ok()?;
            let is_here = loopback.to_ne_bytes()[0] == 127;
            (is_here && u16::from_str_radix(number, 16) == Ok(port)).then_some(())
        };
        is(local, near).and(is(remote, far))?;
        const ESTABLISHED: &str = "01";
        (state == ESTABLISHED).then_some(())?;
        Some(Self { uid: uid.parse().ok()?, inode: inode.parse().ok()? })
    }

    /// Whether the process has it open.
    ///
    /// # Errors
    /// It does not let us look.
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
    fn who_accepted_a_connection_holds_its_far_end() {
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
