//! Finds the host of this process in a list of hosts.
//!
//! First the names are compared. If no name matches, the addresses are, which needs lookups. A few threads do them for
//! a bounded time, because the system's resolver cannot be interrupted. Names that the resolver does not know are left
//! to ssh, whose configuration may define them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mpd_placement::hosts::HostEntry;

use crate::network::addresses;

/// The longest time for all lookups together.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for what a job can do without.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

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

/// The machines that a list of hosts names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// Names that an earlier entry names in another way, each with the earlier name.
    pub others: BTreeMap<String, String>,
    /// The first name of this host, if the list has it.
    pub here: Option<String>,
}

/// The machines of a list; `here` is the own name of this host. Each name is looked up once. A name that the resolver does
/// not know, or for which it does not answer in time, is a host of its own.
pub fn machines(entries: &[HostEntry], here: &str) -> Machines {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&HostEntry> = entries.iter().filter(|it| seen.insert(&it.host)).collect();
    let unknown = distinct.iter().map(|entry| entry.host.clone()).filter(|it| !is_name(it, here));
    let unknown: Vec<String> = unknown.collect();
    let is_here_named = unknown.len() < distinct.len();
    // This host by its name, as the only one, needs no lookup.
    if distinct.len() < 2 && unknown.is_empty() {
        let here = distinct.first().map(|entry| entry.host.clone());
        return Machines { here, ..Machines::default() };
    }
    let patience = if is_here_named { SHORT_PATIENCE } else { PATIENCE };
    let found = addresses::look_up_all(unknown, patience).into_iter();
    let mut found: BTreeMap<String, Vec<IpAddr>> =
        found.filter_map(|(name, all)| Some((name, all.ok()?))).collect();
    let identify = |found: &BTreeMap<String, Vec<IpAddr>>| {
        let identity = |entry: &&HostEntry| match found.get(&entry.host) {
            _ if is_name(&entry.host, here) => Identity::Here,
            Some(all) if all.iter().any(|address| is_ours(*address)) => Identity::Here,
            Some(all) => Identity::At(all.iter().map(|&address| (address, entry.port)).collect()),
            None => Identity::At(Vec::new()),
        };
        let all: Vec<(&str, Identity)> =
            distinct.iter().map(|entry| (entry.host.as_str(), identity(entry))).collect();
        first_names(&all)
    };
    let machines = identify(&found);
    let is_number = |name: &str| name.parse::<IpAddr>().is_ok();
    let is_doubtful = |(name, first): (&String, &String)| {
        !is_number(name) && !is_number(first) && !is_name(name, here)
    };
    if !machines.others.iter().any(is_doubtful) {
        return machines;
    }
    // With a wildcard in the DNS, all names that it does not know have one address.
    let Ok(bytes) = crate::host::random::bytes::<8>() else { return machines };
    let unknown = format!("mpd-{}", mpd_wire::hex::encode(&bytes));
    let of_all = addresses::look_up_all(vec![unknown], SHORT_PATIENCE);
    let of_all: Vec<IpAddr> =
        of_all.into_iter().filter_map(|(_, all)| all.ok()).flatten().collect();
    found.values_mut().for_each(|all| all.retain(|address| !of_all.contains(address)));
    identify(&found)
}

/// The machine that a name means, as far as it is known.
#[derive(Debug)]
enum Identity {
    Here,
    /// Its addresses, with the port of ssh there: several machines can share an address.
    At(Vec<(IpAddr, Option<u16>)>),
}

/// Names of machines with an earlier name, and the first name of this host.
fn first_names(hosts: &[(&str, Identity)]) -> Machines {
    let mut here: Option<&str> = None;
    let mut by_address: BTreeMap<(IpAddr, Option<u16>), &str> = BTreeMap::new();
    let mut by_letters: BTreeMap<String, &str> = BTreeMap::new();
    let mut others = BTreeMap::new();
    for (name, identity) in hosts {
        let lower = name.to_ascii_lowercase();
        let first = match identity {
            Identity::Here => here,
            Identity::At(all) => all.iter().find_map(|address| by_address.get(address).copied()),
        };
        if let Some(first) = first.or_else(|| by_letters.get(&lower).copied()) {
            others.insert((*name).to_owned(), first.to_owned());
            continue;
        }
        by_letters.insert(lower, name);
        match identity {
            Identity::Here => here = Some(name),
            Identity::At(all) => by_address.extend(all.iter().map(|&address| (address, *name))),
        }
    }
    Machines { others, here: here.map(str::to_owned) }
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
    fn a_machine_with_several_names_has_its_first_one() {
        let at = |last: u8, port| Identity::At(vec![([192, 0, 2, last].into(), port)]);
        let hosts = [
            ("h1", at(1, None)),
            ("h0", Identity::Here),
            ("192.0.2.1", at(1, None)),
            ("localhost", Identity::Here),
            ("H1", Identity::At(Vec::new())),
            ("gate-a", at(9, Some(2201))),
            ("gate-b", at(9, Some(2202))),
            ("only-in-ssh", Identity::At(Vec::new())),
            ("too", Identity::At(Vec::new())),
        ];
        let expected = [("192.0.2.1", "h1"), ("H1", "h1"), ("localhost", "h0")];
        let expected = expected.map(|(name, first)| (name.to_owned(), first.to_owned()));
        let machines = first_names(&hosts);
        assert_eq!(machines.others, BTreeMap::from(expected));
        assert_eq!(machines.here.as_deref(), Some("h0"));
    }

    #[test]
    fn numeric_addresses_of_this_host_are_one_host_beside_its_name() {
        let entry = |name: &str| HostEntry::named(name.to_owned(), None);
        let entries = ["192.0.2.7", "127.0.0.3", "here", "192.0.2.7"].map(entry);
        let expected = [("here".to_owned(), "127.0.0.3".to_owned())];
        let found = machines(&entries, "here");
        assert_eq!(found.others, BTreeMap::from(expected));
        assert_eq!(found.here.as_deref(), Some("127.0.0.3"));
        assert_eq!(machines(&entries[..1], "here"), Machines::default());
        assert_eq!(machines(&[], "here"), Machines::default());
        assert_eq!(machines(&entries[2..3], "here").here.as_deref(), Some("here"));
    }

    #[test]
    fn an_address_is_ours_if_an_interface_has_it() {
        assert!(is_ours([127, 0, 0, 1].into()));
        // An address of a block for documentation (RFC 5737).
        assert!(!is_ours([192, 0, 2, 1].into()));
    }
}
