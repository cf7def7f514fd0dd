//! A list of hosts that take groups of ranks in turn.

use std::collections::{BTreeSet, VecDeque};

use super::members::Listed;
use mpd_wire::job::{Notice, PlacementSpec, RankOrder};

/// Hosts in their order, and the next host.
pub(super) struct Pool {
    hosts: Vec<Host>,
    order: RankOrder,
    /// Ranks of a group.
    group: u32,
    /// Hosts with room: their indices in `hosts`, and the number of groups that each may still
    /// take.
    turns: VecDeque<(usize, u32)>,
    /// The number of groups that were placed.
    given: u64,
}

#[derive(Clone, Copy)]
struct Host {
    member: usize,
    /// The number of groups that it takes before all hosts take more.
    room: u32,
}

impl Pool {
    /// The hosts of a list; `taken` gives the number of groups that the job has already placed on a
    /// member.
    pub(super) fn new(
        hosts: &[Listed],
        request: &PlacementSpec,
        taken: impl Fn(usize) -> u32,
    ) -> Self {
        let group = request.group.unwrap_or(1).max(1);
        let hosts: Vec<Host> = with_slots(hosts, request)
            .into_iter()
            .map(|(member, slots)| Host { member, room: (slots / group).max(1) })
            .collect();
        let room = |host: &Host| host.room.saturating_sub(taken(host.member));
        let turns = hosts.iter().map(room).enumerate().filter(|&(_, room)| room > 0).collect();
        Self { hosts, order: request.order, group, turns, given: 0 }
    }

    /// The member that takes the next group.
    pub(super) fn next(&mut self) -> usize {
        self.given += 1;
        if self.turns.is_empty() {
            self.turns = self.hosts.iter().map(|host| host.room).enumerate().collect();
        }
        let (at, room) = self.turns.pop_front().expect("a list has a host, and a host has room");
        match (room - 1, self.order) {
            (0, _) => {}
            (left, RankOrder::BySlot) => self.turns.push_front((at, left)),
            (left, RankOrder::RoundRobin) => self.turns.push_back((at, left)),
        }
        self.hosts[at].member
    }

    /// The ranks or groups that were placed and the slots for them, if these are fewer.
    pub(super) fn excess(&self) -> Option<(u64, u64)> {
        let room: u64 = self.hosts.iter().map(|host| u64::from(host.room)).sum();
        (self.given > room).then_some((self.given, room))
    }

    /// The notice of more ranks than slots.
    pub(super) fn notice(&self, name_of: impl Fn(usize) -> String) -> Option<Notice> {
        let (given, room) = self.excess()?;
        let members: BTreeSet<usize> = self.hosts.iter().map(|host| host.member).collect();
        let what = if self.group == 1 { "processes" } else { "groups" };
        let hosts = match members.first() {
            Some(&only) if members.len() == 1 => name_of(only),
            _ => format!("{} hosts", members.len()),
        };
        Some(Notice::minor(format!("{given} {what} share {hosts} with slots for {room}")))
    }
}

/// The slots of each host. Adjacent lines with the same host count as one: a batch system's list
/// has a line for every slot. Ranks that are bound to several CPUs need as many of a host whose slots are its CPUs.
fn with_slots(hosts: &[Listed], request: &PlacementSpec) -> Vec<(usize, u32)> {
    let members: BTreeSet<usize> = hosts.iter().map(|host| host.member).collect();
    let has_twins = members.len() < hosts.len();
    if let Some(slots) = request.per_host {
        let mut seen = BTreeSet::new();
        let first = hosts.iter().filter(|host| seen.insert(host.member));
        return first.map(|host| (host.member, slots)).collect();
    }
    let mut list: Vec<(usize, u32)> = Vec::with_capacity(hosts.len());
    for host in hosts {
        let room = (host.ncpus / request.width.max(1)).max(1);
        let slots = host.slots.unwrap_or(if has_twins { 1 } else { room });
        match list.last_mut() {
            Some((member, sum)) if *member == host.member => *sum = sum.saturating_add(slots),
            _ => list.push((host.member, slots)),
        }
    }
    list
}
