//! The host of each process that a rank of a running job spawns: a pure function of the request and
//! the members of the ring.
//!
//! All spawns of a job share one *cursor*: the host used last, by any rank's spawn. With `rr` each
//! process goes to the host after the cursor. Many small spawns are therefore spread like one large
//! spawn. With `load` a process goes to the host that is the least busy for its CPUs and its speed,
//! and the cursor decides ties. Blocked processes of the job are no load. With `pack` the slots of the host used last are filled, and then
//! those of the next host. When all slots are full, the order begins again.
//!
//! A block without hosts of its own has those of the job, otherwise all in ring order. Its own
//! hosts are taken in the order of its list: after the host used last if the list has that host,
//! otherwise from the first. Hosts that are draining, excluded or lost to the job are skipped. A
//! host of the job that has left the ring is skipped as well, and the order does not change.
//!
//! With a limit, hosts whose slots are full are skipped as well. Blocked processes occupy no slot. If the hosts have
//! no room for the whole spawn, it is not placed.

mod circle;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::error::PlacementError;
use super::load::Busyness;
use super::members::Members;
use super::{Candidate, PlacedHost};
use circle::{Circle, Host, Last};
use mpd_wire::job::{HostChoice, MAX_HOST_SLICES, SpawnPlacement, SpawnPolicy};
use mpd_wire::{DaemonName, RankSet};

/// A spawn, or the reason to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnPlacing {
    /// Every process has a host.
    Placed(SpawnPlaced),
    /// [`SpawnPlacement::limit`] leaves no room for all of them.
    Full,
}

/// The hosts of spawned processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnPlaced {
    /// The hosts in the order in which they were first used, with their ranks, counted from 0 over all
    /// blocks.
    pub hosts: Vec<PlacedHost>,
    /// The host used last.
    pub last: DaemonName,
}

/// Places the processes of `request` on `members`. Each member occurs once. `origin` is the host of
/// the job's root, one of the members. If [`SpawnPlacement::last`] is no longer a member, `stood` is its
/// former ordinal, if that is known.
///
/// # Errors
/// [`PlacementError`], for the user.
pub fn place_spawn(
    request: &SpawnPlacement,
    members: &[Candidate],
    origin: &DaemonName,
    stood: Option<u64>,
) -> Result<SpawnPlacing, PlacementError> {
    request.check()?;
    let members = Members::new(members, origin, request.here_first, &request.exclude)?;
    match Spawning::new(request, &members, stood, request.limit).place_all()? {
        SpawnPlacing::Full if request.nevertheless => {
            Spawning::new(request, &members, stood, None).place_all()
        }
        placing => Ok(placing),
    }
}

struct Spawning<'a> {
    request: &'a SpawnPlacement,
    members: &'a Members<'a>,
    is_lost: Vec<bool>,
    /// Living processes of the job on each member, including those that were just placed.
    living: Vec<u32>,
    /// Those of them that are blocked.
    blocked: Vec<u32>,
    /// Those that lived before this spawn.
    before: Vec<u32>,
    limit: Option<u32>,
    /// The ranks that each member got.
    taken: Vec<Vec<(u32, u32)>>,
    gone: Last<'a>,
    last: Last<'a>,
    next_rank: u32,
}

impl<'a> Spawning<'a> {
    fn new(
        request: &'a SpawnPlacement,
        members: &'a Members<'a>,
        stood: Option<u64>,
        limit: Option<u32>,
    ) -> Self {
        let mut is_lost = vec![false; members.len()];
        for member in request.lost.iter().filter_map(|name| members.number_of(name)) {
            is_lost[member] = true;
        }
        let counted = |counts: &[(DaemonName, u32)]| {
            let mut counted = vec![0_u32; members.len()];
            for (name, count) in counts {
                if let Some(member) = members.number_of(name) {
                    counted[member] = counted[member].saturating_add(*count);
                }
            }
            counted
        };
        let (living, blocked) = (counted(&request.running), counted(&request.blocked));
        let last = match &request.last {
            None => Last::Nobody,
            Some(name) => members.number_of(name).map_or(Last::Gone(name, stood), Last::Member),
        };
        let taken = vec![Vec::new(); members.len()];
        let (gone, next_rank, before) = (last, 0, living.clone());
        Self {
            request,
            members,
            is_lost,
            living,
            blocked,
            before,
            limit,
            taken,
            gone,
            last,
            next_rank,
        }
    }

    fn place_all(mut self) -> Result<SpawnPlacing, PlacementError> {
        let mut circles = BTreeMap::new();
        for block in &self.request.blocks {
            let own = block.hosts.as_deref();
            let circle = match circles.entry(own) {
                Entry::Occupied(circle) => circle.into_mut(),
                Entry::Vacant(place) => place.insert(self.circle(own)?),
            };
            let policy = block.policy.unwrap_or(self.request.policy);
            if self.room(circle) < u64::from(block.size) {
                return Ok(SpawnPlacing::Full);
            }
            self.place(circle, policy, block.size);
        }
        self.finish().map(SpawnPlacing::Placed)
    }

    /// The hosts of a block's own list, or of the job's.
    fn circle(&self, own: Option<&[HostChoice]>) -> Result<Circle, PlacementError> {
        let list = own.unwrap_or(&self.request.hosts);
        let is_draining = |member| self.members.get(member).draining;
        let is_open = |member| {
            !is_draining(member) && !self.is_lost[member] && !self.members.is_excluded(member)
        };
        let circle = Circle::new(self.members, list, own.is_some(), self.gone, is_open)?;
        if !circle.hosts.is_empty() {
            return Ok(circle);
        }
        let names = |closed: &dyn Fn(usize) -> bool| {
            self.members.names(circle.members().filter(|&member| closed(member)))
        };
        Err(PlacementError::NobodyTakes {
            draining: names(&is_draining),
            excluded: names(&|member| self.members.is_excluded(member)),
            lost: names(&|member| self.is_lost[member]),
        })
    }

    fn place(&mut self, circle: &Circle, policy: SpawnPolicy, size: u32) {
        match policy {
            SpawnPolicy::RoundRobin => self.round_robin(circle, size),
            SpawnPolicy::Load => self.by_load(circle, size),
            SpawnPolicy::Pack => self.pack(circle, size),
        }
    }

    fn round_robin(&mut self, circle: &Circle, size: u32) {
        let mut at = circle.after(self.last);
        for _ in 0..size {
            while self.is_full(circle.hosts[at]) {
                at = circle.wrapped(at + 1);
            }
            self.give(circle.hosts[at].member);
            at = circle.wrapped(at + 1);
        }
    }

    fn by_load(&mut self, circle: &Circle, size: u32) {
        let mut at = circle.after(self.last);
        let mut by_load: BTreeMap<Busyness, BTreeSet<usize>> = BTreeMap::new();
        for (place, host) in
            circle.hosts.iter().enumerate().filter(|(_, host)| !self.is_full(**host))
        {
            by_load.entry(self.busyness(*host)).or_default().insert(place);
        }
        for _ in 0..size {
            let mut least = by_load.first_entry().expect("the circle has room");
            let places = least.get_mut();
            let next = places.range(at..).next().or_else(|| places.first());
            let place = *next.expect("a load is there because of a host");
            places.remove(&place);
            if places.is_empty() {
                least.remove();
            }
            let host = circle.hosts[place];
            self.give(host.member);
            if !self.is_full(host) {
                by_load.entry(self.busyness(host)).or_default().insert(place);
            }
            at = circle.wrapped(place + 1);
        }
    }

    fn pack(&mut self, circle: &Circle, size: u32) {
        let mut at = circle.from(self.last);
        let slots = |place: usize| u64::from(circle.hosts[place].slots.max(1));
        let living = |all: &Self, place: usize| u64::from(all.living[circle.hosts[place].member]);
        // How often the slots of all hosts were filled, and how often they may now be filled.
        let filled = |place| living(self, place) / slots(place);
        let mut times = (0..circle.hosts.len()).map(filled).min().unwrap_or(0) + 1;
        // If the host used last is full and so are all others, the next host begins.
        if times > 1 && living(self, at) == slots(at) * (times - 1) {
            at = circle.after(self.last);
        }
        let mut passed = 0;
        for _ in 0..size {
            while living(self, at) >= slots(at) * times || self.is_full(circle.hosts[at]) {
                at = circle.wrapped(at + 1);
                passed += 1;
                if passed == circle.hosts.len() {
                    (times, passed) = (times + 1, 0);
                    at = circle.wrapped(at + 1);
                }
            }
            passed = 0;
            self.give(circle.hosts[at].member);
        }
    }

    /// The load of others counts too. That of the whole host contains the job's processes.
    fn busyness(&self, host: Host) -> Busyness {
        let Candidate { ncpus, load, .. } = self.members.get(host.member);
        let others = load.running.saturating_sub(100 * u64::from(self.before[host.member]));
        let processes = others + 100 * u64::from(self.working(host.member));
        Busyness::new(processes, *ncpus, host.speed.unwrap_or(load.speed))
    }

    /// The living processes that are not blocked.
    fn working(&self, member: usize) -> u32 {
        self.living[member].saturating_sub(self.blocked[member])
    }

    /// How many processes the limit still permits on a host; `None`: any number.
    fn free(&self, host: Host) -> Option<u64> {
        let most = u64::from(self.limit?) * u64::from(host.slots.max(1));
        Some(most.saturating_sub(self.working(host.member).into()))
    }

    fn is_full(&self, host: Host) -> bool {
        self.free(host) == Some(0)
    }

    /// How many processes the limit still permits on these hosts.
    fn room(&self, circle: &Circle) -> u64 {
        circle
            .hosts
            .iter()
            .fold(0, |sum, &host| sum.saturating_add(self.free(host).unwrap_or(u64::MAX)))
    }

    /// Places the next rank on this member.
    fn give(&mut self, member: usize) {
        let rank = self.next_rank;
        self.next_rank += 1;
        self.living[member] = self.living[member].saturating_add(1);
        match self.taken[member].last_mut() {
            Some(last) if last.1 + 1 == rank => last.1 = rank,
            _ => self.taken[member].push((rank, rank)),
        }
        self.last = Last::Member(member);
    }

    fn finish(self) -> Result<SpawnPlaced, PlacementError> {
        let Last::Member(last) = self.last else { unreachable!("a wish has a process") };
        let last = self.members.get(last).member.clone();
        let mut used: Vec<_> = self.taken.into_iter().enumerate().collect();
        used.retain(|(_, ranges)| !ranges.is_empty());
        if used.len() > MAX_HOST_SLICES {
            return Err(PlacementError::TooManyHosts(used.len()));
        }
        used.sort_by_key(|(_, ranges)| ranges[0]);
        let host = |(member, ranges)| {
            let Candidate { member, addresses, .. } = self.members.get(member);
            PlacedHost {
                member: member.clone(),
                addresses: addresses.clone(),
                ranks: RankSet::from_ranges(ranges),
            }
        };
        Ok(SpawnPlaced { hosts: used.into_iter().map(host).collect(), last })
    }
}
