//! The hosts of a list in a circle, and the successor of each host. A host that takes no processes
//! and a host that has left the ring have successors as well.

use std::collections::{BTreeMap, BTreeSet};

use super::super::error::PlacementError;
use super::super::members::{Members, is_alike};
use mpd_wire::DaemonName;
use mpd_wire::job::HostChoice;

/// A host that takes processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Its number in [`Members`].
    pub(super) member: usize,
    /// The processes that it takes before another host is preferred, where the policy counts slots.
    pub(super) slots: u32,
    /// Its speed, if the list has one.
    pub(super) speed: Option<u32>,
}

/// The host used last.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last<'a> {
    /// No host was used.
    Nobody,
    Member(usize),
    /// A host that has left the ring; with its former ordinal, if that is known.
    Gone(&'a DaemonName, Option<u64>),
}

/// The module's documentation describes it.
pub(super) struct Circle {
    /// The hosts that take processes, in order.
    pub(super) hosts: Vec<Host>,
    seats: BTreeMap<usize, Seat>,
    /// The index of the host after the one that has left.
    behind_gone: Option<usize>,
}

/// The position of a host of the list.
#[derive(Clone, Copy)]
struct Seat {
    /// The index among the hosts that take processes: of the host itself, or of the next one.
    at: usize,
    is_open: bool,
}

impl Circle {
    /// The hosts of `list`; all members if it is empty. With `strict` all of them must be in the
    /// ring, otherwise at least one.
    pub(super) fn new(
        members: &Members<'_>,
        list: &[HostChoice],
        strict: bool,
        last: Last<'_>,
        is_open: impl Fn(usize) -> bool,
    ) -> Result<Self, PlacementError> {
        let (sequence, gone) = match list {
            [] => (whole_ring(members), behind_ordinal(members, last)),
            list => listed(members, list, strict, last)?,
        };
        let mut circle = Self { hosts: Vec::new(), seats: BTreeMap::new(), behind_gone: None };
        for (place, host) in sequence.iter().enumerate() {
            let is_open = is_open(host.member);
            circle.seats.insert(host.member, Seat { at: circle.hosts.len(), is_open });
            if gone == Some(place) {
                circle.behind_gone = Some(circle.hosts.len());
            }
            if is_open {
                circle.hosts.push(*host);
            }
        }
        Ok(circle)
    }

    /// The members of the list.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        self.seats.keys().copied()
    }

    /// The host after `last`, or the first one if `last` is not in the list.
    pub(super) fn after(&self, last: Last<'_>) -> usize {
        match self.seat(last) {
            Some(Seat { at, is_open: true }) => self.wrapped(at + 1),
            Some(Seat { at, is_open: false }) => self.wrapped(at),
            None => 0,
        }
    }

    /// The host `last` if it takes processes; otherwise as [`Circle::after`].
    pub(super) fn from(&self, last: Last<'_>) -> usize {
        self.seat(last).map_or(0, |seat| self.wrapped(seat.at))
    }

    /// The index after the last one is 0.
    pub(super) fn wrapped(&self, at: usize) -> usize {
        if at < self.hosts.len() { at } else { 0 }
    }

    fn seat(&self, last: Last<'_>) -> Option<Seat> {
        match last {
            Last::Nobody => None,
            Last::Member(member) => self.seats.get(&member).copied(),
            Last::Gone(..) => self.behind_gone.map(|at| Seat { at, is_open: false }),
        }
    }
}

fn whole_ring(members: &Members<'_>) -> Vec<Host> {
    let host = |member| Host { member, slots: members.get(member).ncpus, speed: None };
    (0..members.len()).map(host).collect()
}

/// The index of the next host in ring order after a host that has left.
fn behind_ordinal(members: &Members<'_>, last: Last<'_>) -> Option<usize> {
    let Last::Gone(name, Some(ordinal)) = last else { return None };
    let place = |&member: &usize| (members.get(member).ordinal, &members.get(member).member);
    let behind = (0..members.len()).filter(|member| place(member) > (ordinal, name));
    behind.min_by_key(place).or_else(|| (0..members.len()).min_by_key(place))
}

/// The hosts that the list names, each once, with the sum of its slots there. Also the index of the
/// host after the one that has left.
fn listed(
    members: &Members<'_>,
    list: &[HostChoice],
    strict: bool,
    last: Last<'_>,
) -> Result<(Vec<Host>, Option<usize>), PlacementError> {
    let found = list.iter().map(|request| Ok((members.find(&request.name)?, request)));
    let found: Vec<_> = found.collect::<Result<_, PlacementError>>()?;
    let unknown = found.iter().filter(|(member, _)| member.is_none());
    let unknown: Vec<String> = unknown.map(|(_, request)| request.name.clone()).collect();
    if unknown.len() == list.len() || (strict && !unknown.is_empty()) {
        return Err(members.unknown(unknown));
    }
    // A batch system's list has a line for every slot.
    let distinct: BTreeSet<usize> = found.iter().filter_map(|(member, _)| *member).collect();
    let has_twins = distinct.len() + unknown.len() < list.len();
    let mut sequence: Vec<Host> = Vec::with_capacity(distinct.len());
    let mut places = BTreeMap::new();
    let mut gone = None;
    for (member, request) in found {
        let Some(member) = member else {
            if matches!(last, Last::Gone(name, _) if is_alike(&request.name, name.as_str())) {
                gone = Some(sequence.len());
            }
            continue;
        };
        let each = if has_twins { 1 } else { members.get(member).ncpus };
        let slots = request.slots.unwrap_or(each);
        let place = *places.entry(member).or_insert(sequence.len());
        match sequence.get_mut(place) {
            Some(host) => host.slots = host.slots.saturating_add(slots),
            None => sequence.push(Host { member, slots, speed: request.speed }),
        }
    }
    Ok((sequence, gone))
}
