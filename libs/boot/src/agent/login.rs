//! The ssh login whose command an agent is.

use std::fs;
use std::net::IpAddr;

use mpd_io::ring::rundir::host_name;
use nix::unistd::{getpid, getsid};

use crate::command::SSH_CONNECTION;
use crate::wire::HostId;

/// Whether this process is the command of an ssh login: it leads its session, and sshd has set
/// `SSH_CONNECTION`. Then no signal to the client of the login reaches it. A shell that runs its
/// command on this host is killed with it.
pub(super) fn is_login() -> bool {
    getsid(None) == Ok(getpid()) && std::env::var_os(SSH_CONNECTION).is_some()
}

/// The identity of this host for a login from the network: the run of the kernel, the namespaces of the network and
/// of the processes, and the name. Containers of one kernel differ in one of them. `None` for every other agent: a
/// remote shell that only plays hosts starts several daemons of one host on purpose.
pub(super) fn host_id() -> Option<HostId> {
    let connection = std::env::var(SSH_CONNECTION).ok()?;
    if !is_login() || !is_from_network(&connection) {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let net = fs::read_link("/proc/self/ns/net").ok()?;
    let pid = fs::read_link("/proc/self/ns/pid").ok()?;
    HostId::new(format!("{} {} {} {}", boot.trim(), net.display(), pid.display(), host_name()))
}

/// Whether the client reached the server at an address of a network.
fn is_from_network(connection: &str) -> bool {
    let server = connection.split(' ').nth(2).and_then(|server| server.split('%').next());
    let server = server.and_then(|server| server.parse::<IpAddr>().ok());
    server.is_some_and(|server| !server.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_at_an_address_of_a_network_shows_which_host_it_is() {
        for network in [
            "10.0.0.1 4022 10.0.0.2 22",
            "::1 9 fe80::2%ib0 22",
            "::ffff:10.0.0.1 9 ::ffff:10.0.0.2 22",
        ] {
            assert!(is_from_network(network), "{network}");
        }
        for other in [
            "127.0.0.2 9 127.0.0.1 22",
            "::1 9 ::1 22",
            "a 9 ::ffff:127.0.0.1 22",
            "UNKNOWN 65535 UNKNOWN 65535",
            "",
        ] {
            assert!(!is_from_network(other), "{other}");
        }
    }
}
