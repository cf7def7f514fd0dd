//! Derives the daemons of a ring from a list of hosts: pure.
//!
//! The booting host gets the first daemon, even if the list does not name it.

use std::collections::BTreeSet;

use mpd_boot::wire::Member;
use mpd_io::host::this_host::is_loopback;
use mpd_placement::hosts::HostEntry;

/// The user's options.
#[derive(Clone, Debug, Default)]
pub(crate) struct RosterOptions {
    /// Number of daemons, including this host's; `None` for the whole list.
    pub(crate) total: Option<usize>,
    /// Whether a host may have several daemons.
    pub(crate) several: bool,
    /// Number of processes of this host.
    pub(crate) ncpus: Option<u32>,
    /// This host's interface.
    pub(crate) ifhn: Option<String>,
    /// User to log in as, where the list names no user.
    pub(crate) user: Option<String>,
}

/// The daemons of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// The daemon of this host.
    pub(crate) local: Member,
    /// The other daemons, in the order of the list.
    pub(crate) others: Vec<Member>,
    /// Hosts that the list named again.
    pub(crate) dropped: Vec<String>,
}

/// The list is too short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "-n {total} needs {} hosts besides this one, and the list has {there}; lower -n, add hosts, or with \
     -1 name hosts several times",
    total - 1
)]
pub(crate) struct NotEnough {
    total: usize,
    there: usize,
}

/// Chooses the daemons. `here` is the daemon name of this host; `is_here` recognises other names of
/// it.
///
/// # Errors
/// [`NotEnough`].
pub(crate) fn choose(
    entries: &[HostEntry],
    options: &RosterOptions,
    here: &str,
    is_here: impl Fn(&str) -> bool,
) -> Result<Roster, NotEnough> {
    let own = entries.iter().find(|entry| is_here(&entry.host));
    let mut names = Names::default();
    let name = own.map_or(here, |own| if is_loopback(&own.host) { here } else { &own.host });
    let local = Member {
        name: names.take(name),
        ncpus: options.ncpus.or_else(|| own?.ncpus),
        ifhn: options.ifhn.clone().or_else(|| own?.ifhn.clone()),
        ..member(name, own, options)
    };
    let mut roster = Roster { local, others: Vec::new(), dropped: Vec::new() };
    let mut seen = BTreeSet::from([name.to_ascii_lowercase()]);
    let mut own_is_used = false;
    let wanted = options.total.map_or(usize::MAX, |total| total.saturating_sub(1));
    for entry in entries {
        let is_own = is_here(&entry.host);
        if is_own && !std::mem::replace(&mut own_is_used, true) {
            continue;
        }
        let host = if is_own { name } else { entry.host.as_str() };
        let is_new = seen.insert(host.to_ascii_lowercase());
        if !is_new && !options.several {
            roster.dropped.push(entry.host.clone());
        } else if roster.others.len() < wanted {
            let (name, nth) = if is_new { (names.take(host), 1) } else { names.take_next(host) };
            let mut member = Member { name, nth, ..member(host, Some(entry), options) };
            member.host = host.to_owned();
            roster.others.push(member);
        }
    }
    match options.total {
        Some(total) if roster.others.len() + 1 < total => {
            Err(NotEnough { total, there: roster.others.len() })
        }
        _ => Ok(roster),
    }
}

fn member(host: &str, entry: Option<&HostEntry>, options: &RosterOptions) -> Member {
    Member {
        name: host.to_owned(),
        host: host.to_owned(),
        user: entry.and_then(|entry| entry.user.clone()).or_else(|| options.user.clone()),
        port: entry.and_then(|entry| entry.port),
        ifhn: entry.and_then(|entry| entry.ifhn.clone()),
        ncpus: entry.and_then(|entry| entry.ncpus),
        gpus: entry.and_then(|entry| entry.gpus),
        max: entry.and_then(|entry| entry.max),
        speed: entry.and_then(|entry| entry.speed),
        ordinal: None,
        nth: 1,
    }
}

/// Names of daemons; each name is given once.
#[derive(Debug, Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn take(&mut self, host: &str) -> String {
        if self.0.insert(host.to_owned()) { host.to_owned() } else { self.take_next(host).0 }
    }

    fn take_next(&mut self, host: &str) -> (String, u32) {
        for nth in 2.. {
            let name = format!("{host}-{nth}");
            if self.0.insert(name.clone()) {
                return (name, nth);
            }
        }
        unreachable!("a list is shorter than that")
    }
}

#[cfg(test)]
mod tests {
    use mpd_placement::hosts::{parse_file, parse_list};

    use super::*;

    fn roster(list: &str, options: &RosterOptions) -> Roster {
        let is_here = |host: &str| is_loopback(host) || ["h0", "h0-ib"].contains(&host);
        choose(&parse_list(list).unwrap(), options, "h0", is_here).unwrap()
    }

    fn others(roster: &Roster) -> Vec<(&str, &str, u32)> {
        roster.others.iter().map(|m| (m.name.as_str(), m.host.as_str(), m.nth)).collect()
    }

    #[test]
    fn this_host_is_first_and_uses_its_options_in_the_list() {
        let entries = parse_file(b"h1:2\nh0-ib:8 ifhn=ib0\nh2 user=bo").unwrap();
        let options = RosterOptions { user: Some("al".into()), ..RosterOptions::default() };
        let roster = choose(&entries, &options, "h0", |host| host == "h0-ib").unwrap();
        assert_eq!((roster.local.name.as_str(), roster.local.ncpus), ("h0-ib", Some(8)));
        assert_eq!(roster.local.ifhn.as_deref(), Some("ib0"));
        assert_eq!(others(&roster), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(roster.others[0].user.as_deref(), Some("al"));
        assert_eq!(roster.others[1].user.as_deref(), Some("bo"));
    }

    #[test]
    fn options_override_the_list_and_localhost_is_no_daemon_name() {
        let options =
            RosterOptions { ncpus: Some(3), ifhn: Some("x".into()), ..RosterOptions::default() };
        let roster = roster("localhost:8,h1", &options);
        assert_eq!((roster.local.name.as_str(), roster.local.ncpus), ("h0", Some(3)));
        assert_eq!(others(&roster), [("h1", "h1", 1)]);
    }

    #[test]
    fn a_number_of_daemons_selects_the_first_hosts_of_the_list() {
        let options = |total| RosterOptions { total: Some(total), ..RosterOptions::default() };
        assert_eq!(others(&roster("h1,h0,h2,h3", &options(3))), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(others(&roster("h1,h2", &options(1))), []);
        let entries = parse_list("h1,h1,h0").unwrap();
        let error = choose(&entries, &options(3), "h0", |host| host == "h0").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("-n 3 needs 2 hosts besides this one, and the list has 1")
        );
    }

    #[test]
    fn a_repeated_host_is_dropped_or_gets_a_second_daemon() {
        let list = "h1,H1,h0,h1,h0,h0-ib,h2";
        let once = roster(list, &RosterOptions::default());
        assert_eq!(others(&once), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(once.dropped, ["H1", "h1", "h0", "h0-ib"]);
        let several = RosterOptions { several: true, ..RosterOptions::default() };
        let all = roster("h1,h1,h0,h1,h1-2,h0", &several);
        assert_eq!(
            others(&all),
            [
                ("h1", "h1", 1),
                ("h1-2", "h1", 2),
                ("h1-3", "h1", 3),
                ("h1-2-2", "h1-2", 1),
                ("h0-2", "h0", 2)
            ]
        );
    }
}
