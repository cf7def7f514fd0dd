//! The hosts of a list one behind the other, and who comes behind whom: also behind hosts that take
//! nothing, and behind one that has left the ring.

use std::collections::{BTreeMap, BTreeSet};

use super::super::error::PlacementError;
use super::super::members::{Members, is_alike};
use mpd_wire::DaemonName;
use mpd_wire::job::HostWish;

/// A host that takes processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Its number in [`Members`].
    pub(super) member: usize,
    /// What it takes before another is preferred, where that counts.
    pub(super) slots: u32,
}

/// The host used last.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last<'a> {
    /// There was none.
    Nobody,
    /// A member, by its number.
    Member(usize),
    /// It has left the ring, where it stood at that ordinal as far as that is known.
    Gone(&'a DaemonName, Option<u64>),
}

/// See the module.
pub(super) struct Circle {
    /// Those that take processes, in order.
    pub(super) hosts: Vec<Host>,
    seats: BTreeMap<usize, Seat>,
    /// Among the hosts, who comes behind the one that has left.
    behind_gone: Option<usize>,
}

/// Where a host of the list sits.
#[derive(Clone, Copy)]
struct Seat {
    /// Among those that take processes: its own place, or that of the one behind it.
    at: usize,
    is_open: bool,
}

impl Circle {
    /// The hosts of `list`, all members if it is empty. With `strict` all of them have to be in the ring,
    /// else one at least.
    pub(super) fn new(
        members: &Members<'_>,
        list: &[HostWish],
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

    /// Whose turn it is after `last`: the next one, or the first if `last` is not in the list.
    pub(super) fn after(&self, last: Last<'_>) -> usize {
        match self.seat(last) {
            Some(Seat { at, is_open: true }) => self.wrapped(at + 1),
            Some(Seat { at, is_open: false }) => self.wrapped(at),
            None => 0,
        }
    }

    /// The same, but `last` goes on if it can.
    pub(super) fn from(&self, last: Last<'_>) -> usize {
        self.seat(last).map_or(0, |seat| self.wrapped(seat.at))
    }

    /// The place behind the last one is the first one.
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
    let host = |member| Host { member, slots: members.get(member).ncpus };
    (0..members.len()).map(host).collect()
}

/// Who comes in ring order behind one that has left it.
fn behind_ordinal(members: &Members<'_>, last: Last<'_>) -> Option<usize> {
    let Last::Gone(name, Some(ordinal)) = last else { return None };
    let place = |&member: &usize| (members.get(member).ordinal, &members.get(member).member);
    let behind = (0..members.len()).filter(|member| place(member) > (ordinal, name));
    behind.min_by_key(place).or_else(|| (0..members.len()).min_by_key(place))
}

/// The hosts that the list names, each once, with all the slots that it has there; and the place among
/// them of who comes behind one that has left.
fn listed(
    members: &Members<'_>,
    list: &[HostWish],
    strict: bool,
    last: Last<'_>,
) -> Result<(Vec<Host>, Option<usize>), PlacementError> {
    let found = list.iter().map(|wish| Ok((members.find(&wish.name)?, wish)));
    let found: Vec<_> = found.collect::<Result<_, PlacementError>>()?;
    let unknown = found.iter().filter(|(member, _)| member.is_none());
    let unknown: Vec<String> = unknown.map(|(_, wish)| wish.name.clone()).collect();
    if unknown.len() == list.len() || (strict && !unknown.is_empty()) {
        return Err(members.unknown(unknown));
    }
    // A batch system's list has a line for every slot.
    let distinct: BTreeSet<usize> = found.iter().filter_map(|(member, _)| *member).collect();
    let has_twins = distinct.len() + unknown.len() < list.len();
    let mut sequence: Vec<Host> = Vec::with_capacity(distinct.len());
    let mut places = BTreeMap::new();
    let mut gone = None;
    for (member, wish) in found {
        let Some(member) = member else {
            if matches!(last, Last::Gone(name, _) if is_alike(&wish.name, name.as_str())) {
                gone = Some(sequence.len());
            }
            continue;
        };
        let each = if has_twins { 1 } else { members.get(member).ncpus };
        let slots = wish.slots.unwrap_or(each);
        let place = *places.entry(member).or_insert(sequence.len());
        match sequence.get_mut(place) {
            Some(host) => host.slots = host.slots.saturating_add(slots),
            None => sequence.push(Host { member, slots }),
        }
    }
    Ok((sequence, gone))
}
