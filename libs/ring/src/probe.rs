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
use crate::{Event, Phase, Ring};
use mpd_machine::Time;
use mpd_wire::{Address, DaemonName, Record, Seat, Standing};

#[derive(Debug)]
struct SeedState {
    ordinal: u64,
    address: Address,
    /// The name of the daemon that answered there.
    name: Option<DaemonName>,
    /// It is this daemon's own address.
    mine: bool,
    /// The standing of the member at that address, if one is known.
    standing: Option<Standing>,
}

#[derive(Debug)]
pub(crate) struct Search {
    seeds: Vec<SeedState>,
    /// The revision of the list that the standings belong to; `None` if they must be derived again.
    reviewed: Option<u64>,
    /// The index at which the next turn through the missing members begins.
    cursor: usize,
    /// The number of attempts at entries so far.
    tried: usize,
}

impl Search {
    pub(crate) fn new(seeds: &[Seed]) -> Self {
        let seeds = seeds.iter().cloned().map(|Seed { ordinal, address }| SeedState {
            ordinal,
            address,
            name: None,
            mine: false,
            standing: None,
        });
        Self { seeds: seeds.collect(), reviewed: None, cursor: 0, tried: 0 }
    }

    pub(crate) fn seed_is_mine(&mut self, index: usize) {
        self.seeds[index].mine = true;
    }

    pub(crate) fn seed_answered(&mut self, index: usize, name: &DaemonName) {
        self.seeds[index].name = Some(name.clone());
        self.reviewed = None;
    }
}

impl Ring {
    /// At the pace of the pulse: tries an entry, or searches some of the missing members.
    pub(super) fn search(&mut self, now: Time) {
        if self.waits {
            return;
        }
        if self.seat().is_none() {
            self.search_entry(now);
            return;
        }
        let under_way = self.dials.iter().filter(|(_, aim)| is_search(aim)).count();
        let any_seed = self.random.below(self.list.live_count()) == 0;
        self.review_seeds();
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
                | Aim::Proof(_) => unreachable!("only the dead and the seeds are missing"),
            };
            self.dial(now, aim, addresses);
        }
    }

    /// Members and seeds between this daemon and its rhs that may be alive, the nearest first.
    fn missing(&self, any_seed: bool) -> Vec<Aim> {
        let Some(me) = self.seat() else { return Vec::new() };
        let end = self.list.after(&me).unwrap_or(&me);
        let mut missing: Vec<(Seat, Aim)> = Vec::new();
        if self.config.rules.probe_dead {
            let watched_dead =
                self.watched_dead().into_iter().filter_map(|name| self.list.get(&name));
            missing.extend(watched_dead.map(|r| (r.seat(), Aim::Dead(r.name.clone()))));
        }
        if self.config.rules.probe_seeds {
            for (index, seed) in self.search.seeds.iter().enumerate() {
                // The name of the daemon there is not known yet; this daemon's own name takes its
                // place.
                let name = seed.name.as_ref().unwrap_or(&me.name).clone();
                let seat = Seat { position: seed.ordinal.saturating_mul(GAP), name };
                let ours = match seed.standing {
                    None => any_seed || seat.is_between(&me, end),
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

    /// Derives the standings of the members at the seeds' addresses, if the list has changed since.
    fn review_seeds(&mut self) {
        if self.search.reviewed.replace(self.revision) == Some(self.revision) {
            return;
        }
        let mut by_address: BTreeMap<&Address, &Record> = BTreeMap::new();
        for record in self.list.iter() {
            for address in &record.addresses {
                by_address.entry(address).or_insert(record);
            }
        }
        for seed in &mut self.search.seeds {
            let known = match &seed.name {
                Some(name) => self.list.get(name),
                None => by_address.get(&seed.address).copied(),
            };
            seed.standing = known.map(|record| record.standing);
        }
    }

    fn is_tried(&self, aim: &Aim) -> bool {
        let linked = |name: &DaemonName| {
            let probing = |link: &Link| link.is_own(Purpose::Probe) && link.peer.name == *name;
            self.links.iter().any(|(_, link)| probing(link))
        };
        self.dials.any(|dialed| dialed == aim) || aim.wanted().is_some_and(linked)
    }

    /// A newcomer tries its entries in turn, then the seeds.
    fn search_entry(&mut self, now: Time) {
        let since = now - self.owner.began;
        let entering = self.links.iter().any(|(_, link)| link.own);
        let asks = self.dials.any(|aim| matches!(aim, Aim::Double(_)));
        let despairs = since >= self.config.timing.entry && !entering && !asks;
        if despairs && !self.search.seeds.is_empty() {
            self.abandon(|_| true);
            return self.take_first_place();
        }
        let busy = self.dials.any(|aim| matches!(aim, Aim::Entry(_) | Aim::Double(_)));
        if busy || entering {
            return;
        }
        let places = self.entries();
        let Some(place) = places.get(self.search.tried % places.len().max(1)).cloned() else {
            return;
        };
        self.search.tried += 1;
        self.dial(now, Aim::Entry(place.clone()), vec![place]);
    }

    /// Tries the next entry at once until all were tried, then at the pace of the pulse.
    pub(super) fn entry_failed(&mut self, now: Time) {
        if self.seat().is_some() || self.phase == Phase::Over {
            return;
        }
        if self.search.tried.is_multiple_of(self.entries().len().max(1)) {
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
        let end = self.list.after(&me).unwrap_or(&me);
        let dead = self.list.iter().filter(|record| record.standing == Standing::Dead);
        dead.filter(|record| record.seat().is_between(&me, end)).map(|r| r.name.clone()).collect()
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
        | Aim::Proof(_) => false,
    }
}
