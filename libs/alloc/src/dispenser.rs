//! The queue of all requests of the ring, and the order in which they get slots.
//!
//! The live member with the lowest ordinal has this part, without an election. Hosts report their slots, and requesters
//! submit their requests, so the next dispenser knows all that this one knew. Only one request at a time is offered
//! slots: they are reserved on all their hosts, or on none.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::{AllocId, AllocMessage, AllocRequest, Epoch, HostState, MAX_PARTS, Part, Why};
use mpd_sansio::Time;
use mpd_wire::{DaemonName, Instance};

use crate::choice::{self, Candidate, Choice};
use crate::shared::Shared;
use crate::{Member, plan};

/// Most requests in the queue.
pub const MAX_QUEUE: usize = 131_072;
/// Most requests whose owners are asked whether they still want them.
const MAX_ASKED: usize = 16;

#[derive(Debug)]
struct Host {
    instance: Instance,
    ordinal: u64,
    draining: bool,
    /// The last report.
    state: Option<HostState>,
    /// When it was first asked for this report, and last.
    asked: Option<(Time, Time)>,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    /// These hosts have not answered yet.
    Reserving(Offer, BTreeSet<DaemonName>, Time),
    /// The offer was sent at the first time, and is withdrawn at the second one.
    Offered(Offer, Time, Time),
}

#[derive(Debug)]
struct Offer {
    parts: Vec<Part>,
    hosts: BTreeMap<DaemonName, u32>,
}

#[derive(Debug)]
struct Entry {
    request: Box<AllocRequest>,
    phase: Box<Phase>,
    why: Why,
    told: Option<Why>,
    /// It gets no slots before this time, since a host has just refused.
    not_before: Time,
}

type Key = (u64, AllocId);

/// The time in which this daemon is the dispenser.
#[derive(Debug)]
struct Term {
    epoch: Epoch,
    since: Time,
    hosts: BTreeMap<DaemonName, Host>,
    queue: BTreeMap<Key, Entry>,
    tickets: BTreeMap<AllocId, u64>,
    next_ticket: u64,
    reserving: Option<Key>,
    next_look: Time,
    /// Slots or the queue have changed.
    is_changed: bool,
    /// It has looked at the queue with the reports of the hosts. Before that, the reasons are not known.
    has_chosen: bool,
}

/// The dispenser's part of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Dispenser {
    term: Option<Term>,
}

impl Dispenser {
    /// Whether this daemon is the dispenser.
    pub(crate) const fn is_active(&self) -> bool {
        self.term.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.term.as_ref().is_none_or(|term| term.queue.is_empty())
    }

    /// The live members, the lowest ordinal first. `known` is the newest term that this host knows.
    pub(crate) fn set_members(
        &mut self,
        now: Time,
        members: &[Member],
        known: Option<Epoch>,
        shared: &Shared,
    ) {
        let Some(first) = members.first().filter(|first| first.name == shared.me) else {
            self.term = None;
            return;
        };
        let number = known.map_or(0, |known| known.number) + 1;
        let epoch = Epoch { number, ordinal: first.ordinal, instance: first.instance };
        let term = self.term.get_or_insert_with(|| Term::new(now, epoch));
        term.set_members(now, members);
    }

    /// Handles a message of a requester or of a host.
    pub(crate) fn received(
        &mut self,
        now: Time,
        from: &DaemonName,
        message: AllocMessage,
        shared: &mut Shared,
    ) {
        let Some(term) = &mut self.term else { return };
        match message {
            AllocMessage::Submit { id, request, ticket } => {
                term.submitted(now, from, id, request, ticket, shared);
            }
            AllocMessage::Cancel { id } if from == id.daemon() => {
                term.remove(&id, shared);
            }
            AllocMessage::Taken { id } if from == id.daemon() => term.taken(&id),
            AllocMessage::State { number, host } => term.reported(from, number, host),
            AllocMessage::Reserved { number, id, done, host } => {
                term.reported(from, number, host);
                if number == term.epoch.number {
                    term.reserved(now, from, &id, done, shared);
                }
            }
            AllocMessage::Stale { epoch } => term.is_stale(now, epoch),
            // Another host sent it, not the host of the requester.
            AllocMessage::Cancel { .. } | AllocMessage::Taken { .. } => {}
            // For a host or for a requester.
            AllocMessage::Queued { .. }
            | AllocMessage::Offer { .. }
            | AllocMessage::Wanted { .. }
            | AllocMessage::Hello { .. }
            | AllocMessage::Reserve { .. }
            | AllocMessage::Unreserve { .. }
            | AllocMessage::Confirm { .. }
            | AllocMessage::Release { .. }
            | AllocMessage::Held { .. }
            | AllocMessage::NotHeld { .. }
            | AllocMessage::Released { .. } => {}
        }
    }

    /// Grants slots if there are any for the request whose turn it is. To be called after each input.
    pub(crate) fn review(&mut self, now: Time, shared: &mut Shared) {
        if let Some(term) = &mut self.term {
            term.review(now, shared);
        }
    }

    /// Acts on deadlines.
    pub(crate) fn tick(&mut self, now: Time, shared: &mut Shared) {
        if let Some(term) = &mut self.term {
            term.tick(now, shared);
        }
    }
}

impl Term {
    const fn new(now: Time, epoch: Epoch) -> Self {
        Self {
            epoch,
            since: now,
            hosts: BTreeMap::new(),
            queue: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            reserving: None,
            next_look: now,
            is_changed: true,
            has_chosen: false,
        }
    }

    /// Forgets hosts that are gone, and requests whose daemon is gone or was replaced.
    fn set_members(&mut self, now: Time, members: &[Member]) {
        let before = std::mem::take(&mut self.hosts);
        for member in members {
            let Member { name, instance, ordinal, draining, .. } = member.clone();
            let same = before.get(&name).filter(|host| host.instance == instance);
            let state = same.and_then(|host| host.state.clone());
            let asked = same.and_then(|host| host.asked);
            self.hosts.insert(name, Host { instance, ordinal, draining, state, asked });
        }
        let is_here = |name: &DaemonName, host: &Host| {
            before.get(name).is_none_or(|before| before.instance == host.instance)
        };
        let here = self.hosts.iter().filter(|(name, host)| is_here(name, host));
        let here: BTreeSet<DaemonName> = here.map(|(name, _)| name.clone()).collect();
        let gone = self.tickets.keys().filter(|id| !here.contains(id.daemon())).cloned();
        for id in gone.collect::<Vec<_>>() {
            self.drop_entry(&id);
        }
        let lacks_host = |key: &Key| match self.queue.get(key).map(|entry| &*entry.phase) {
            Some(Phase::Reserving(offer, ..)) => {
                offer.hosts.keys().any(|host| !here.contains(host))
            }
            _ => false,
        };
        if let Some(key) = self.reserving.clone().filter(lacks_host) {
            self.wait_again(now, &key);
        }
        self.is_changed = true;
    }

    fn submitted(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: AllocId,
        request: Box<AllocRequest>,
        ticket: Option<u64>,
        shared: &mut Shared,
    ) {
        let is_sound = from == id.daemon() && request.check().is_ok();
        if !is_sound || !self.hosts.contains_key(from) {
            return;
        }
        if let Some(known) = self.tickets.get(&id).copied() {
            self.submitted_again((known, id.clone()), ticket);
        } else if self.queue.len() < MAX_QUEUE {
            let ticket = ticket.unwrap_or(self.next_ticket);
            self.next_ticket = self.next_ticket.max(ticket.saturating_add(1));
            let entry = Entry {
                request,
                phase: Box::new(Phase::Waiting),
                why: Why::Asking,
                told: None,
                not_before: now,
            };
            self.queue.insert((ticket, id.clone()), entry);
            self.tickets.insert(id.clone(), ticket);
            self.is_changed = true;
        } else {
            return;
        }
        // The first ones get their reason from the review that follows.
        if self.is_changed {
            self.review(now, shared);
        }
        self.tell_why(&id, shared);
    }

    /// A known request is submitted again, perhaps with the lower number that an earlier dispenser gave it.
    fn submitted_again(&mut self, key: Key, ticket: Option<u64>) {
        let Some(mut entry) = self.queue.remove(&key) else { return };
        entry.told = None;
        let ticket = ticket.map_or(key.0, |ticket| ticket.min(key.0));
        let new = (ticket, key.1.clone());
        if self.reserving.as_ref() == Some(&key) {
            self.reserving = Some(new.clone());
        }
        self.tickets.insert(key.1, ticket);
        self.queue.insert(new, entry);
    }

    /// Tells the requester why its request waits, if it does not know.
    fn tell_why(&mut self, id: &AllocId, shared: &mut Shared) {
        let Some(&ticket) = self.tickets.get(id) else { return };
        let Some(entry) = self.queue.get_mut(&(ticket, id.clone())) else { return };
        let why = match *entry.phase {
            Phase::Waiting if entry.why == Why::Asking && self.has_chosen => Why::Behind,
            Phase::Waiting => entry.why.clone(),
            _ => Why::Reserving,
        };
        if entry.told.as_ref() != Some(&why) {
            entry.told = Some(why.clone());
            shared.send(id.daemon(), AllocMessage::Queued { id: id.clone(), ticket, why });
        }
    }

    /// Removes a request without a message.
    fn drop_entry(&mut self, id: &AllocId) -> Option<Entry> {
        let ticket = self.tickets.remove(id)?;
        let key = (ticket, id.clone());
        if self.reserving.as_ref() == Some(&key) {
            self.reserving = None;
        }
        self.is_changed = true;
        self.queue.remove(&key)
    }

    fn taken(&mut self, id: &AllocId) {
        self.drop_entry(id);
    }

    /// The request is withdrawn.
    fn remove(&mut self, id: &AllocId, shared: &mut Shared) {
        let Some(entry) = self.drop_entry(id) else { return };
        if let Phase::Reserving(offer, ..) | Phase::Offered(offer, ..) = &*entry.phase {
            self.unreserve(id, offer.hosts.keys(), shared);
        }
    }

    fn unreserve<'a>(
        &self,
        id: &AllocId,
        hosts: impl IntoIterator<Item = &'a DaemonName>,
        shared: &mut Shared,
    ) {
        for host in hosts {
            let (epoch, id) = (self.epoch, id.clone());
            shared.send(host, AllocMessage::Unreserve { epoch, id });
        }
    }

    fn reported(&mut self, from: &DaemonName, number: u64, state: HostState) {
        if number != self.epoch.number {
            return;
        }
        if let Some(host) = self.hosts.get_mut(from) {
            self.is_changed |= host.state.as_ref() != Some(&state);
            (host.state, host.asked) = (Some(state), None);
        }
    }

    /// A host answers whether it has reserved its slots.
    fn reserved(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: &AllocId,
        done: bool,
        shared: &mut Shared,
    ) {
        let key = self.reserving.clone().filter(|(_, reserving)| reserving == id);
        let Some(entry) = key.as_ref().and_then(|key| self.queue.get_mut(key)) else {
            let ticket = self.tickets.get(id).copied();
            let entry = ticket.and_then(|ticket| self.queue.get(&(ticket, id.clone())));
            let is_offered = entry.is_some_and(|entry| matches!(*entry.phase, Phase::Offered(..)));
            if done && !is_offered {
                self.unreserve(id, [from], shared);
            }
            return;
        };
        let Phase::Reserving(offer, pending, _) = &mut *entry.phase else { return };
        if !done {
            let hosts: Vec<DaemonName> = offer.hosts.keys().cloned().collect();
            self.unreserve(id, &hosts, shared);
            key.iter().for_each(|key| self.wait_again(now, key));
            return;
        }
        pending.remove(from);
        if pending.is_empty() {
            let parts = offer.parts.clone();
            let offer = Offer {
                parts: std::mem::take(&mut offer.parts),
                hosts: std::mem::take(&mut offer.hosts),
            };
            let until = now + shared.timing.confirm + shared.timing.again;
            *entry.phase = Phase::Offered(offer, now, until);
            self.reserving = None;
            self.is_changed = true;
            shared.send(id.daemon(), AllocMessage::Offer { id: id.clone(), parts });
        }
    }

    /// A reservation has failed.
    fn wait_again(&mut self, now: Time, key: &Key) {
        if self.reserving.as_ref() == Some(key) {
            self.reserving = None;
        }
        if let Some(entry) = self.queue.get_mut(key) {
            *entry.phase = Phase::Waiting;
            entry.not_before = now + std::time::Duration::from_millis(250);
        }
        self.is_changed = true;
    }

    /// A host knows a newer term. Two dispensers know different members; the one that is the first in its own list
    /// continues.
    fn is_stale(&mut self, now: Time, epoch: Epoch) {
        if epoch.number < self.epoch.number {
            return;
        }
        self.epoch.number = epoch.number.saturating_add(1);
        for host in self.hosts.values_mut() {
            (host.state, host.asked) = (None, None);
        }
        if let Some(key) = self.reserving.clone() {
            self.wait_again(now, &key);
        }
        self.is_changed = true;
    }

    fn tick(&mut self, now: Time, shared: &mut Shared) {
        let mut over = Vec::new();
        let mut silent = Vec::new();
        for (key, entry) in &mut self.queue {
            match &mut *entry.phase {
                Phase::Waiting => {}
                Phase::Reserving(offer, pending, until) if *until <= now => {
                    silent.extend(pending.iter().cloned());
                    over.push((key.clone(), offer.hosts.keys().cloned().collect::<Vec<_>>()));
                }
                Phase::Offered(offer, _, until) if *until <= now => {
                    over.push((key.clone(), offer.hosts.keys().cloned().collect()));
                }
                Phase::Offered(offer, sent, _) if now - *sent >= shared.timing.again => {
                    *sent = now;
                    let (id, parts) = (key.1.clone(), offer.parts.clone());
                    shared.send(key.1.daemon(), AllocMessage::Offer { id, parts });
                }
                Phase::Reserving(..) | Phase::Offered(..) => {}
            }
        }
        for (key, hosts) in over {
            self.unreserve(&key.1, &hosts, shared);
            self.wait_again(now, &key);
        }
        for host in silent {
            if let Some(host) = self.hosts.get_mut(&host) {
                (host.state, host.asked) = (None, None);
            }
        }
        if self.next_look <= now && !self.queue.is_empty() {
            self.next_look = now + shared.timing.review;
            self.look(now, shared);
        }
        // A time may be over that the choice depends on.
        self.is_changed |= !self.queue.is_empty();
        self.review(now, shared);
    }

    /// Asks all hosts for their slots, and the owners of the first requests whether they still want them.
    fn look(&mut self, now: Time, shared: &mut Shared) {
        let epoch = self.epoch;
        for (name, host) in &mut self.hosts {
            let first = host.asked.map_or(now, |(first, _)| first);
            host.asked = Some((first, now));
            shared.send(name, AllocMessage::Hello { epoch });
        }
        let waiting = self.queue.iter().filter(|(_, entry)| matches!(*entry.phase, Phase::Waiting));
        for ((_, id), _) in waiting.take(MAX_ASKED) {
            shared.send(id.daemon(), AllocMessage::Wanted { id: id.clone() });
        }
    }

    /// Whether enough hosts have reported. The others are asked.
    fn knows_hosts(&mut self, now: Time, shared: &mut Shared) -> bool {
        let epoch = self.epoch;
        let mut all = true;
        for (name, host) in self.hosts.iter_mut().filter(|(_, host)| host.state.is_none()) {
            let (first, last) = host.asked.unwrap_or((now, Time::ZERO));
            if host.asked.is_none() || now - last >= shared.timing.again {
                host.asked = Some((first, now));
                shared.send(name, AllocMessage::Hello { epoch });
            }
            all &= now - first >= shared.timing.gather;
        }
        all
    }

    /// Reserves slots for the request whose turn it is.
    fn review(&mut self, now: Time, shared: &mut Shared) {
        if !self.is_changed || self.queue.is_empty() {
            return;
        }
        self.is_changed = false;
        let knows = self.knows_hosts(now, shared);
        let is_settled = now - self.since >= shared.timing.settle;
        if !knows || !is_settled || self.reserving.is_some() {
            return;
        }
        let Choice { taken, whys } = self.choose(now);
        self.has_chosen = true;
        for (key, why) in whys {
            if let Some(entry) = self.queue.get_mut(&key) {
                entry.why = why;
            }
            self.tell_why(&key.1, shared);
        }
        if let Some((key, parts)) = taken {
            self.reserve(now, key, parts, shared);
        }
    }

    fn choose(&self, now: Time) -> Choice<Key> {
        let mut hosts: Vec<_> = self
            .hosts
            .iter()
            .filter_map(|(name, host)| Some((host.ordinal, name, host, host.state.as_ref()?)))
            .collect();
        hosts.sort_by_key(|(ordinal, name, ..)| (*ordinal, *name));
        // An offer has one part for each host.
        let hosts = hosts.into_iter().take(MAX_PARTS);
        let hosts = hosts.map(|(_, name, host, state)| (name, host.draining, state));
        let waiting = self.queue.iter().filter(|(_, entry)| matches!(*entry.phase, Phase::Waiting));
        let candidates = waiting.map(|(key, entry)| Candidate {
            key: key.clone(),
            request: &entry.request,
            may_start: entry.not_before <= now,
        });
        let all = self.hosts.values().all(|host| host.state.is_some());
        choice::choose(hosts.collect(), all, candidates)
    }

    fn reserve(&mut self, now: Time, key: Key, parts: Vec<Part>, shared: &mut Shared) {
        let Some(entry) = self.queue.get_mut(&key) else { return };
        let hosts = plan::by_host(&parts);
        for (host, slots) in &hosts {
            let (epoch, id, slots) = (self.epoch, key.1.clone(), *slots);
            shared.send(host, AllocMessage::Reserve { epoch, id, slots });
        }
        let pending = hosts.keys().cloned().collect();
        let until = now + shared.timing.again;
        *entry.phase = Phase::Reserving(Offer { parts, hosts }, pending, until);
        self.reserving = Some(key);
    }
}
