//! From a list of hosts to the daemons of a ring: pure.
//!
//! The host that boots gets the first daemon, whether it is in the list or not.

use std::collections::BTreeSet;

use mpd_io::thishost::is_loopback;
use mpd_placement::hosts::HostEntry;

use crate::wire::Member;

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Daemons in all, this host's included; none: as many as the list gives.
    pub(crate) total: Option<usize>,
    /// Several daemons of one host are meant.
    pub(crate) several: bool,
    /// Processes that this host takes.
    pub(crate) ncpus: Option<u32>,
    /// This host's interface.
    pub(crate) ifhn: Option<String>,
    /// Whom to log in as where the list does not say.
    pub(crate) user: Option<String>,
}

/// The daemons of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// This host's.
    pub(crate) local: Member,
    /// The others, in the order of the list.
    pub(crate) others: Vec<Member>,
    /// Hosts that stood in the list again.
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

/// Chooses the daemons. `here` is this host's name for a daemon, `is_here` tells its other names.
///
/// # Errors
/// [`NotEnough`].
pub(crate) fn choose(
    entries: &[HostEntry],
    wishes: &Wishes,
    here: &str,
    is_here: impl Fn(&str) -> bool,
) -> Result<Roster, NotEnough> {
    let own = entries.iter().find(|entry| is_here(&entry.host));
    let mut names = Names::default();
    let name = own.map_or(here, |own| if is_loopback(&own.host) { here } else { &own.host });
    let local = Member {
        name: names.take(name),
        ncpus: wishes.ncpus.or_else(|| own?.ncpus),
        ifhn: wishes.ifhn.clone().or_else(|| own?.ifhn.clone()),
        ..member(name, own, wishes)
    };
    let mut roster = Roster { local, others: Vec::new(), dropped: Vec::new() };
    let mut seen = BTreeSet::from([name.to_ascii_lowercase()]);
    let mut own_is_used = false;
    let wanted = wishes.total.map_or(usize::MAX, |total| total.saturating_sub(1));
    for entry in entries {
        let is_own = is_here(&entry.host);
        if is_own && !std::mem::replace(&mut own_is_used, true) {
            continue;
        }
        let host = if is_own { name } else { entry.host.as_str() };
        let is_new = seen.insert(host.to_ascii_lowercase());
        if !is_new && !wishes.several {
            roster.dropped.push(entry.host.clone());
        } else if roster.others.len() < wanted {
            let (name, nth) = if is_new { (names.take(host), 1) } else { names.take_next(host) };
            let mut member = Member { name, nth, ..member(host, Some(entry), wishes) };
            member.host = host.to_owned();
            roster.others.push(member);
        }
    }
    match wishes.total {
        Some(total) if roster.others.len() + 1 < total => {
            Err(NotEnough { total, there: roster.others.len() })
        }
        _ => Ok(roster),
    }
}

fn member(host: &str, entry: Option<&HostEntry>, wishes: &Wishes) -> Member {
    Member {
        name: host.to_owned(),
        host: host.to_owned(),
        user: entry.and_then(|entry| entry.user.clone()).or_else(|| wishes.user.clone()),
        port: entry.and_then(|entry| entry.port),
        ifhn: entry.and_then(|entry| entry.ifhn.clone()),
        ncpus: entry.and_then(|entry| entry.ncpus),
        ordinal: None,
        nth: 1,
    }
}

/// Names of daemons, each given once.
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

    fn roster(list: &str, wishes: &Wishes) -> Roster {
        let is_here = |host: &str| is_loopback(host) || ["h0", "h0-ib"].contains(&host);
        choose(&parse_list(list).unwrap(), wishes, "h0", is_here).unwrap()
    }

    fn others(roster: &Roster) -> Vec<(&str, &str, u32)> {
        roster.others.iter().map(|m| (m.name.as_str(), m.host.as_str(), m.nth)).collect()
    }

    #[test]
    fn this_host_is_first_and_takes_what_the_list_says_of_it() {
        let entries = parse_file(b"h1:2\nh0-ib:8 ifhn=ib0\nh2 user=bo").unwrap();
        let wishes = Wishes { user: Some("al".into()), ..Wishes::default() };
        let roster = choose(&entries, &wishes, "h0", |host| host == "h0-ib").unwrap();
        assert_eq!((roster.local.name.as_str(), roster.local.ncpus), ("h0-ib", Some(8)));
        assert_eq!(roster.local.ifhn.as_deref(), Some("ib0"));
        assert_eq!(others(&roster), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(roster.others[0].user.as_deref(), Some("al"));
        assert_eq!(roster.others[1].user.as_deref(), Some("bo"));
    }

    #[test]
    fn options_win_over_the_list_and_localhost_is_no_name_for_a_daemon() {
        let wishes = Wishes { ncpus: Some(3), ifhn: Some("x".into()), ..Wishes::default() };
        let roster = roster("localhost:8,h1", &wishes);
        assert_eq!((roster.local.name.as_str(), roster.local.ncpus), ("h0", Some(3)));
        assert_eq!(others(&roster), [("h1", "h1", 1)]);
    }

    #[test]
    fn with_a_number_the_first_others_are_used() {
        let wishes = |total| Wishes { total: Some(total), ..Wishes::default() };
        assert_eq!(others(&roster("h1,h0,h2,h3", &wishes(3))), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(others(&roster("h1,h2", &wishes(1))), []);
        let entries = parse_list("h1,h1,h0").unwrap();
        let error = choose(&entries, &wishes(3), "h0", |host| host == "h0").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("-n 3 needs 2 hosts besides this one, and the list has 1")
        );
    }

    #[test]
    fn who_stands_there_twice_is_dropped_or_gets_a_second_daemon() {
        let list = "h1,H1,h0,h1,h0,h0-ib,h2";
        let once = roster(list, &Wishes::default());
        assert_eq!(others(&once), [("h1", "h1", 1), ("h2", "h2", 1)]);
        assert_eq!(once.dropped, ["H1", "h1", "h0", "h0-ib"]);
        let several = Wishes { several: true, ..Wishes::default() };
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
