//! The allocations: the [`Allocator`] of this daemon, its messages to other daemons, and its record.
//!
//! Messages to one member travel together, one batch at a time, so a ring of thousands is not flooded. The machine sends
//! a lost message again.

mod held;
mod hook;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpd_alloc::data::{
    AllocEntry, AllocId, AllocMessage, AllocNews, AllocRequest, MAX_MESSAGES, Part, Strings,
};
use mpd_alloc::exchange::{self, Ask, Granted, HostSlots, Listing, Order, Reply};
use mpd_alloc::{
    Allocator, Config, Input as Event, Member, Output as AllocOutput, OwnerId, Resume, Saved,
    Timing,
};
use mpd_jobtable::{JobTable, Line};
use mpd_ring::{Input, MAX_ANSWER, RequestId, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::message::{Answer, ConsoleReply, OrderAnswer, Payload, RingOrder};
use mpd_wire::{ConsoleId, DaemonName, Standing};
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::output::{HookId, RingAction};
use crate::pages;
use crate::request::{Gathered, Numbers, Requester, payload_of, read_payload};

use held::HeldSlots;
use hook::{Hooks, Judged, NoRequest};

pub use hook::HookEnd;

/// Most batches under way, so that other requests have room in the ring.
const MAX_UNDER_WAY: usize = 16;
/// Most messages that wait for one member. Later ones are dropped; the machine sends them again.
const MAX_WAITING: usize = 65_536;
/// Most bytes of a batch: an offer may be large.
const MAX_BATCH: usize = 128 * 1024;
/// Bytes of requests in a page. An answer is a payload in base 64, so it has a third more of them.
const ROOM: usize = MAX_ANSWER * 3 / 4 - 256;

/// The record of the allocations: the held slots of this host, and the allocations of consoles here.
#[derive(Debug, Serialize, Deserialize)]
pub struct SlotsImage {
    /// The daemon's name: another one has other slots.
    name: DaemonName,
    saved: Saved,
}

impl SlotsImage {
    /// The record of the earlier daemon of this name. That of another daemon is not used.
    pub fn of_earlier(image: Option<Self>, name: &DaemonName) -> Saved {
        image.filter(|image| image.name == *name).map(|image| image.saved).unwrap_or_default()
    }
}

/// What the allocations know of this host and its daemon.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) name: DaemonName,
    /// The architecture of this machine.
    pub(crate) arch: String,
    /// The user of this daemon.
    pub(crate) uid: u32,
    /// Whether the site has a hook.
    pub(crate) has_hook: bool,
}

/// A request to the ring.
#[derive(Debug)]
enum UnderWay {
    /// Messages to this member.
    Batch(DaemonName),
    /// Cancelling for this console.
    Cancel(ConsoleId, AllocId),
    /// The slots of an allocation for this console.
    Granted(ConsoleId, AllocId),
    /// A page of the list for this console, with the members that were missing for earlier pages.
    List(ConsoleId, u32, Vec<DaemonName>),
}

/// The allocations of this daemon.
#[derive(Debug)]
pub(crate) struct Allocations {
    pump: Pump<Allocator>,
    name: DaemonName,
    uid: u32,
    /// Whether the record is removed for good.
    is_removed: bool,
    held: HeldSlots,
    numbers: Numbers,
    waiting: BTreeMap<DaemonName, VecDeque<AllocMessage>>,
    under_way: BTreeMap<RequestId, UnderWay>,
    /// The consoles that own a request.
    owners: BTreeSet<ConsoleId>,
    /// The scheduler of the site, which sees requests first.
    hooks: Hooks,
    /// The list of members that the machine knows.
    revision: Option<u64>,
    is_ready: bool,
}

impl Allocations {
    /// `saved`: the record of an earlier daemon.
    pub(crate) fn new(now: Time, wall_us: u64, here: Here, saved: Saved) -> Self {
        let Here { name, arch, uid, has_hook } = here;
        let mut held = HeldSlots::default();
        held.set_own(now, &saved.own);
        let config = Config {
            name: name.clone(),
            arch,
            life: wall_us.saturating_sub(micros(now)),
            timing: Timing::default(),
            saved,
        };
        Self {
            pump: Pump::new(Allocator::new(now, config)),
            name,
            uid,
            is_removed: false,
            held,
            numbers: Numbers::new(Requester::Allocations),
            waiting: BTreeMap::new(),
            under_way: BTreeMap::new(),
            owners: BTreeSet::new(),
            hooks: Hooks::new(has_hook),
            revision: None,
            is_ready: false,
        }
    }

    const fn machine(&self) -> &Allocator {
        self.pump.machine()
    }

    /// Before the ring is entered, no report of held slots is due.
    pub(crate) fn next_deadline(&self, entered: bool) -> Option<Time> {
        let held = self.held.next_deadline().filter(|_| entered);
        let deadlines = [self.machine().poll_timeout(), held, self.hooks.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The held slots of each host, by the reports of all daemons.
    pub(crate) fn held(&self, now: Time) -> BTreeMap<DaemonName, u32> {
        self.held.all(now)
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.pump.is_dry()
            || self.hooks.has_work()
            || (self.can_send() && self.sendable().is_some())
    }

    /// Gives the machine the time and its inputs, and performs its outputs.
    pub(crate) fn serve(
        &mut self,
        (now, wall_us): (Time, u64),
        ring: &Ring,
        entered: bool,
        jobs: &JobTable,
    ) -> Vec<Effect> {
        if entered && self.revision != Some(ring.revision()) {
            self.revision = Some(ring.revision());
            let members = members(ring);
            let is_live = |name: &DaemonName| members.iter().any(|member| member.name == *name);
            self.held.members_changed(now, is_live);
            self.pump.post(Event::Members(members));
        }
        // Until no manager of an earlier daemon is missing, this host gives no slot away.
        if !self.is_ready && jobs.are_known() {
            self.is_ready = true;
            self.pump.post(Event::Ready);
        }
        let mut effects: Vec<Effect> =
            self.hooks.turn(now).into_iter().map(Effect::Perform).collect();
        self.perform(now, &mut effects);
        if self.machine().poll_timeout().is_some_and(|at| at <= now) {
            self.pump.handle_timeout(now);
            self.perform(now, &mut effects);
        }
        if entered && let Some((number, parts)) = self.held.take_due(now, wall_us) {
            let request = self.numbers.next();
            let order = order(&Order::Held { number, parts });
            effects.push(Effect::Post(Input::Scatter(request, order)));
        }
        while self.can_send()
            && let Some(member) = self.sendable().cloned()
        {
            effects.push(self.send(member));
        }
        effects
    }

    fn perform(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some(output) = self.pump.next(now) {
            match output {
                AllocOutput::Save(saved) => {
                    self.held.set_own(now, &saved.own);
                    effects.extend(self.record(*saved).map(Effect::Perform));
                }
                AllocOutput::Send(to, message) => {
                    let waiting = self.waiting.entry(to).or_default();
                    if waiting.len() < MAX_WAITING {
                        waiting.push_back(message);
                    }
                }
                AllocOutput::Tell(OwnerId(owner), news) => {
                    let is_over = matches!(news, AllocNews::Over { .. });
                    let reply = reply(&Reply::News(news));
                    effects.extend(self.answer(owner, reply, is_over));
                }
                AllocOutput::Refused(OwnerId(owner), problem) => {
                    effects.extend(self.answer(owner, ConsoleReply::Refused { problem }, true));
                }
            }
        }
    }

    /// The record to write.
    fn record(&self, saved: Saved) -> Option<RingAction> {
        let image = SlotsImage { name: self.name.clone(), saved };
        // Our own structs serialise; see frame::encode_message.
        let text = || serde_json::to_vec(&image).expect("a record serialises");
        (!self.is_removed).then(|| RingAction::SaveSlots(text()))
    }

    /// A hook has decided.
    pub(crate) fn hook_ended(&mut self, hook: HookId, end: HookEnd) -> Option<Effect> {
        let Judged { console, result } = self.hooks.ended(hook, end)?;
        match result {
            Ok(request) => {
                self.pump.post(Event::Request(OwnerId(console.0 as u64), request));
                None
            }
            Err(problem) => self.answer(console.0 as u64, refused(problem), true),
        }
    }

    fn answer(&mut self, owner: u64, reply: ConsoleReply, is_last: bool) -> Option<Effect> {
        let console = usize::try_from(owner)
            .ok()
            .map(ConsoleId)
            .filter(|console| self.owners.contains(console))?;
        if is_last {
            self.owners.remove(&console);
        }
        Some(Effect::Answer(console, reply, is_last))
    }

    fn can_send(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
    }

    /// A member with waiting messages and none under way.
    fn sendable(&self) -> Option<&DaemonName> {
        let busy: BTreeSet<&DaemonName> =
            self.under_way.values().filter_map(UnderWay::to).collect();
        self.waiting.keys().find(|member| !busy.contains(member))
    }

    /// Sends the messages that wait for a member, or the first of them.
    fn send(&mut self, member: DaemonName) -> Effect {
        let mut messages = Vec::new();
        let mut size = 0;
        if let Some(waiting) = self.waiting.get_mut(&member) {
            while messages.len() < MAX_MESSAGES && size < MAX_BATCH {
                let Some(message) = waiting.pop_front() else { break };
                size += match &message {
                    AllocMessage::Offer { parts, .. } => 64 + parts.len() * 64,
                    _ => 256,
                };
                messages.push(message);
            }
            if waiting.is_empty() {
                self.waiting.remove(&member);
            }
        }
        let payload = order(&Order::Messages(messages));
        self.post(member.clone(), payload, UnderWay::Batch(member))
    }

    /// Sends an order to a member. Its answer is for `what`.
    fn post(&mut self, member: DaemonName, payload: Payload, what: UnderWay) -> Effect {
        let request = self.numbers.next();
        self.under_way.insert(request, what);
        Effect::Post(Input::Send(request, member, payload))
    }

    /// Carries out the order of a member. `ranks`: the ranks here whose slots no allocation holds.
    pub(crate) fn ordered(
        &mut self,
        now: Time,
        ranks: u32,
        own: &DaemonName,
        from: &DaemonName,
        payload: &Payload,
    ) -> (OrderAnswer, Option<Line>) {
        let answer = match read_payload(payload) {
            Ok(order) => self.carry_out(now, ranks, own, from, order),
            Err(e) => {
                let line = Line::warn(format!("refused an order of {from}: {e}"));
                return (OrderAnswer::Unknown, Some(line));
            }
        };
        (answer, None)
    }

    fn carry_out(
        &mut self,
        now: Time,
        ranks: u32,
        own: &DaemonName,
        from: &DaemonName,
        order: Order,
    ) -> OrderAnswer {
        match order {
            Order::Messages(messages) => {
                for message in messages {
                    self.pump.post(Event::Received(from.clone(), message));
                }
                OrderAnswer::Done
            }
            Order::Held { number, parts } => {
                if from != own {
                    self.held.reported(now, from, number, parts);
                }
                OrderAnswer::Done
            }
            Order::List { page } => OrderAnswer::Slots(payload_of(&self.listing(page, ranks))),
            Order::Granted { id, uid } => self.granted_here(&id, uid),
            Order::Cancel { id, uid } => self.cancel(id, uid),
        }
    }

    /// Cancels a request or an allocation that was made here, by order of another member.
    fn cancel(&mut self, id: AllocId, uid: u32) -> OrderAnswer {
        if self.machine().entries().any(|entry| entry.id == id && entry.uid == uid) {
            self.pump.post(Event::Cancel(id, uid));
            return OrderAnswer::Done;
        }
        OrderAnswer::Failed { problem: unknown(&id) }
    }

    /// Handles a console's request about allocations.
    pub(crate) fn ask(
        &mut self,
        ring: &Ring,
        wall_us: u64,
        console: ConsoleId,
        payload: &Payload,
    ) -> Option<Effect> {
        let ask = match exchange::decode(payload) {
            Ok(ask) => ask,
            Err(e) => return Some(Effect::Answer(console, refused(e.to_string()), true)),
        };
        // Only this user has connections to this daemon.
        let uid = self.uid;
        match ask {
            Ask::Allocate { request, strings } => {
                let request = AllocRequest { uid, since_us: wall_us, ..*request };
                self.begin(console, request, strings)
            }
            Ask::Resume { id, request, ticket, granted } => {
                self.owners.insert(console);
                let request = AllocRequest { uid, ..*request };
                let resume = Resume { id, request, ticket, is_granted: granted };
                self.pump.post(Event::Resume(OwnerId(console.0 as u64), resume));
                None
            }
            Ask::Granted { alloc } => Some(self.ask_for_slots(ring, console, &alloc, uid)),
            Ask::Cancel { alloc } => Some(self.begin_to_cancel(ring, console, &alloc, uid)),
            Ask::Keep { alloc, parts } => {
                Some(Effect::Answer(console, self.keep(ring, &alloc, uid, parts), true))
            }
            Ask::List => self.list(console, 0, Vec::new()),
        }
    }

    /// Makes a request, after the scheduler's hook has accepted it.
    fn begin(
        &mut self,
        console: ConsoleId,
        request: AllocRequest,
        strings: Strings,
    ) -> Option<Effect> {
        let checked = request.check().and_then(|()| strings.check()).map_err(|e| e.to_string());
        let added = checked.and_then(|()| match self.hooks.is_set() {
            true => self.hooks.add(console, request, strings),
            false => {
                self.pump.post(Event::Request(OwnerId(console.0 as u64), request));
                Ok(())
            }
        });
        match added {
            Ok(()) => {
                self.owners.insert(console);
                None
            }
            Err(problem) => Some(Effect::Answer(console, refused(problem), true)),
        }
    }

    /// Answers with the slots of an allocation, or asks the daemon through which it was made.
    fn ask_for_slots(&mut self, ring: &Ring, console: ConsoleId, alloc: &str, uid: u32) -> Effect {
        let id = match identified(ring, alloc) {
            Ok(id) => id,
            Err(problem) => return Effect::Answer(console, refused(problem), true),
        };
        if id.daemon() == ring.name() {
            let reply = match self.machine().granted(&id, uid) {
                Some(parts) => granted(id, parts.to_vec()),
                None => refused(unknown(&id)),
            };
            return Effect::Answer(console, reply, true);
        }
        let member = id.daemon().clone();
        let payload = order(&Order::Granted { id: id.clone(), uid });
        self.post(member, payload, UnderWay::Granted(console, id))
    }

    /// The slots of an allocation, for the daemon of another host. An answer has little room.
    fn granted_here(&self, id: &AllocId, uid: u32) -> OrderAnswer {
        let Some(parts) = self.machine().granted(id, uid) else {
            return OrderAnswer::Failed { problem: unknown(id) };
        };
        let payload = payload_of(&Granted { parts: parts.to_vec() });
        match payload.as_bytes().len() <= ROOM {
            true => OrderAnswer::Slots(payload),
            false => OrderAnswer::Failed {
                problem: format!("{id} has many hosts, and can be used only on {}", id.daemon()),
            },
        }
    }

    /// Reduces an allocation that was made here.
    fn keep(&mut self, ring: &Ring, alloc: &str, uid: u32, parts: Vec<Part>) -> ConsoleReply {
        let id = match identified(ring, alloc) {
            Ok(id) => id,
            Err(problem) => return refused(problem),
        };
        if self.machine().granted(&id, uid).is_none() {
            return refused(unknown(&id));
        }
        self.pump.post(Event::Keep(id, uid, parts));
        ConsoleReply::Done { missing: Vec::new() }
    }

    fn begin_to_cancel(
        &mut self,
        ring: &Ring,
        console: ConsoleId,
        alloc: &str,
        uid: u32,
    ) -> Effect {
        let id = match identified(ring, alloc) {
            Ok(id) => id,
            Err(problem) => return Effect::Answer(console, refused(problem), true),
        };
        if id.daemon() == ring.name() {
            let answer = self.cancel(id, uid);
            return Effect::Answer(console, reply_of(answer), true);
        }
        let member = id.daemon().clone();
        let payload = order(&Order::Cancel { id: id.clone(), uid });
        self.post(member, payload, UnderWay::Cancel(console, id))
    }

    fn list(&mut self, console: ConsoleId, page: u32, missing: Vec<DaemonName>) -> Option<Effect> {
        let request = self.numbers.next();
        self.under_way.insert(request, UnderWay::List(console, page, missing));
        Some(Effect::Post(Input::Scatter(request, order(&Order::List { page }))))
    }

    /// One page of the slots and requests of this host.
    fn listing(&self, wanted: u32, ranks: u32) -> Listing {
        let (slots, used) = self.machine().slots();
        let (entries, more) = page(self.machine().entries(), wanted);
        Listing { slots, used, ranks, entries, more }
    }

    /// Handles the answers to a request.
    pub(crate) fn gathered(&mut self, ring: &Ring, gathered: Gathered) -> Vec<Effect> {
        let Gathered { request, answers, missing, .. } = gathered;
        match self.under_way.remove(&request) {
            Some(UnderWay::Cancel(console, id)) => {
                let reply = only(&answers).map_or_else(|| refused(silent(&id)), reply_of);
                vec![Effect::Answer(console, reply, true)]
            }
            Some(UnderWay::Granted(console, id)) => {
                let reply = match only(&answers) {
                    Some(OrderAnswer::Slots(payload)) => match read_payload(&payload) {
                        Ok(Granted { parts }) => granted(id, parts),
                        Err(e) => refused(e.to_string()),
                    },
                    Some(answer) => reply_of(answer),
                    None => refused(silent(&id)),
                };
                vec![Effect::Answer(console, reply, true)]
            }
            Some(UnderWay::List(console, page, mut before)) => {
                before.extend(missing.into_iter().collect::<BTreeSet<_>>());
                before.sort_unstable();
                before.dedup();
                self.listed(ring, console, page, before, &answers)
            }
            Some(UnderWay::Batch(_)) | None => Vec::new(),
        }
    }

    /// Sends one page of every host to the console, and asks for the next one.
    fn listed(
        &mut self,
        ring: &Ring,
        console: ConsoleId,
        page: u32,
        missing: Vec<DaemonName>,
        answers: &[Answer],
    ) -> Vec<Effect> {
        let listed = pages::page(ring, page, answers, |host, answer| match answer {
            OrderAnswer::Slots(payload) => {
                let Listing { slots, used, ranks, entries, more } = read_payload(&payload).ok()?;
                Some((HostSlots { host: host.clone(), slots, used, ranks, entries }, more))
            }
            _ => None,
        });
        let more = listed.more;
        let replies = pages::replies(listed, &missing, |hosts, missing, more| {
            reply(&Reply::Hosts { hosts, missing, more })
        });
        let answer = |(reply, last)| Effect::Answer(console, reply, last);
        let mut effects: Vec<Effect> = replies.into_iter().map(answer).collect();
        if more {
            effects.extend(self.list(console, page + 1, missing));
        }
        effects
    }

    /// The ring refuses a request.
    pub(crate) fn refused(&mut self, request: RequestId, problem: &str) -> Option<Effect> {
        let console = match self.under_way.remove(&request)? {
            UnderWay::Batch(_) => return None,
            UnderWay::Cancel(console, _)
            | UnderWay::Granted(console, _)
            | UnderWay::List(console, ..) => console,
        };
        Some(Effect::Answer(console, refused(problem.to_owned()), true))
    }

    /// Ends all allocations: this daemon leaves the ring for good.
    pub(crate) fn end(&mut self) -> Vec<Effect> {
        self.is_removed = true;
        let problem = "the daemon has left the ring, so the slots are lost";
        let answer = |console| Effect::Answer(console, refused(problem.to_owned()), true);
        let answers = std::mem::take(&mut self.owners).into_iter().map(answer);
        [Effect::Perform(RingAction::ForgetSlots)].into_iter().chain(answers).collect()
    }

    /// Forgets a console that is gone. The slots that it owns become free.
    pub(crate) fn forget_console(&mut self, console: ConsoleId) -> Option<Effect> {
        if !self.owners.remove(&console) {
            return None;
        }
        match self.hooks.forget(console) {
            Ok(hook) => hook.map(RingAction::KillHook).map(Effect::Perform),
            Err(NoRequest) => {
                self.pump.post(Event::OwnerGone(OwnerId(console.0 as u64)));
                None
            }
        }
    }
}

impl UnderWay {
    const fn to(&self) -> Option<&DaemonName> {
        match self {
            Self::Batch(member) => Some(member),
            Self::Cancel(..) | Self::Granted(..) | Self::List(..) => None,
        }
    }
}

fn members(ring: &Ring) -> Vec<Member> {
    let live = ring.records().filter(|record| record.standing == Standing::Live);
    let member = |record: &mpd_wire::Record| Member {
        name: record.name.clone(),
        instance: record.instance,
        ordinal: record.ordinal,
        slots: record.ncpus,
        draining: record.draining,
    };
    live.map(member).collect()
}

/// One page of entries that fits an answer, and whether there is another one.
fn page(entries: impl Iterator<Item = AllocEntry>, wanted: u32) -> (Vec<AllocEntry>, bool) {
    let (mut page, mut room) = (0, ROOM);
    let mut taken = Vec::new();
    for entry in entries {
        // Our own structs serialise; see frame::encode_message.
        let size = serde_json::to_vec(&entry).expect("an entry serialises").len() + 1;
        if size > room {
            (page, room) = (page + 1, ROOM);
        }
        room = room.saturating_sub(size);
        if page > wanted {
            return (taken, true);
        }
        if page == wanted {
            taken.push(entry);
        }
    }
    (taken, false)
}

fn order(order: &Order) -> Payload {
    payload_of(&RingOrder::Slots(payload_of(order)))
}

fn reply(reply: &Reply) -> ConsoleReply {
    ConsoleReply::Slots(exchange::encode(reply))
}

fn reply_of(answer: OrderAnswer) -> ConsoleReply {
    match answer {
        OrderAnswer::Done => ConsoleReply::Done { missing: Vec::new() },
        OrderAnswer::Failed { problem } => refused(problem),
        _ => refused("the daemon of that host does not know the order".to_owned()),
    }
}

fn only(answers: &[Answer]) -> Option<OrderAnswer> {
    read_payload(&answers.first()?.answer).ok()
}

fn granted(id: AllocId, parts: Vec<Part>) -> ConsoleReply {
    reply(&Reply::News(AllocNews::Granted { id, parts }))
}

fn silent(id: &AllocId) -> String {
    format!("{id}: the daemon {} is not in the ring, or does not answer", id.daemon())
}

fn refused(problem: String) -> ConsoleReply {
    ConsoleReply::Refused { problem }
}

/// The allocation of this name, or the problem of the name.
fn identified(ring: &Ring, alloc: &str) -> Result<AllocId, String> {
    AllocId::parse_at(alloc, ring.name()).map_err(|e| format!("{}: {e}", shown(alloc)))
}

fn unknown(id: &AllocId) -> String {
    format!("there is no allocation {id}; 'mpdqueue' lists them")
}

/// The beginning of a text that a user gave.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mpd_alloc::SavedHold;
    use mpd_alloc::data::{MAX_LISTED_HOSTS, Stamp, Why};

    use super::*;

    fn entry(number: u64) -> AllocEntry {
        let long = DaemonName::new(&"d".repeat(255)).unwrap();
        AllocEntry {
            id: AllocId::new(number, long.clone()),
            uid: u32::MAX,
            count: u32::MAX,
            since_us: u64::MAX,
            ticket: Some(u64::MAX),
            why: Some(Why::TooFewExist { slots: u32::MAX, wanted: u32::MAX }),
            slots: Some(u32::MAX),
            hosts: vec![Part { host: long, slots: u32::MAX }; MAX_LISTED_HOSTS],
            ends_us: Some(u64::MAX),
        }
    }

    #[test]
    fn a_record_is_used_by_the_next_daemon_of_the_same_name_only() {
        let name = |text| DaemonName::new(text).unwrap();
        let hold = SavedHold {
            id: AllocId::new(3, name("h2")),
            slots: 2,
            stamp: Stamp { life: 1, at: 2 },
            ends_us: None,
        };
        let saved = Saved { next: 9, holds: vec![hold], ..Saved::default() };
        let here = Here { name: name("h1"), arch: String::new(), uid: 7, has_hook: false };
        let allocations = Allocations::new(Time::ZERO, 0, here, Saved::default());
        let Some(RingAction::SaveSlots(bytes)) = allocations.record(saved.clone()) else {
            panic!("no record")
        };
        let read = || Some(serde_json::from_slice(&bytes).unwrap());
        assert_eq!(SlotsImage::of_earlier(read(), &name("h1")), saved);
        assert_eq!(SlotsImage::of_earlier(read(), &name("h2")), Saved::default());
        assert_eq!(SlotsImage::of_earlier(None, &name("h1")), Saved::default());
    }

    #[test]
    fn every_entry_is_on_one_page_and_every_page_fits_an_answer() {
        let mut seen = Vec::new();
        for number in 0.. {
            let (entries, more) = page((0..9).map(entry), number);
            seen.extend(entries.iter().map(|entry| entry.id.number()));
            let (slots, used, ranks) = (u32::MAX, u32::MAX, u32::MAX);
            let listing = Listing { slots, used, ranks, entries, more };
            let answer = OrderAnswer::Slots(payload_of(&listing));
            assert!(payload_of(&answer).as_bytes().len() <= MAX_ANSWER);
            if !more {
                break;
            }
        }
        assert_eq!(seen, (0..9).collect::<Vec<u64>>());
    }
}
