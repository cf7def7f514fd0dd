//! Under which addresses this host is reached, and how a name becomes addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::host::names;

/// The addresses of `host`, a name or an address, with or without brackets. The call waits for the resolver, so it is
/// for the start of a program only.
///
/// # Errors
/// The resolver's, with the name.
pub fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
    look_up(host.trim_matches(['[', ']'])).map_err(|e| {
        io::Error::other(format!("cannot find the address of {}: {e}", host.escape_default()))
    })
}

/// The addresses of `host`, a name or an address, in the resolver's order, each once. The call waits for the
/// resolver.
///
/// # Errors
/// The resolver's.
pub fn look_up(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in names::addresses(host)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Most lookups at once.
const THREADS: usize = 16;

/// Looks up several hosts at once, for at most `limit` in all. A host for which the resolver has not answered by then is
/// left out. The others stand in the order in which their answers came.
pub fn look_up_all(hosts: Vec<String>, limit: Duration) -> Vec<(String, io::Result<Vec<IpAddr>>)> {
    let deadline = Instant::now() + limit;
    let threads = hosts.len().min(THREADS);
    let work = Arc::new(Mutex::new(hosts));
    let (found, results) = mpsc::channel();
    for _ in 0..threads {
        let (work, found) = (Arc::clone(&work), found.clone());
        // Not joined: a thread that waits in the resolver ends with the process.
        std::thread::spawn(move || {
            while let Some(host) = work.lock().ok().and_then(|mut hosts| hosts.pop()) {
                let addresses = look_up(&host);
                if found.send((host, addresses)).is_err() {
                    return;
                }
            }
        });
    }
    drop(found);
    let next = || results.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).collect()
}

/// Splits `HOST:PORT` or `[IPV6]:PORT`.
pub fn split_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bare {
        Some(bare) => bare,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then_some((host, port))
}

/// The addresses of this host's interfaces that other hosts may reach, IPv4 first. If there are no such addresses:
/// those of the loopback interface.
pub fn own() -> Vec<IpAddr> {
    let all = interfaces().into_iter().map(|(_, address)| address);
    let mut found: Vec<IpAddr> = all.filter(is_reachable).collect();
    if found.is_empty() {
        found.push(Ipv4Addr::LOCALHOST.into());
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// The addresses of all interfaces that are up, each with the interface's name.
pub fn interfaces() -> Vec<(String, IpAddr)> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let up = all.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let v6 = || address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip()));
        Some((interface.interface_name, v4.or_else(v6)?))
    })
    .collect()
}

/// Whether the address belongs to one host and means the same on other hosts: it is not a loopback, link-local or
/// multicast address.
pub fn is_reachable(address: &IpAddr) -> bool {
    if address.is_unspecified() || address.is_multicast() {
        return false;
    }
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}

/// The source address with which this host would connect to `peer`. It is the address that `peer` sees, unless
/// the network translates addresses. Sends nothing.
pub fn towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr =
        if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_split_from_names_and_addresses() {
        assert_eq!(split_port("h1:7"), Some(("h1", 7)));
        assert_eq!(split_port("[fe80::1]:65535"), Some(("fe80::1", 65535)));
        for bad in ["h1", "h1:", ":7", "h1:0", "h1:65536", "::1:7", "h1:x", "[::1]"] {
            assert_eq!(split_port(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_source_address_towards_this_host_is_its_own() {
        let there = SocketAddr::from(([127, 0, 0, 9], 9));
        assert!(towards(there).is_some_and(|address| address.is_loopback()));
        assert!(!own().is_empty());
    }
}
