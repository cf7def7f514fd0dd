//! Finds the host of this process in a list of hosts.
//!
//! First the names are compared. If no name matches, the addresses are, which needs lookups. A few threads do them for
//! a bounded time, because the system's resolver cannot be interrupted. Names that the resolver does not know are left
//! to ssh, whose configuration may define them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mpd_placement::hosts::HostEntry;

use crate::addresses;

/// The longest time for all lookups together.
const PATIENCE: Duration = Duration::from_secs(3);

/// The names in `entries` that mean this host, whose own name is `host`.
pub fn names_of_this_host(entries: &[HostEntry], host: &str) -> BTreeSet<String> {
    let all = || entries.iter().map(|entry| entry.host.as_str());
    let by_name: BTreeSet<String> =
        all().filter(|name| is_name(name, host)).map(str::to_owned).collect();
    if !by_name.is_empty() {
        return by_name;
    }
    look_up(all().map(str::to_owned).collect())
}

/// Whether this is a name by which every host means itself.
pub fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "localhost"
        || host.starts_with("localhost.")
        || host.starts_with("127.")
        || host == "::1"
}

/// Whether `name` equals `host`, where one of them may lack the domain.
fn is_name(name: &str, host: &str) -> bool {
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    let first = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let is_address = name.parse::<IpAddr>().is_ok();
    is_loopback(&name)
        || name == host
        || (!is_address && (first(&name) == host || name == first(&host)))
}

fn look_up(names: Vec<String>) -> BTreeSet<String> {
    let found = addresses::look_up_all(names, PATIENCE).into_iter();
    let ours =
        found.filter(|(_, all)| all.as_ref().is_ok_and(|all| all.iter().any(|of| is_ours(*of))));
    ours.map(|(name, _)| name).collect()
}

/// Whether the kernel would use `address` as the source for a connection to it. Nothing is sent.
fn is_ours(address: IpAddr) -> bool {
    const DISCARD: u16 = 9;
    addresses::towards(SocketAddr::new(address, DISCARD)) == Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_with_and_without_domain_and_in_any_case() {
        for (name, host) in [
            ("h1", "h1"),
            ("H1", "h1"),
            ("h1.x.org", "h1"),
            ("h1", "h1.x.org"),
            ("localhost", "h1"),
            ("127.0.0.1", "h1"),
            ("::1", "h1"),
        ] {
            assert!(is_name(name, host), "{name} {host}");
        }
        for (name, host) in [("h1.x.org", "h1.y.org"), ("h2", "h1"), ("10.0.0.1", "10")] {
            assert!(!is_name(name, host), "{name} {host}");
        }
    }

    #[test]
    fn an_address_is_ours_if_an_interface_has_it() {
        assert!(is_ours([127, 0, 0, 1].into()));
        // An address of a block for documentation (RFC 5737).
        assert!(!is_ours([192, 0, 2, 1].into()));
    }
}
