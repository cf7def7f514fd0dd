//! The members in ring order, and the meaning of a host's name.
//!
//! A name means the member with that name. Otherwise it means the member with that address.
//! Otherwise it means the member whose first label is the same, if only one of the two names has
//! further labels. `localhost` and the loopback addresses mean the console's host.

use std::collections::BTreeMap;

use super::Candidate;
use super::error::{Names, PlacementError};
use mpd_wire::job::{HostChoice, Notice};
use mpd_wire::{Address, DaemonName};

/// A host of a list: its number in [`Members`], and the slots given in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) member: usize,
    /// The slots that are not held, or all of them if none is free.
    pub(super) ncpus: u32,
    pub(super) slots: Option<u32>,
    /// The speed, if the list has one.
    pub(super) speed: Option<u32>,
    /// Most ranks, if the list has a limit.
    pub(super) max: Option<u32>,
    /// All its slots are held by allocations, and the list gives no number.
    pub(super) shares: bool,
}

pub(super) struct Members<'a> {
    /// In ring order.
    list: Vec<&'a Candidate>,
    origin: usize,
    by_name: BTreeMap<&'a str, usize>,
    by_address: BTreeMap<&'a str, Vec<usize>>,
    by_label: BTreeMap<&'a str, Vec<usize>>,
    is_excluded: Vec<bool>,
    /// Excluded names that no member has.
    excluded_for_nothing: Vec<&'a str>,
}

impl<'a> Members<'a> {
    pub(super) fn new(
        members: &'a [Candidate],
        origin: &DaemonName,
        here_first: bool,
        exclude: &'a [String],
    ) -> Result<Self, PlacementError> {
        let mut list: Vec<&Candidate> = members.iter().collect();
        list.sort_by_key(|candidate| (candidate.ordinal, &candidate.member));
        let place_of_origin = |list: &[&Candidate]| list.iter().position(|c| c.member == *origin);
        let Some(first) = place_of_origin(&list) else {
            return Err(PlacementError::Origin(origin.clone()));
        };
        let count = list.len();
        list.rotate_left(if here_first { first } else { (first + 1) % count });
        let mut all = Self {
            origin: place_of_origin(&list).unwrap_or_default(),
            by_name: BTreeMap::new(),
            by_address: BTreeMap::new(),
            by_label: BTreeMap::new(),
            is_excluded: vec![false; list.len()],
            excluded_for_nothing: Vec::new(),
            list,
        };
        all.index();
        for name in exclude {
            match all.find(name)? {
                Some(member) => all.is_excluded[member] = true,
                None => all.excluded_for_nothing.push(name),
            }
        }
        Ok(all)
    }

    fn index(&mut self) {
        for (number, candidate) in self.list.iter().enumerate() {
            let name = candidate.member.as_str();
            self.by_name.insert(name, number);
            self.by_label.entry(label(name)).or_default().push(number);
            for host in candidate.addresses.iter().map(host_of) {
                let here = self.by_address.entry(host).or_default();
                if here.last() != Some(&number) {
                    here.push(number);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, member: usize) -> &'a Candidate {
        self.list[member]
    }

    /// The number of the member with this name.
    pub(super) fn number_of(&self, name: &DaemonName) -> Option<usize> {
        self.by_name.get(name.as_str()).copied()
    }

    pub(super) fn is_excluded(&self, member: usize) -> bool {
        self.is_excluded[member]
    }

    pub(super) const fn origin(&self) -> usize {
        self.origin
    }

    /// The hosts that `requests` means, in its order, without the excluded ones. If it is empty: all
    /// members that are neither excluded nor draining. A draining host that is named is used.
    pub(super) fn listed(&self, requests: &[HostChoice]) -> Result<Vec<Listed>, PlacementError> {
        let mut hosts = Vec::new();
        let mut unknown = Vec::new();
        for request in requests {
            match self.find(&request.name)? {
                Some(member) => {
                    let (max, speed) = (request.max, request.speed);
                    hosts.push(Listed { max, speed, ..self.host(member, request.slots) });
                }
                None => unknown.push(request.name.clone()),
            }
        }
        // A name that is excluded and belongs to no member is not reported as unknown.
        if !hosts.is_empty() {
            unknown.retain(|name| !self.excluded_for_nothing.contains(&name.as_str()));
        }
        if !unknown.is_empty() {
            return Err(self.unknown(unknown));
        }
        if requests.is_empty() {
            hosts = (0..self.len()).map(|member| self.host(member, None)).collect();
        }
        let mut left = hosts.clone();
        left.retain(|host| !self.is_excluded[host.member]);
        if left.is_empty() {
            let names = self.names(hosts.iter().map(|host| host.member));
            return Err(PlacementError::NobodyLeft(names));
        }
        if requests.is_empty() {
            let draining = self.names(left.iter().map(|host| host.member));
            left.retain(|host| !self.list[host.member].draining);
            if left.is_empty() {
                return Err(PlacementError::Draining(draining));
            }
            if left.iter().any(|host| !host.shares) {
                left.retain(|host| !host.shares);
            }
        }
        Ok(left)
    }

    pub(super) fn unknown(&self, names: Vec<String>) -> PlacementError {
        PlacementError::Unknown { names, members: self.names(0..self.len()) }
    }

    /// The notice about excluded names that no member has.
    pub(super) fn notice(&self) -> Option<Notice> {
        let names = &self.excluded_for_nothing[..];
        let text = || format!("excluded, but not in the ring anyway: {}", Names(names));
        (!names.is_empty()).then(text).map(Notice::major)
    }

    fn host(&self, member: usize, slots: Option<u32>) -> Listed {
        let Candidate { ncpus, held, .. } = *self.list[member];
        let free = ncpus.saturating_sub(held);
        let shares = free == 0 && held > 0 && slots.is_none();
        Listed {
            member,
            ncpus: if free > 0 { free } else { ncpus },
            slots,
            speed: None,
            max: None,
            shares,
        }
    }

    pub(super) fn names(&self, members: impl Iterator<Item = usize>) -> Vec<DaemonName> {
        members.map(|member| self.list[member].member.clone()).collect()
    }

    /// The member that a name means.
    pub(super) fn find(&self, name: &str) -> Result<Option<usize>, PlacementError> {
        if let Some(&member) = self.by_name.get(name) {
            return Ok(Some(member));
        }
        if is_loopback(name) {
            return Ok(Some(self.origin));
        }
        if let Some(members) = self.by_address.get(name) {
            return self.only(name, members);
        }
        let same_label = self.by_label.get(label(name)).map_or(&[][..], Vec::as_slice);
        let fits = |&&member: &&usize| is_alike(name, self.list[member].member.as_str());
        let fitting: Vec<usize> = same_label.iter().filter(fits).copied().collect();
        self.only(name, &fitting)
    }

    fn only(&self, name: &str, members: &[usize]) -> Result<Option<usize>, PlacementError> {
        match members {
            [] => Ok(None),
            [only] => Ok(Some(*only)),
            several => Err(PlacementError::Ambiguous {
                name: name.to_owned(),
                members: self.names(several.iter().copied()),
            }),
        }
    }
}

/// Whether two names can belong to one host.
pub fn is_alike(one: &str, other: &str) -> bool {
    let is_whole = |name: &str| label(name).len() < name.len();
    one == other || (label(one) == label(other) && !(is_whole(one) && is_whole(other)))
}

/// The number of GPUs that a list gives to a host; `is_origin`: the console is there.
pub fn gpus_of(hosts: &[HostChoice], member: &DaemonName, is_origin: bool) -> Option<u32> {
    let is_it = |choice: &&HostChoice| {
        is_alike(&choice.name, member.as_str()) || (is_origin && is_loopback(&choice.name))
    };
    hosts.iter().filter(is_it).find_map(|choice| choice.gpus)
}

/// Whether the name means the local host on every host.
fn is_loopback(name: &str) -> bool {
    name == "localhost"
        || name == "::1"
        || ["localhost.", "127."].iter().any(|p| name.starts_with(p))
}

/// A name up to its first dot, or a whole numeric address.
fn label(name: &str) -> &str {
    let numeric = name.contains(':') || name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if numeric { name } else { name.split('.').next().unwrap_or(name) }
}

/// `HOST` of `HOST:PORT` or `[HOST]:PORT`.
fn host_of(address: &Address) -> &str {
    let text = address.as_str();
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}
