//! TCP sockets for the ring: non-blocking, without delay, and quick to detect a dead host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::{SetBool, SetUsize};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, connect,
    listen as start_listening, setsockopt, socket, sockopt,
};

/// Data that the peer's kernel does not acknowledge for this long means that its host is gone. A power failure is
/// detected within this time. A frozen process is not: its kernel still acknowledges data.
pub const USER_TIMEOUT: Duration = Duration::from_secs(3);

/// Most connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens on `port` of `address`; without an address on all addresses, of IPv4 and IPv6 if the host has both.
///
/// # Errors
/// Those of the system: the port is in use, or the address is not this host's.
/// Those of the system: the port is taken, the address is not this host's.
pub fn listen(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    if let Some(address) = address {
        return listen_at(SocketAddr::new(address, port));
    }
    match listen_at(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
        // This host has no IPv6.
        Err(e) if e.kind() != io::ErrorKind::AddrInUse => {
            listen_at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
        }
        result => result,
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let fd = open(&address)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &false)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    start_listening(&fd, Backlog::new(BACKLOG)?)?;
    Ok(fd.into())
}

/// Begins to connect. The result is known when the stream is writable: [`TcpStream::take_error`], then
/// [`TcpStream::peer_addr`].
///
/// # Errors
/// Errors that the system reports at once.
pub fn begin_connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let fd = open(&to)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    }
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(e) => return Err(e.into()),
    }
    let stream = TcpStream::from(fd);
    tune(&stream)?;
    Ok(stream)
}

/// Sets the options of an accepted stream to those of a connected one.
///
/// # Errors
/// Those of the system.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    retransmit_often(stream);
    set_user_timeout(stream, USER_TIMEOUT)
}

/// The longest pause between retransmissions, in milliseconds; the least value that the kernel accepts.
const RTO_MAX_MS: usize = 1000;

const TCP_THIN_LINEAR_TIMEOUTS: libc::c_int = 16;
/// Since Linux 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;

#[derive(Clone, Copy)]
struct ThinLinearTimeouts;
#[derive(Clone, Copy)]
struct RtoMax;

nix::setsockopt_impl!(
    ThinLinearTimeouts,
    libc::IPPROTO_TCP,
    TCP_THIN_LINEAR_TIMEOUTS,
    bool,
    SetBool
);
nix::setsockopt_impl!(RtoMax, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, usize, SetUsize);

/// Limits the pauses between retransmissions. By default they double with each lost retransmission, so on an unstable
/// network they can meet its gaps again and again. Kernels without the option keep their default.
fn retransmit_often(stream: &TcpStream) {
    let _ = setsockopt(stream, ThinLinearTimeouts, &true);
    let _ = setsockopt(stream, RtoMax, &RTO_MAX_MS);
}

/// Replaces [`USER_TIMEOUT`].
///
/// # Errors
/// Those of the system.
pub fn set_user_timeout(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &millis)?;
    Ok(())
}

fn open(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(family, SockType::Stream, flags, SockProtocol::Tcp)?)
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;
    use nix::sys::socket::sockopt::{GetBool, GetUsize};

    use super::*;

    nix::getsockopt_impl!(
        ThinLinearTimeouts,
        libc::IPPROTO_TCP,
        TCP_THIN_LINEAR_TIMEOUTS,
        bool,
        GetBool
    );
    nix::getsockopt_impl!(RtoMax, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, usize, GetUsize);

    #[test]
    fn both_ends_of_a_connection_retransmit_often() {
        let listener = listen(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        let there = begin_connect(listener.local_addr().unwrap(), None).unwrap();
        let (here, _) = listener.accept().unwrap();
        tune(&here).unwrap();
        for stream in [there, here] {
            assert_eq!(getsockopt(&stream, ThinLinearTimeouts), Ok(true));
            // Kernels before 6.15 have no such option.
            if let Ok(longest) = getsockopt(&stream, RtoMax) {
                assert_eq!(longest, RTO_MAX_MS);
            }
        }
    }
}
