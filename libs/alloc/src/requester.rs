//! The requests of one host: each belongs to an owner, which is a console of this daemon.
//!
//! A requester submits a request to the dispenser, and submits it again to the next one. It confirms the offered slots to
//! their hosts. The owner receives the grant when all hosts hold their slots. It receives a loss when a host does not answer
//! any more, before the host gives the slots to others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use crate::data::{
    AllocEnd, AllocEntry, AllocId, AllocMessage, AllocNews, AllocRequest, Hardness,
    MAX_LISTED_HOSTS, Part, Stamp, Why,
};
use mpd_sansio::Time;
use mpd_wire::{DaemonName, Instance};

use crate::saved::{MAX_OWN, SavedOwn};
use crate::shared::Shared;
use crate::{Output, OwnerId, Resume, plan};

/// Most requests that are submitted again in one tick.
const MAX_SUBMITTED: usize = 1024;
/// Most queued requests that are submitted again at a time, in case the dispenser has lost them.
const MAX_REPEATED: usize = 64;
/// Most orders to release slots that wait for their answer.
const MAX_RELEASING: usize = 131_072;
/// Numbers that are taken from the record at a time, so that it is not written for each request.
const NUMBERS: u64 = 64;

/// The slots of an allocation on one host.
#[derive(Clone, Debug)]
struct Lease {
    slots: u32,
    /// The slots are lost if no later order is answered until this time; `None`: no order is answered.
    until: Option<Time>,
    /// When the latest order was sent.
    sent: Option<Time>,
}

#[derive(Debug)]
struct Held {
    parts: Vec<Part>,
    leases: BTreeMap<DaemonName, Lease>,
    /// Answers to earlier orders do not count.
    began: Stamp,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    /// The hosts are asked to hold the offered slots until this time.
    Confirming(Box<Held>, Time),
    /// The allocation, and its end if it has a time limit.
    Granted(Box<Held>, Option<Time>),
}

#[derive(Debug)]
struct Own {
    request: Box<AllocRequest>,
    ticket: Option<u64>,
    why: Why,
    /// The owner, or the time at which it is given up.
    owner: Result<OwnerId, Time>,
    /// It ends when its owner returns: until then the owner believes in its slots.
    is_cancelled: bool,
    phase: Phase,
    /// When it was submitted; `None`: not to the present dispenser.
    submitted: Option<Time>,
    /// Whether the present dispenser has it.
    queued: bool,
}

/// The requests of this host.
#[derive(Debug)]
pub(crate) struct Requester {
    own: BTreeMap<AllocId, Own>,
    owners: BTreeMap<OwnerId, AllocId>,
    /// The number of the next request, and the first number that the record does not cover.
    next: u64,
    covered: u64,
    /// Those that have a deadline.
    busy: BTreeSet<AllocId>,
    /// Orders to release, each with its stamp, the time of sending, and the time after which the host has forgotten it.
    releasing: BTreeMap<(AllocId, DaemonName), (Stamp, Time, Time)>,
    dispenser: Option<(DaemonName, Instance)>,
    /// Requests that wait are submitted again in turn: the last one, and the time of the next ones.
    turn: Option<AllocId>,
    next_turn: Time,
}

impl Requester {
    /// Continues the allocations of an earlier daemon. Their owners have some time to return.
    pub(crate) fn new(now: Time, next: u64, saved: Vec<SavedOwn>, shared: &mut Shared) -> Self {
        let mut new = Self {
            own: BTreeMap::new(),
            owners: BTreeMap::new(),
            next: next.max(1),
            covered: next.max(1),
            busy: BTreeSet::new(),
            releasing: BTreeMap::new(),
            dispenser: None,
            turn: None,
            next_turn: now,
        };
        for saved in saved.into_iter().take(MAX_OWN) {
            let until = Some(now + shared.timing.restart);
            let lease = |slots| Lease { slots, until, sent: None };
            let leases = plan::by_host(&saved.parts);
            let leases = leases.into_iter().map(|(host, slots)| (host, lease(slots))).collect();
            let held = Held { parts: saved.parts, leases, began: shared.stamp(now) };
            let ends = saved.ends_us.map(|ends| shared.time_of(ends));
            let own = Own {
                request: Box::new(saved.request),
                ticket: saved.ticket,
                why: Why::Asking,
                owner: Err(now + shared.timing.reconnect),
                is_cancelled: false,
                phase: Phase::Granted(Box::new(held), ends),
                submitted: None,
                queued: false,
            };
            new.busy.insert(saved.id.clone());
            new.own.insert(saved.id, own);
        }
        new
    }

    /// The number below which all numbers may be in use, and the allocations, for the record on disk.
    pub(crate) fn saved(&self, shared: &Shared) -> (u64, Vec<SavedOwn>) {
        let saved = |(id, own): (&AllocId, &Own)| {
            let Phase::Granted(held, ends) = &own.phase else { return None };
            Some(SavedOwn {
                id: id.clone(),
                request: (*own.request).clone(),
                ticket: own.ticket,
                parts: held.parts.clone(),
                ends_us: ends.map(|ends| shared.wall(ends)),
            })
        };
        (self.covered, self.own.iter().filter_map(saved).collect())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.own.is_empty() && self.releasing.is_empty()
    }

    /// The slots of an allocation of this user.
    pub(crate) fn granted(&self, id: &AllocId, uid: u32) -> Option<&[Part]> {
        let own = self.own.get(id).filter(|own| own.request.uid == uid)?;
        match &own.phase {
            Phase::Granted(held, _) => Some(&held.parts),
            _ => None,
        }
    }

    /// All requests and allocations.
    pub(crate) fn entries(&self, shared: &Shared) -> impl Iterator<Item = AllocEntry> {
        self.own.iter().map(|(id, own)| {
            let (parts, ends, why) = match &own.phase {
                Phase::Granted(held, ends) => (&held.parts[..], *ends, None),
                Phase::Confirming(..) => (&[][..], None, Some(Why::Reserving)),
                Phase::Waiting => (&[][..], None, Some(own.why.clone())),
            };
            let slots = parts.iter().fold(0u32, |sum, part| sum.saturating_add(part.slots));
            AllocEntry {
                id: id.clone(),
                uid: own.request.uid,
                count: own.request.slots(),
                since_us: own.request.since_us,
                ticket: own.ticket,
                slots: why.is_none().then_some(slots),
                why,
                hosts: parts.iter().take(MAX_LISTED_HOSTS).cloned().collect(),
                ends_us: ends.map(|ends| shared.wall(ends)),
            }
        })
    }

    /// A new request. An invalid one is refused.
    pub(crate) fn request(
        &mut self,
        now: Time,
        owner: OwnerId,
        request: AllocRequest,
        shared: &mut Shared,
    ) {
        let problem = match request.check() {
            Err(problem) => Some(problem.to_string()),
            Ok(()) if self.own.len() >= MAX_OWN => Some("too many requests wait here".to_owned()),
            Ok(()) if self.owners.contains_key(&owner) => Some("only one request".to_owned()),
            Ok(()) => None,
        };
        if let Some(problem) = problem {
            shared.outputs.push_back(Output::Refused(owner, problem));
            return;
        }
        let id = AllocId::new(self.next, shared.me.clone());
        self.next += 1;
        if self.next > self.covered {
            self.covered = self.next + NUMBERS;
            shared.is_changed = true;
        }
        self.add(now, owner, id, request, None, shared);
    }

    fn add(
        &mut self,
        now: Time,
        owner: OwnerId,
        id: AllocId,
        request: AllocRequest,
        ticket: Option<u64>,
        shared: &mut Shared,
    ) {
        let own = Own {
            request: Box::new(request),
            ticket,
            why: Why::Asking,
            owner: Ok(owner),
            is_cancelled: false,
            phase: Phase::Waiting,
            submitted: None,
            queued: false,
        };
        own.tell_state(&id, shared);
        self.own.insert(id.clone(), own);
        self.owners.insert(owner, id.clone());
        self.busy.insert(id.clone());
        self.submit(now, &id, shared);
    }

    /// An owner returns to its request or allocation, after this daemon was replaced.
    pub(crate) fn resume(
        &mut self,
        now: Time,
        owner: OwnerId,
        resume: Resume,
        shared: &mut Shared,
    ) {
        let Resume { id, request, ticket, is_granted } = resume;
        let is_full = self.own.len() >= MAX_OWN;
        match self.own.get_mut(&id) {
            Some(own) if own.request.uid == request.uid => {
                if let Ok(before) = std::mem::replace(&mut own.owner, Ok(owner)) {
                    self.owners.remove(&before);
                    let end = AllocEnd::Replaced;
                    tell(before, AllocNews::Over { id: id.clone(), end }, shared);
                }
                own.tell_state(&id, shared);
                self.owners.insert(owner, id);
            }
            Some(_) => {
                let problem = format!("{id} belongs to another user");
                shared.outputs.push_back(Output::Refused(owner, problem));
            }
            None if is_granted || request.check().is_err() || *id.daemon() != shared.me => {
                tell(owner, AllocNews::Over { id, end: AllocEnd::Lost }, shared);
            }
            None if is_full => {
                let problem = "too many requests wait here".to_owned();
                shared.outputs.push_back(Output::Refused(owner, problem));
            }
            None => {
                self.next = self.next.max(id.number().saturating_add(1));
                self.add(now, owner, id, request, ticket, shared);
            }
        }
    }

    /// The owner is gone, and its slots become free.
    pub(crate) fn owner_gone(&mut self, now: Time, owner: OwnerId, shared: &mut Shared) {
        if let Some(id) = self.owners.remove(&owner) {
            self.end(now, &id, AllocEnd::Cancelled, shared);
        }
    }

    /// Ends a request or an allocation. Returns whether there is one of this user.
    pub(crate) fn cancel(
        &mut self,
        now: Time,
        id: &AllocId,
        uid: u32,
        shared: &mut Shared,
    ) -> bool {
        let Some(own) = self.own.get_mut(id).filter(|own| own.request.uid == uid) else {
            return false;
        };
        match own.owner {
            Ok(_) => self.end(now, id, AllocEnd::Cancelled, shared),
            Err(_) => own.is_cancelled = true,
        }
        true
    }

    /// Frees the slots of an allocation beyond `kept`. Slots that it does not have are no error, so the order may come
    /// again.
    pub(crate) fn keep(
        &mut self,
        now: Time,
        id: &AllocId,
        uid: u32,
        kept: &[Part],
        shared: &mut Shared,
    ) {
        let Some(own) = self.own.get_mut(id).filter(|own| own.request.uid == uid) else { return };
        let Phase::Granted(held, _) = &mut own.phase else { return };
        let parts = plan::common(&held.parts, kept);
        if parts == held.parts {
            return;
        }
        shared.is_changed = true;
        let hosts = plan::by_host(&parts);
        held.parts = parts;
        let freed = held.leases.keys().filter(|host| !hosts.contains_key(*host));
        let freed: Vec<DaemonName> = freed.cloned().collect();
        held.leases.retain(|host, _| hosts.contains_key(host));
        for (host, lease) in &mut held.leases {
            let slots = hosts.get(host).copied().unwrap_or(0);
            if slots != lease.slots {
                // A host frees the rest when it is asked to hold fewer. An order that is lost comes again by itself.
                (lease.slots, lease.sent) = (slots, None);
            }
        }
        own.confirm(now, id, shared.timing.renew, shared);
        let is_empty = hosts.is_empty();
        self.release(now, id, freed, shared);
        if is_empty {
            self.end(now, id, AllocEnd::Cancelled, shared);
        }
    }

    /// The dispenser by the list of members. A new one gets all requests that wait.
    pub(crate) fn set_dispenser(
        &mut self,
        now: Time,
        dispenser: Option<(DaemonName, Instance)>,
        shared: &mut Shared,
    ) {
        if self.dispenser == dispenser {
            return;
        }
        self.dispenser = dispenser;
        let mut waiting = Vec::new();
        for (id, own) in &mut self.own {
            if matches!(own.phase, Phase::Waiting) {
                (own.queued, own.submitted) = (false, None);
                waiting.push(id.clone());
            }
        }
        waiting.iter().take(MAX_SUBMITTED).for_each(|id| self.submit(now, id, shared));
        self.busy.extend(waiting);
    }

    fn submit(&mut self, now: Time, id: &AllocId, shared: &mut Shared) {
        let (Some((dispenser, _)), Some(own)) = (&self.dispenser, self.own.get_mut(id)) else {
            return;
        };
        own.submitted = Some(now);
        let (request, ticket) = (own.request.clone(), own.ticket);
        shared.send(dispenser, AllocMessage::Submit { id: id.clone(), request, ticket });
    }

    fn send_to_dispenser(&self, message: AllocMessage, shared: &mut Shared) {
        if let Some((dispenser, _)) = &self.dispenser {
            shared.send(dispenser, message);
        }
    }

    /// Handles a message of a dispenser or of a host.
    pub(crate) fn received(
        &mut self,
        now: Time,
        from: &DaemonName,
        message: AllocMessage,
        shared: &mut Shared,
    ) {
        match message {
            AllocMessage::Queued { id, ticket, why } => {
                self.queued(now, from, &id, ticket, why, shared);
            }
            AllocMessage::Offer { id, parts } => self.offered(now, from, &id, parts, shared),
            AllocMessage::Wanted { id } => match self.own.get(&id).map(|own| &own.phase) {
                None => shared.send(from, AllocMessage::Cancel { id }),
                Some(Phase::Granted(..)) => shared.send(from, AllocMessage::Taken { id }),
                Some(Phase::Confirming(..)) => {}
                Some(Phase::Waiting) => self.submit(now, &id, shared),
            },
            AllocMessage::Held { id, stamp } => self.held(now, from, &id, stamp, shared),
            AllocMessage::NotHeld { id, stamp } => self.not_held(now, from, &id, stamp, shared),
            AllocMessage::Released { id, stamp } => {
                let key = (id, from.clone());
                if self.releasing.get(&key).is_some_and(|(sent, ..)| *sent <= stamp) {
                    self.releasing.remove(&key);
                }
            }
            // For the dispenser or for a host.
            AllocMessage::Submit { .. }
            | AllocMessage::Cancel { .. }
            | AllocMessage::Taken { .. }
            | AllocMessage::Hello { .. }
            | AllocMessage::Reserve { .. }
            | AllocMessage::Unreserve { .. }
            | AllocMessage::State { .. }
            | AllocMessage::Reserved { .. }
            | AllocMessage::Stale { .. }
            | AllocMessage::Confirm { .. }
            | AllocMessage::Release { .. } => {}
        }
    }

    fn queued(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: &AllocId,
        ticket: u64,
        why: Why,
        shared: &mut Shared,
    ) {
        let is_dispenser = self.dispenser.as_ref().is_some_and(|(name, _)| name == from);
        let Some(own) = self.own.get_mut(id) else {
            return shared.send(from, AllocMessage::Cancel { id: id.clone() });
        };
        if !is_dispenser || !matches!(own.phase, Phase::Waiting) {
            return;
        }
        let is_impossible = matches!(why, Why::TooFewExist { .. } | Why::TooFewFit { .. });
        if is_impossible && own.request.hardness != Hardness::Hard {
            return self.end(now, id, AllocEnd::Impossible, shared);
        }
        own.queued = true;
        let is_news = own.ticket != Some(ticket) || own.why != why;
        (own.ticket, own.why) = (Some(ticket), why);
        if is_news {
            own.tell_state(id, shared);
        }
        if own.owner.is_ok() {
            self.busy.remove(id);
        }
    }

    fn offered(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: &AllocId,
        parts: Vec<Part>,
        shared: &mut Shared,
    ) {
        let Some(own) = self.own.get_mut(id) else {
            return shared.send(from, AllocMessage::Cancel { id: id.clone() });
        };
        match own.phase {
            Phase::Waiting => {}
            Phase::Confirming(..) => return,
            Phase::Granted(..) => {
                return shared.send(from, AllocMessage::Taken { id: id.clone() });
            }
        }
        let hosts = plan::by_host(&parts);
        let slots = hosts.values().fold(0u32, |sum, slots| sum.saturating_add(*slots));
        if slots == 0 || slots > own.request.slots() {
            return;
        }
        let leases =
            hosts.into_iter().map(|(host, slots)| (host, Lease { slots, until: None, sent: None }));
        let held = Held { parts, leases: leases.collect(), began: shared.stamp(now) };
        own.phase = Phase::Confirming(Box::new(held), now + shared.timing.confirm);
        self.busy.insert(id.clone());
        own.confirm(now, id, Duration::ZERO, shared);
    }

    /// A host holds the slots.
    fn held(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: &AllocId,
        stamp: Stamp,
        shared: &mut Shared,
    ) {
        let Some(own) = self.own.get_mut(id) else { return };
        let Some(held) = own.held() else { return };
        if stamp.life != shared.life || stamp < held.began {
            return;
        }
        let Some(lease) = held.leases.get_mut(from) else { return };
        let until = Time::from_micros(stamp.at) + shared.timing.belief;
        lease.until = lease.until.max(Some(until));
        if held.leases.values().all(|lease| lease.until.is_some())
            && let Phase::Confirming(held, _) = &mut own.phase
        {
            let held = std::mem::replace(held, Box::new(Held::nothing(stamp)));
            let ends = own.request.limit_s.map(|limit| now + Duration::from_secs(limit.into()));
            own.phase = Phase::Granted(held, ends);
            shared.is_changed = true;
            own.tell_state(id, shared);
            self.send_to_dispenser(AllocMessage::Taken { id: id.clone() }, shared);
        }
    }

    /// A host does not hold the slots.
    fn not_held(
        &mut self,
        now: Time,
        from: &DaemonName,
        id: &AllocId,
        stamp: Stamp,
        shared: &mut Shared,
    ) {
        let Some(own) = self.own.get_mut(id) else { return };
        let Some(held) = own.held() else { return };
        let Some(lease) = held.leases.get(from) else { return };
        let is_late = lease.until > Some(Time::from_micros(stamp.at) + shared.timing.belief);
        if stamp.life != shared.life || stamp < held.began || is_late {
            return;
        }
        match own.phase {
            Phase::Confirming(..) => self.withdraw(now, id, shared),
            _ => self.lose(now, id, from, shared),
        }
    }

    /// Gives offered slots back and queues the request again.
    fn withdraw(&mut self, now: Time, id: &AllocId, shared: &mut Shared) {
        let Some(own) = self.own.get_mut(id) else { return };
        let phase = std::mem::replace(&mut own.phase, Phase::Waiting);
        own.queued = false;
        if let Phase::Confirming(held, _) = phase {
            self.release(now, id, held.leases.into_keys(), shared);
        }
        self.send_to_dispenser(AllocMessage::Cancel { id: id.clone() }, shared);
        self.submit(now, id, shared);
    }

    /// The slots of a host are lost.
    fn lose(&mut self, now: Time, id: &AllocId, host: &DaemonName, shared: &mut Shared) {
        let Some(own) = self.own.get_mut(id) else { return };
        let Phase::Granted(held, _) = &mut own.phase else { return };
        held.leases.remove(host);
        held.parts.retain(|part| part.host != *host);
        let is_empty = held.leases.is_empty();
        shared.is_changed = true;
        if let Ok(owner) = own.owner {
            tell(owner, AllocNews::Lost { id: id.clone(), host: host.clone() }, shared);
        }
        self.release(now, id, [host.clone()], shared);
        if is_empty {
            self.end(now, id, AllocEnd::Lost, shared);
        }
    }

    fn release(
        &mut self,
        now: Time,
        id: &AllocId,
        hosts: impl IntoIterator<Item = DaemonName>,
        shared: &mut Shared,
    ) {
        for host in hosts {
            let stamp = shared.stamp(now);
            shared.send(&host, AllocMessage::Release { id: id.clone(), stamp });
            // Without room for it, the host frees the slots by itself a little later.
            if self.releasing.len() < MAX_RELEASING {
                let until = now + shared.timing.hold;
                self.releasing.insert((id.clone(), host), (stamp, now, until));
            }
        }
    }

    fn end(&mut self, now: Time, id: &AllocId, end: AllocEnd, shared: &mut Shared) {
        let Some(own) = self.own.remove(id) else { return };
        self.busy.remove(id);
        if let Ok(owner) = own.owner {
            self.owners.remove(&owner);
            tell(owner, AllocNews::Over { id: id.clone(), end }, shared);
        }
        self.send_to_dispenser(AllocMessage::Cancel { id: id.clone() }, shared);
        match own.phase {
            Phase::Waiting => {}
            Phase::Confirming(held, _) => self.release(now, id, held.leases.into_keys(), shared),
            Phase::Granted(held, _) => {
                shared.is_changed = true;
                self.release(now, id, held.leases.into_keys(), shared);
            }
        }
    }

    /// Acts on deadlines.
    pub(crate) fn tick(&mut self, now: Time, shared: &mut Shared) {
        let mut submitted = 0;
        for id in self.busy.clone() {
            let Some(own) = self.own.get_mut(&id) else { continue };
            if own.owner.map_or_else(|until| until <= now, |_| own.is_cancelled) {
                self.end(now, &id, AllocEnd::Cancelled, shared);
                continue;
            }
            match &own.phase {
                Phase::Waiting => {
                    let is_due = own.submitted.is_none_or(|at| now - at >= shared.timing.again);
                    if !own.queued && is_due && submitted < MAX_SUBMITTED {
                        submitted += 1;
                        self.submit(now, &id, shared);
                    }
                }
                Phase::Confirming(_, until) if *until <= now => self.withdraw(now, &id, shared),
                Phase::Confirming(..) => own.confirm(now, &id, shared.timing.again, shared),
                // An owner that is absent does not know.
                Phase::Granted(_, Some(ends)) if *ends <= now && own.owner.is_ok() => {
                    self.end(now, &id, AllocEnd::Expired, shared);
                }
                Phase::Granted(held, _) => {
                    let is_lost = |lease: &Lease| lease.until.is_none_or(|until| until <= now);
                    let lost = held.leases.iter().filter(|(_, lease)| is_lost(lease));
                    let lost: Vec<DaemonName> = lost.map(|(host, _)| host.clone()).collect();
                    own.confirm(now, &id, shared.timing.renew, shared);
                    lost.iter().for_each(|host| self.lose(now, &id, host, shared));
                }
            }
        }
        self.repeat(now, shared);
        self.release_again(now, shared);
    }

    /// Submits some queued requests again.
    fn repeat(&mut self, now: Time, shared: &mut Shared) {
        if now < self.next_turn {
            return;
        }
        self.next_turn = now + shared.timing.review;
        let waits = |(id, own): (&AllocId, &Own)| {
            (own.queued && matches!(own.phase, Phase::Waiting)).then(|| id.clone())
        };
        let from = self.turn.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.own.range((from, Bound::Unbounded));
        let some: Vec<AllocId> = rest.filter_map(waits).take(MAX_REPEATED).collect();
        self.turn = (some.len() == MAX_REPEATED).then(|| some.last().cloned()).flatten();
        some.iter().for_each(|id| self.submit(now, id, shared));
    }

    fn release_again(&mut self, now: Time, shared: &mut Shared) {
        self.releasing.retain(|_, (.., until)| *until > now);
        for ((id, host), (stamp, sent, _)) in &mut self.releasing {
            if now - *sent >= shared.timing.again {
                *sent = now;
                shared.send(host, AllocMessage::Release { id: id.clone(), stamp: *stamp });
            }
        }
    }
}

fn tell(owner: OwnerId, news: AllocNews, shared: &mut Shared) {
    shared.outputs.push_back(Output::Tell(owner, news));
}

impl Held {
    const fn nothing(began: Stamp) -> Self {
        Self { parts: Vec::new(), leases: BTreeMap::new(), began }
    }
}

impl Own {
    const fn held(&mut self) -> Option<&mut Held> {
        match &mut self.phase {
            Phase::Waiting => None,
            Phase::Confirming(held, _) | Phase::Granted(held, _) => Some(held),
        }
    }

    /// Tells the owner whether the request waits or has its slots.
    fn tell_state(&self, id: &AllocId, shared: &mut Shared) {
        let Ok(owner) = self.owner else { return };
        let id = id.clone();
        let news = match &self.phase {
            Phase::Granted(held, _) => AllocNews::Granted { id, parts: held.parts.clone() },
            Phase::Waiting | Phase::Confirming(..) => {
                AllocNews::Waiting { id, ticket: self.ticket, why: self.why.clone() }
            }
        };
        tell(owner, news, shared);
    }

    /// Asks the hosts to hold the slots, unless they were asked less than `pause` ago. Hosts that have confirmed an
    /// offer are asked again only when it is granted.
    fn confirm(&mut self, now: Time, id: &AllocId, pause: Duration, shared: &mut Shared) {
        let (is_offer, ends) = match &self.phase {
            Phase::Granted(_, ends) => (false, *ends),
            _ => (true, None),
        };
        let limit = self.request.limit_s.map(|limit| now + Duration::from_secs(limit.into()));
        let left = ends.or(limit).map(|ends| ends.since(now).as_millis());
        let left_ms = left.map(|left| u64::try_from(left).unwrap_or(u64::MAX));
        let Some(held) = self.held() else { return };
        for (host, lease) in &mut held.leases {
            let is_due = lease.sent.is_none_or(|at| now - at >= pause);
            if is_due && !(is_offer && lease.until.is_some()) {
                lease.sent = Some(now);
                let (id, slots, stamp) = (id.clone(), lease.slots, shared.stamp(now));
                shared.send(host, AllocMessage::Confirm { id, slots, stamp, left_ms });
            }
        }
    }
}
