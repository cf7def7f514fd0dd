//! Hosts that the user chooses by number: in a rank file, or by `-pick` and LAM's notation. The numbers count the hosts
//! that options name, else those of the batch system, else those of the ring.

use std::collections::BTreeSet;

use mpd_placement::hosts::HostEntry;
use mpd_placement::rank_file::{RankHost, RankLine};
use mpd_wire::job::Argset;

use crate::usage::Usage;

/// Hosts that are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// One process on each host.
    EachHost,
    /// One process on each slot.
    EachSlot,
    /// One process for each entry of the list, in its order. A host may be in it several times.
    EachEntry,
    /// One process on each of these hosts.
    Hosts(usize, usize),
    /// One process on each of these slots, counted over all hosts.
    Slots(usize, usize),
}

/// Most slots that are counted.
const MAX_NUMBER: usize = 1 << 20;

/// The choice that a word means: `N`, `C`, `n0-3,5` or `c0,2`.
pub(crate) fn picks(word: &str) -> Option<Vec<Pick>> {
    let (make, numbers): (fn(usize, usize) -> Pick, &str) = match word.split_at_checked(1)? {
        ("N", "") => return Some(vec![Pick::EachHost]),
        ("C", "") => return Some(vec![Pick::EachSlot]),
        ("n", numbers) => (Pick::Hosts, numbers),
        ("c", numbers) => (Pick::Slots, numbers),
        _ => return None,
    };
    let range = |range: &str| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        (low <= high && high < MAX_NUMBER).then(|| make(low, high))
    };
    numbers.split(',').map(range).collect()
}

/// The choice of several words.
pub(crate) fn all_picks(text: &str) -> Option<Vec<Pick>> {
    if text == "lines" {
        return Some(vec![Pick::EachEntry]);
    }
    let words = text.split(' ').filter(|word| !word.is_empty());
    let all = words.map(picks).collect::<Option<Vec<_>>>()?.concat();
    (!all.is_empty()).then_some(all)
}

/// The hosts of `chosen` with as many slots as processes; `by` is the option. `all` are the hosts that are counted.
pub(crate) fn picked(
    chosen: &[Pick],
    by: &str,
    all: &[HostEntry],
) -> Result<Vec<HostEntry>, Usage> {
    let hosts = distinct(all);
    let slots = hosts.iter().flat_map(|host| {
        std::iter::repeat_n(host, host.ncpus.unwrap_or(1) as usize).take(MAX_NUMBER)
    });
    let slots: Vec<&HostEntry> = slots.take(MAX_NUMBER).collect();
    let hosts: Vec<&HostEntry> = hosts.iter().collect();
    let entries: Vec<&HostEntry> = all.iter().collect();
    let mut found: Vec<&HostEntry> = Vec::new();
    for &pick in chosen {
        let (list, range) = match pick {
            Pick::EachHost => (&hosts, Some(&hosts[..])),
            Pick::EachSlot => (&slots, Some(&slots[..])),
            Pick::EachEntry => (&entries, Some(&entries[..])),
            Pick::Hosts(low, high) => (&hosts, hosts.get(low..=high)),
            Pick::Slots(low, high) => (&slots, slots.get(low..=high)),
        };
        let range = range.ok_or_else(|| {
            Usage::new(format!("{by}: the numbers are 0 to {}", list.len().max(1) - 1))
        })?;
        found.extend(range);
    }
    Ok(found.into_iter().map(single).collect())
}

/// The hosts of a rank file in the order of ranks, each with one slot; `by` is the option.
pub(crate) fn of_ranks(
    ranks: &[RankLine],
    by: &str,
    all: &[HostEntry],
) -> Result<Vec<HostEntry>, Usage> {
    let hosts = distinct(all);
    let host = |(rank, line): (usize, &RankLine)| match &line.host {
        RankHost::Name(name) => {
            let known = hosts.iter().find(|host| host.host == *name);
            Ok(known.map_or_else(|| HostEntry::named(name.clone(), Some(1)), single))
        }
        RankHost::Place(place) => hosts.get(*place).map(single).ok_or_else(|| {
            let count = hosts.len();
            Usage::new(format!("{by}: rank {rank}: there is no host +n{place} among {count}"))
        }),
    };
    ranks.iter().enumerate().map(host).collect()
}

/// Checks that the hosts of the ranks of a file are among those of their programs, if several programs have their own. `by` is
/// the option.
pub(crate) fn check_hosts_of_programs(
    by: &str,
    argsets: &[Argset],
    of_ranks: &[HostEntry],
) -> Result<(), Usage> {
    let mut ranks = (0..).zip(of_ranks);
    for argset in argsets.iter().filter(|_| argsets.len() > 1) {
        let own = argset.hosts.as_ref();
        let own: Option<BTreeSet<&str>> =
            own.map(|hosts| hosts.iter().map(|host| host.name.as_str()).collect());
        let is_other =
            |host: &str| own.as_ref().is_some_and(|own| !own.is_empty() && !own.contains(host));
        for (rank, entry) in ranks.by_ref().take(argset.size as usize) {
            if is_other(&entry.host) {
                let host = &entry.host;
                let text =
                    format!("{by}: rank {rank} is on {host}, which is no host of its program");
                return Err(Usage::syntax(text));
            }
        }
    }
    Ok(())
}

fn single(host: &HostEntry) -> HostEntry {
    HostEntry { ncpus: Some(1), ..host.clone() }
}

/// Each host once, with the sum of its slots.
fn distinct(all: &[HostEntry]) -> Vec<HostEntry> {
    let mut hosts: Vec<HostEntry> = Vec::new();
    for entry in all {
        match hosts.iter_mut().find(|host| host.host == entry.host) {
            Some(host) => {
                host.ncpus = Some(host.ncpus.unwrap_or(1).saturating_add(entry.ncpus.unwrap_or(1)));
            }
            None => hosts.push(entry.clone()),
        }
    }
    hosts
}

/// Neighbours that are one host, as one entry.
pub(crate) fn joined(hosts: &[HostEntry]) -> Vec<HostEntry> {
    let mut joined: Vec<HostEntry> = Vec::new();
    for host in hosts {
        match joined.last_mut().filter(|last| last.host == host.host) {
            Some(last) => {
                last.ncpus = Some(last.ncpus.unwrap_or(1).saturating_add(host.ncpus.unwrap_or(1)));
            }
            None => joined.push(host.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_lam_are_hosts_and_slots_by_number() {
        assert_eq!(picks("N"), Some(vec![Pick::EachHost]));
        assert_eq!(picks("C"), Some(vec![Pick::EachSlot]));
        assert_eq!(picks("n0-3,5"), Some(vec![Pick::Hosts(0, 3), Pick::Hosts(5, 5)]));
        assert_eq!(picks("c2"), Some(vec![Pick::Slots(2, 2)]));
        for word in ["", "n", "c", "nodes", "n1-", "n3-1", "foo", "CC", "é"] {
            assert_eq!(picks(word), None, "{word}");
        }
    }

    #[test]
    fn lines_are_used_in_their_order_also_if_a_host_has_several() {
        let entry = |name: &str| HostEntry::named(name.to_owned(), Some(4));
        let all = ["a", "b", "a"].map(entry);
        let names = |text| {
            let hosts = picked(&all_picks(text).unwrap(), "-pick", &all).unwrap();
            hosts.iter().map(|host| host.host.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("lines"), "a b a");
        assert_eq!(names("N"), "a b");
    }
}
