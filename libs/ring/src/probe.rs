//! The search for absent members: entries, the dead (R4), the hosts of the host file (R5).
//!
//! Exactly one member searches each dead member: the one that would be its lhs. The halves of a
//! ring therefore find each other from both sides, and no host is flooded. Not every member has a
//! host file. A member that has one therefore also searches seeds outside its own gap, once in as
//! many pulses as there are members.

use std::collections::BTreeMap;

use crate::config::{GAP, MAX_PROBES, Seed};
use crate::dial::Aim;
use crate::links::{Link, Purpose};
use crate::{Entrance, Event, Phase, Ring};
use mpd_sansio::Time;
use mpd_wire::{Address, DaemonName, MAX_ADDRESSES, Record, Seat, Standing};

#[derive(Debug)]
struct SeedState {
    ordinal: u64,
    address: Address,
    /// The name of the daemon that answered there.
    name: Option<DaemonName>,
    /// It is this daemon's own address.
    mine: bool,
    /// The members whose records have this address. Usually there is one.
    members: Vec<DaemonName>,
}

impl SeedState {
    fn position(&self) -> u64 {
        self.ordinal.saturating_mul(GAP)
    }
}

/// Most members that are noted for one seed.
const MAX_OF_SEED: usize = 8;

#[derive(Debug)]
pub(crate) struct Search {
    /// In the order of their positions.
    seeds: Vec<SeedState>,
    /// The seeds with this address, as indices.
    by_address: BTreeMap<Address, Vec<usize>>,
    /// The index at which the next turn through the missing members begins.
    cursor: usize,
}

impl Search {
    pub(crate) fn new(seeds: &[Seed]) -> Self {
        let seeds = seeds.iter().cloned().map(|Seed { ordinal, address }| SeedState {
            ordinal,
            address,
            name: None,
            mine: false,
            members: Vec::new(),
        });
        let mut seeds: Vec<SeedState> = seeds.collect();
        seeds.sort_by_key(|seed| seed.ordinal);
        let mut by_address: BTreeMap<Address, Vec<usize>> = BTreeMap::new();
        for (index, seed) in seeds.iter().enumerate() {
            by_address.entry(seed.address.clone()).or_default().push(index);
        }
        Self { seeds, by_address, cursor: 0 }
    }

    /// Notes the addresses of a record that replaces another one.
    pub(crate) fn note(&mut self, before: Option<&Record>, after: Option<&Record>) {
        let (old, new) = (addresses(before), addresses(after));
        if self.seeds.is_empty() || old == new {
            return;
        }
        for address in old.iter().chain(new) {
            for &index in self.by_address.get(address).into_iter().flatten() {
                let members = &mut self.seeds[index].members;
                let of = |record: Option<&Record>| record.map(|record| record.name.clone());
                members.retain(|name| before.is_none_or(|before| before.name != *name));
                if let Some(name) = of(after).filter(|_| new.contains(address))
                    && !members.contains(&name)
                    && members.len() < MAX_OF_SEED
                {
                    members.push(name);
                }
            }
        }
    }

    /// The indices of the seeds between two seats, and of those at the seats' positions.
    fn around(&self, from: &Seat, to: &Seat) -> Vec<usize> {
        let first = self.seeds.partition_point(|seed| seed.position() < from.position);
        let end = self.seeds.partition_point(|seed| seed.position() <= to.position);
        let all = self.seeds.len();
        if from < to {
            (first..end).collect()
        } else {
            (0..end).chain(first.max(end)..all).collect()
        }
    }

    pub(crate) fn seed_is_mine(&mut self, index: usize) {
        self.seeds[index].mine = true;
    }

    pub(crate) fn seed_answered(&mut self, index: usize, name: &DaemonName) {
        self.seeds[index].name = Some(name.clone());
    }
}

fn addresses(record: Option<&Record>) -> &[Address] {
    record.map_or(&[], |record| &record.addresses)
}

impl Ring {
    /// At the pace of the pulse: tries an entry, or searches some of the missing members.
    pub(super) fn search(&mut self, now: Time) {
        if self.is_waiting() {
            return;
        }
        if self.seat().is_none() {
            self.search_entry(now);
            return;
        }
        let under_way = self.dials.iter().filter(|(_, aim)| is_search(aim)).count();
        let any_seed = self.random.below(self.list.live_count()) == 0;
        let missing = self.missing(any_seed);
        let mut budget = MAX_PROBES.saturating_sub(under_way);
        let first = self.search.cursor;
        for turn in first..first + missing.len() {
            let aim = missing[turn % missing.len()].clone();
            if budget == 0 {
                break;
            }
            if self.is_tried(&aim) {
                continue;
            }
            budget -= 1;
            self.search.cursor = (turn + 1) % missing.len();
            let addresses = match &aim {
                Aim::Seed(index) => vec![self.search.seeds[*index].address.clone()],
                Aim::Dead(name) => {
                    self.list.get(name).map(|r| r.addresses.clone()).unwrap_or_default()
                }
                Aim::Rhs(..)
                | Aim::Candidate(..)
                | Aim::Entry(_)
                | Aim::Double(_)
                | Aim::Chord(_)
                | Aim::Proof(_)
                | Aim::Meeting => unreachable!("only the dead and the seeds are missing"),
            };
            self.dial(now, aim, addresses);
        }
    }

    /// Members and seeds between this daemon and its rhs that may be alive, the nearest first.
    fn missing(&self, any_seed: bool) -> Vec<Aim> {
        let Some(me) = self.seat() else { return Vec::new() };
        let end = self.end_of_gap(&me);
        let mut missing: Vec<(Seat, Aim)> = Vec::new();
        if self.config.rules.probe_dead {
            let dead = self.list.dead_between(&me, &end);
            missing.extend(dead.map(|r| (r.seat(), Aim::Dead(r.name.clone()))));
        }
        if self.config.rules.probe_seeds {
            // Only the rare search through all seeds looks at each of them.
            let all = 0..self.search.seeds.len();
            let seeds = if any_seed { all.collect() } else { self.search.around(&me, &end) };
            for index in seeds {
                let seed = &self.search.seeds[index];
                // The name of the daemon there is not known yet; this daemon's own name takes its
                // place.
                let name = seed.name.as_ref().unwrap_or(&me.name).clone();
                let seat = Seat { position: seed.position(), name };
                let ours = match self.standing_of(seed) {
                    None => any_seed || seat.is_between(&me, &end),
                    // The member may have returned where no peer could report it, or have moved
                    // away from the addresses of its record.
                    Some(Standing::Departed | Standing::Dead) => any_seed,
                    Some(Standing::Live) => false,
                };
                if ours && !seed.mine {
                    missing.push((seat, Aim::Seed(index)));
                }
            }
        }
        // Once round, beginning behind this daemon.
        missing.sort_by(|(a, _), (b, _)| (*a < me, a).cmp(&(*b < me, b)));
        missing.into_iter().map(|(_, aim)| aim).collect()
    }

    /// The standing of the member at a seed's address, if one is known. A live member goes first.
    fn standing_of(&self, seed: &SeedState) -> Option<Standing> {
        let standing = |name: &DaemonName| Some(self.list.get(name)?.standing);
        match &seed.name {
            Some(name) => standing(name),
            None => seed.members.iter().filter_map(standing).min(),
        }
    }

    /// The seat of the rhs by the list; this daemon's own if it is alone.
    fn end_of_gap(&self, me: &Seat) -> Seat {
        self.list.after(me).map_or_else(|| me.clone(), |record| record.seat())
    }

    fn is_tried(&self, aim: &Aim) -> bool {
        let linked = |name: &DaemonName| {
            let probing = |link: &Link| link.is_own(Purpose::Probe) && link.peer.name == *name;
            self.links.iter().any(|(_, link)| probing(link))
        };
        self.dials.any(|dialed| dialed == aim) || aim.wanted().is_some_and(linked)
    }

    /// Connects to a daemon that may be in another ring, one at a time. Both exchange their lists then.
    pub(super) fn seek(&mut self, now: Time, mut addresses: Vec<Address>) {
        addresses.truncate(MAX_ADDRESSES);
        let is_busy = self.dials.any(|aim| *aim == Aim::Meeting);
        if !addresses.is_empty() && !is_busy && !self.is_waiting() && self.seat().is_some() {
            self.dial(now, Aim::Meeting, addresses);
        }
    }

    /// A newcomer tries its entries in turn, then the seeds.
    fn search_entry(&mut self, now: Time) {
        let Phase::Entering(entrance) = self.phase else { return };
        let since = now - entrance.began;
        let entering = self.links.iter().any(|(_, link)| link.own);
        let asks = self.dials.any(|aim| matches!(aim, Aim::Double(_)));
        let despairs = since >= self.config.timing.entry && !entering && !asks;
        if despairs && !self.search.seeds.is_empty() {
            self.abandon(|_| true);
            return self.take_first_place(entrance.began);
        }
        let busy = self.dials.any(|aim| matches!(aim, Aim::Entry(_) | Aim::Double(_)));
        if busy || entering {
            return;
        }
        let places = self.entries();
        let Some(place) = places.get(entrance.tried % places.len().max(1)).cloned() else {
            return;
        };
        self.phase = Phase::Entering(Entrance { tried: entrance.tried + 1, ..entrance });
        self.dial(now, Aim::Entry(place.clone()), vec![place]);
    }

    /// Tries the next entry at once until all were tried, then at the pace of the pulse.
    pub(super) fn entry_failed(&mut self, now: Time) {
        let Phase::Entering(entrance) = self.phase else { return };
        if self.seat().is_some() {
            return;
        }
        if entrance.tried.is_multiple_of(self.entries().len().max(1)) {
            self.event(Event::EntryFailed);
        } else {
            self.search_entry(now);
        }
    }

    /// The addresses that a newcomer tries.
    fn entries(&self) -> Vec<Address> {
        let seeds = self.search.seeds.iter().filter(|seed| !seed.mine).map(|seed| &seed.address);
        self.config.entry.iter().chain(seeds).cloned().collect()
    }

    /// The dead members that this daemon searches: those between it and its derived rhs. In a whole
    /// ring, exactly one member searches each dead member.
    pub fn watched_dead(&self) -> Vec<DaemonName> {
        let Some(me) = self.seat() else { return Vec::new() };
        let end = self.end_of_gap(&me);
        let mut dead: Vec<DaemonName> =
            self.list.dead_between(&me, &end).map(|record| record.name.clone()).collect();
        dead.sort_unstable();
        dead
    }
}

const fn is_search(aim: &Aim) -> bool {
    match aim {
        Aim::Dead(_) | Aim::Seed(_) => true,
        Aim::Rhs(..)
        | Aim::Candidate(..)
        | Aim::Entry(_)
        | Aim::Double(_)
        | Aim::Chord(_)
        | Aim::Proof(_)
        | Aim::Meeting => false,
    }
}
