//! One message to all members along the chords, and all answers back. The tree is made on the way.
//!
//! A scatter carries a range of the ring. Its receiver acts, cuts the range at its own links, and
//! sends each part by the link to the first member of the part. Answers are gathered on the way
//! back. The origin sends again to members that did not answer, and names them after the deadline.
//! A member acts once on an id, however often the scatter arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{
    MAX_ANSWER, MAX_CARRIED, MAX_GATHERED, MAX_HOPS, MAX_NAMED, MAX_PAYLOAD, MAX_REQUESTS,
};
use crate::links::{LinkId, Purpose};
use crate::window::Window;
use crate::{Event, Output, RequestId, Ring, Sender, Timer};
use mpd_sansio::Time;
use mpd_wire::message::{Answer, Gathered, Payload, RingMessage, Scatter, ScatterId};
use mpd_wire::{DaemonName, Instance, MAX_MEMBERS, Record};

/// Origins remembered: the members, and as many that are gone.
const MAX_ORIGINS: usize = 2 * MAX_MEMBERS;

/// The asker of a scatter.
#[derive(Debug)]
pub(crate) enum ScatterOrigin {
    /// A console, or the daemon itself.
    Console(RequestId),
    /// A job that publishes this name.
    Name(RequestId, String),
}

/// A scatter of this daemon.
#[derive(Debug)]
struct Asked {
    asker: ScatterOrigin,
    /// The member that it is for; `None` for all.
    to: Option<DaemonName>,
    payload: Payload,
    received: BTreeMap<DaemonName, Payload>,
    round: u32,
    depth: u32,
    deadline: Time,
}

/// A member's part in a scatter.
#[derive(Debug)]
struct ScatterPart {
    /// The link by which the answers go back; `None` at the origin.
    parent: Option<LinkId>,
    children: BTreeMap<LinkId, Vec<DaemonName>>,
    answers: Vec<Answer>,
    lost: BTreeSet<DaemonName>,
    /// Whether this daemon's own answer is still missing.
    waits_for_own: bool,
    depth: u32,
}

impl ScatterPart {
    fn is_complete(&self) -> bool {
        self.children.is_empty() && !self.waits_for_own
    }
}

#[derive(Debug, Default)]
pub(crate) struct Scatters {
    last: u64,
    asked: BTreeMap<u64, Asked>,
    scatter_parts: BTreeMap<(ScatterId, u32), ScatterPart>,
    windows: BTreeMap<Instance, Window>,
}

impl Scatters {
    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.scatter_parts.len()
    }

    /// The number of scatters of this daemon's consoles and jobs.
    pub(crate) fn requests(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.asked.len() <= MAX_REQUESTS
            && self.scatter_parts.len() <= MAX_CARRIED
            && self.windows.len() <= MAX_ORIGINS
    }
}

/// The patience of a daemon that is responsible for `members`: its answer must arrive before this
/// daemon's is due. The last member must still have time if the members form one long chain, as in
/// a ring without chords.
fn less(patience_ms: u32, members: usize) -> u32 {
    let parts = u32::try_from(2 * members).unwrap_or(u32::MAX).max(8);
    patience_ms - patience_ms / parts
}

impl Ring {
    /// Sends a payload to all members, or to one.
    pub(super) fn scatter(
        &mut self,
        now: Time,
        request: RequestId,
        to: Option<DaemonName>,
        payload: Payload,
    ) {
        let full = self.scatters.asked.len() >= MAX_REQUESTS;
        if full || payload.as_bytes().len() > MAX_PAYLOAD || self.seat().is_none() {
            self.outputs.push_back(Output::Refused(request));
            return;
        }
        self.begin_scatter(now, ScatterOrigin::Console(request), to, payload);
    }

    /// Asks all members, or one, for an answer.
    pub(super) fn begin_scatter(
        &mut self,
        now: Time,
        asker: ScatterOrigin,
        to: Option<DaemonName>,
        payload: Payload,
    ) {
        self.scatters.last += 1;
        let sequence = self.scatters.last;
        let deadline = now + self.config.timing.scatter;
        self.timers.set(Timer::Scatter(sequence), deadline);
        let received = BTreeMap::new();
        let only: Vec<DaemonName> = to.iter().cloned().collect();
        let asked = Asked { asker, to, payload, received, round: 0, depth: 0, deadline };
        self.scatters.asked.insert(sequence, asked);
        self.send_round(now, sequence, only);
    }

    /// Begins a round to the members in `only`, or to all if it is empty.
    fn send_round(&mut self, now: Time, sequence: u64, only: Vec<DaemonName>) {
        let (Some(seat), Some(asked)) = (self.seat(), self.scatters.asked.get(&sequence)) else {
            return;
        };
        let left = asked.deadline - now;
        let naming = match &asked.asker {
            ScatterOrigin::Console(_) => None,
            ScatterOrigin::Name(_, name) => Some(Box::new(self.naming(name))),
        };
        let scatter = Scatter {
            id: ScatterId { origin: self.config.instance, sequence },
            round: asked.round,
            after: seat.clone(),
            until: seat,
            only,
            hops: 0,
            patience_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            naming,
            payload: asked.payload.clone(),
        };
        // If no message is lost but an answer is late, the origin asks again long before the
        // deadline.
        self.timers.set(Timer::Resend(sequence), now + self.config.timing.scatter / 4);
        self.carry(now, None, scatter);
    }

    pub(super) fn received_scatter(&mut self, now: Time, from: LinkId, scatter: Scatter) {
        let key = (scatter.id, scatter.round);
        let objection = self.objection_to(from, &scatter);
        if let Some(why) = objection {
            self.refuse_frame(from, "an order", why);
        }
        let full = self.scatters.scatter_parts.len() >= MAX_CARRIED;
        let known = self.scatters.scatter_parts.contains_key(&key);
        let unfit = full || known || scatter.hops > MAX_HOPS || self.seat().is_none();
        if unfit || objection.is_some() {
            if full {
                self.event(Event::Full("scatters"));
            }
            // The scatter also arrived by another way, or the origin will send it again: this
            // sender must not wait.
            let Scatter { id, round, hops, .. } = scatter;
            let (answers, lost) = (Vec::new(), Vec::new());
            let nothing = Gathered { id, round, answers, lost, depth: hops };
            self.send(from, RingMessage::Gathered(nothing));
            return;
        }
        self.carry(now, Some(from), scatter);
    }

    /// The reason why a scatter that came by this link does not count (R7). The origin sends it
    /// again, so a scatter may arrive before the record of its sender.
    fn objection_to(&self, from: LinkId, scatter: &Scatter) -> Option<&'static str> {
        let link = self.links.get(from)?;
        if !self.config.rules.prove {
            return None;
        }
        let carries = matches!(link.purpose, Purpose::Ring | Purpose::Chord);
        let live = self.list.live(&link.peer.name);
        if link.own || !carries {
            Some("it came by a link that carries none")
        } else if !link.proved || live.is_none_or(|r| r.instance != link.peer.instance) {
            Some("the sender is no live member")
        } else if !self.is_live_instance(scatter.id.origin) {
            Some("its origin is no live member")
        } else {
            None
        }
    }

    fn sender(&self, parent: Option<LinkId>, origin: Instance) -> Option<Sender> {
        let link = self.links.get(parent?)?;
        let (name, at) = (link.peer.name.clone(), link.from.clone());
        let origin = self.live_named(origin).unwrap_or(&name).clone();
        Some(Sender { origin, name, at })
    }

    /// Acts, sends the parts on, and waits for their answers.
    fn carry(&mut self, now: Time, parent: Option<LinkId>, scatter: Scatter) {
        let key = (scatter.id, scatter.round);
        let mut scatter_part = ScatterPart {
            parent,
            children: BTreeMap::new(),
            answers: Vec::new(),
            lost: BTreeSet::new(),
            waits_for_own: false,
            depth: scatter.hops,
        };
        if scatter.only.is_empty() || scatter.only.contains(&self.config.name) {
            let name = self.config.name.clone();
            let answer = match &scatter.naming {
                None => self.act(&scatter, parent),
                Some(naming) => self.consent(naming, parent),
            };
            match answer {
                Some(answer) => scatter_part.answers.push(Answer { name, answer }),
                None if scatter.naming.is_some() => {
                    scatter_part.lost.insert(name);
                }
                None => scatter_part.waits_for_own = true,
            }
        }
        self.hand_on(&mut scatter_part, &scatter);
        let patience = Duration::from_millis(scatter.patience_ms.into());
        self.timers.set(Timer::ScatterPart(key.0, key.1), now + patience);
        self.scatters.scatter_parts.insert(key, scatter_part);
        self.review_scatter_part(now, key);
    }

    /// Delivers the scatter once. Returns the answer if it is known already.
    fn act(&mut self, scatter: &Scatter, parent: Option<LinkId>) -> Option<Payload> {
        let ScatterId { origin, sequence } = scatter.id;
        if self.scatters.windows.len() >= MAX_ORIGINS
            && !self.scatters.windows.contains_key(&origin)
        {
            self.forget_origins();
        }
        let window = self.scatters.windows.entry(origin).or_default();
        if window.enter(sequence) {
            let (id, payload, hops) = (scatter.id, scatter.payload.clone(), scatter.hops);
            let sender = self.sender(parent, origin);
            self.outputs.push_back(Output::Deliver { id, payload, hops, sender });
            return None;
        }
        window.answers.get(&sequence).cloned()
    }

    /// Drops the windows of origins that are no longer in the ring: they send no more scatters.
    fn forget_origins(&mut self) {
        let live: BTreeSet<Instance> = self.list.iter().map(|record| record.instance).collect();
        self.scatters.windows.retain(|origin, _| live.contains(origin));
        while self.scatters.windows.len() >= MAX_ORIGINS {
            self.scatters.windows.pop_first();
        }
    }

    /// Cuts the range at this daemon's links. Each link gets the members from its own peer up to
    /// the peer of the next link.
    fn hand_on(&mut self, scatter_part: &mut ScatterPart, scatter: &Scatter) {
        let between = self.list.between(&scatter.after, &scatter.until);
        let seats: Vec<Arc<Record>> =
            between.filter(|record| record.name != self.config.name).cloned().collect();
        let carriers = self.carriers();
        let only: BTreeSet<&DaemonName> = scatter.only.iter().collect();
        let asks = |record: &Record| only.is_empty() || only.contains(&record.name);
        let mut parts = Vec::new();
        let mut begin = 0;
        while begin < seats.len() {
            let cut = |seat: &Arc<Record>| carriers.contains_key(&seat.name);
            let rest = &seats[begin + 1..];
            let end = rest.iter().position(cut).map_or(seats.len(), |at| begin + 1 + at);
            let part = &seats[begin..end];
            let names: Vec<DaemonName> =
                part.iter().filter(|seat| asks(seat)).map(|seat| seat.name.clone()).collect();
            let carrier = carriers.get(&part[0].name);
            match carrier {
                _ if names.is_empty() => {}
                None => scatter_part.lost.extend(names),
                Some(&link) => {
                    let only = match &scatter.only[..] {
                        [] => Vec::new(),
                        [..] => fitting(names.iter().cloned()),
                    };
                    let until = seats.get(end).map(|record| record.seat());
                    let until = until.unwrap_or_else(|| scatter.until.clone());
                    let part = Scatter {
                        after: part[0].seat(),
                        until,
                        only,
                        hops: scatter.hops + 1,
                        patience_ms: less(scatter.patience_ms, part.len()),
                        ..scatter.clone()
                    };
                    scatter_part.children.insert(link, names);
                    parts.push((link, part));
                }
            }
            begin = end;
        }
        // The last part is the largest and has the longest way before it, so it is sent first.
        for (link, part) in parts.into_iter().rev() {
            self.introduce(link, scatter.id.origin);
            self.send(link, RingMessage::Scatter(part));
        }
    }

    /// Records travel along the ring, and a scatter on a chord overtakes them. Therefore this
    /// daemon sends the record of an origin that may be new before the scatter.
    fn introduce(&mut self, link: LinkId, origin: Instance) {
        let chord = self.links.get(link).is_some_and(|link| link.purpose == Purpose::Chord);
        let quiet = self.now - self.list_changed >= self.config.timing.settle;
        let record = self.live_named(origin).and_then(|name| self.list.get(name)).cloned();
        if let Some(record) = record.filter(|_| chord && !quiet) {
            self.send(link, RingMessage::Update { records: vec![record] });
        }
    }

    /// Links that may carry a scatter: the link to the rhs and the own chords.
    fn carriers(&self) -> BTreeMap<DaemonName, LinkId> {
        let chords = self.links.iter().filter(|(_, link)| link.is_own(Purpose::Chord));
        let mut carriers: BTreeMap<DaemonName, LinkId> =
            chords.map(|(id, link)| (link.peer.name.clone(), id)).collect();
        if let Some((id, name)) = self.rhs() {
            carriers.insert(name.clone(), id);
        }
        carriers
    }

    pub(super) fn answered(&mut self, now: Time, id: ScatterId, answer: Payload) {
        let answer = Payload::from(&answer.as_bytes()[..answer.as_bytes().len().min(MAX_ANSWER)]);
        let Some(window) = self.scatters.windows.get_mut(&id.origin) else { return };
        if !window.holds(id.sequence) {
            return;
        }
        window.answers.insert(id.sequence, answer.clone());
        let keys: Vec<(ScatterId, u32)> = self
            .scatters
            .scatter_parts
            .range((id, 0)..=(id, u32::MAX))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let Some(scatter_part) = self.scatters.scatter_parts.get_mut(&key) else { continue };
            if std::mem::replace(&mut scatter_part.waits_for_own, false) {
                let name = self.config.name.clone();
                scatter_part.answers.push(Answer { name, answer: answer.clone() });
            }
            self.review_scatter_part(now, key);
        }
    }

    pub(super) fn received_gathered(&mut self, now: Time, from: LinkId, gathered: Gathered) {
        let key = (gathered.id, gathered.round);
        let Some(scatter_part) = self.scatters.scatter_parts.get_mut(&key) else { return };
        let Some(expected) = scatter_part.children.remove(&from) else { return };
        let answered: BTreeSet<&DaemonName> = gathered.answers.iter().map(|a| &a.name).collect();
        scatter_part.lost.extend(expected.into_iter().filter(|name| !answered.contains(name)));
        scatter_part.answers.extend(gathered.answers);
        scatter_part.lost.extend(gathered.lost);
        scatter_part.depth = scatter_part.depth.max(gathered.depth);
        self.review_scatter_part(now, key);
    }

    /// A link is gone: the answers that it owed are lost, and the answers for its peer are not
    /// needed.
    pub(super) fn scatter_part_carrier_gone(&mut self, now: Time, link: LinkId) {
        let keys: Vec<(ScatterId, u32)> = self.scatters.scatter_parts.keys().copied().collect();
        for key in keys {
            let Some(scatter_part) = self.scatters.scatter_parts.get_mut(&key) else { continue };
            if scatter_part.parent == Some(link) {
                self.drop_scatter_part(key);
            } else if let Some(names) = scatter_part.children.remove(&link) {
                scatter_part.lost.extend(names);
                self.review_scatter_part(now, key);
            }
        }
    }

    pub(super) fn scatter_part_expired(&mut self, now: Time, id: ScatterId, round: u32) {
        if let Some(scatter_part) = self.scatters.scatter_parts.get_mut(&(id, round)) {
            let children = std::mem::take(&mut scatter_part.children);
            scatter_part.lost.extend(children.into_values().flatten());
            if std::mem::replace(&mut scatter_part.waits_for_own, false) {
                scatter_part.lost.insert(self.config.name.clone());
            }
            self.review_scatter_part(now, (id, round));
        }
    }

    fn drop_scatter_part(&mut self, key: (ScatterId, u32)) -> Option<ScatterPart> {
        self.timers.stop(Timer::ScatterPart(key.0, key.1));
        self.scatters.scatter_parts.remove(&key)
    }

    /// Reports a share that is complete.
    fn review_scatter_part(&mut self, now: Time, (id, round): (ScatterId, u32)) {
        let complete =
            self.scatters.scatter_parts.get(&(id, round)).is_some_and(ScatterPart::is_complete);
        if !complete {
            return;
        }
        let Some(scatter_part) = self.drop_scatter_part((id, round)) else { return };
        let ScatterPart { parent, answers, lost, depth, .. } = scatter_part;
        match parent {
            Some(link) => {
                let lost = fitting(lost);
                let answers = fitting_answers(answers);
                let gathered = Gathered { id, round, answers, lost, depth };
                self.send(link, RingMessage::Gathered(gathered));
            }
            None => self.absorb(now, id.sequence, answers, depth),
        }
    }

    /// A round of this daemon came back. The scatter is complete if all live members answered.
    fn absorb(&mut self, now: Time, sequence: u64, answers: Vec<Answer>, depth: u32) {
        let Some(asked) = self.scatters.asked.get_mut(&sequence) else { return };
        asked.received.extend(answers.into_iter().map(|answer| (answer.name, answer.answer)));
        asked.depth = asked.depth.max(depth);
        let round = asked.round;
        if self.unreported(sequence).is_empty() || self.is_opposed(sequence) {
            self.finish_scatter(sequence);
        } else {
            // Soon at first; each further round leaves the ring more time to heal.
            let wait = self.config.timing.pulse / 8 * (1 << round.min(3));
            self.timers.set(Timer::Resend(sequence), now + wait);
        }
    }

    fn unreported(&self, sequence: u64) -> Vec<DaemonName> {
        let Some(asked) = self.scatters.asked.get(&sequence) else { return Vec::new() };
        let live = self.members();
        let is_asked = |name: &DaemonName| asked.to.as_ref().is_none_or(|to| to == name);
        live.into_iter()
            .filter(|name| is_asked(name) && !asked.received.contains_key(name))
            .collect()
    }

    /// Whether the scatter asked for a name that another daemon has.
    fn is_opposed(&self, sequence: u64) -> bool {
        let asked = self.scatters.asked.get(&sequence);
        asked.is_some_and(|asked| match asked.asker {
            ScatterOrigin::Console(_) => false,
            ScatterOrigin::Name(..) => asked.received.values().any(Self::is_dissent),
        })
    }

    pub(super) fn resend(&mut self, now: Time, sequence: u64) {
        let missing = self.unreported(sequence);
        if missing.is_empty() {
            self.finish_scatter(sequence);
        } else if let Some(asked) = self.scatters.asked.get_mut(&sequence) {
            asked.round += 1;
            self.send_round(now, sequence, missing);
        }
    }

    pub(super) fn scatter_expired(&mut self, sequence: u64) {
        self.finish_scatter(sequence);
    }

    fn finish_scatter(&mut self, sequence: u64) {
        let (missing, opposed) = (self.unreported(sequence), self.is_opposed(sequence));
        let Some(asked) = self.end_scatter(sequence) else { return };
        let request = match asked.asker {
            ScatterOrigin::Console(request) => request,
            ScatterOrigin::Name(request, name) => {
                return self.named(request, &name, opposed, missing);
            }
        };
        let answers = asked.received.into_iter().map(|(name, answer)| Answer { name, answer });
        let (answers, depth) = (answers.collect(), asked.depth);
        self.outputs.push_back(Output::Scattered { request, answers, missing, depth });
    }

    /// Ends the scatter that asks for a name. Returns its request.
    pub(super) fn end_naming(&mut self, wanted: &str) -> Option<RequestId> {
        let naming = |asked: &Asked| match &asked.asker {
            ScatterOrigin::Name(request, name) if name == wanted => Some(*request),
            ScatterOrigin::Name(..) | ScatterOrigin::Console(_) => None,
        };
        let mut asked = self.scatters.asked.iter();
        let found = asked.find_map(|(sequence, asked)| Some((*sequence, naming(asked)?)));
        let (sequence, request) = found?;
        self.end_scatter(sequence);
        Some(request)
    }

    /// Removes a scatter of this daemon.
    fn end_scatter(&mut self, sequence: u64) -> Option<Asked> {
        let asked = self.scatters.asked.remove(&sequence)?;
        self.timers.stop(Timer::Resend(sequence));
        self.timers.stop(Timer::Scatter(sequence));
        let id = ScatterId { origin: self.config.instance, sequence };
        for round in 0..=asked.round {
            self.drop_scatter_part((id, round));
        }
        Some(asked)
    }

    /// This daemon leaves: its consoles receive the partial results of their requests.
    pub(super) fn give_up_requests(&mut self) {
        let sequences: Vec<u64> = self.scatters.asked.keys().copied().collect();
        for sequence in sequences {
            self.finish_scatter(sequence);
        }
        self.scatters.scatter_parts.clear();
        self.give_up_laps();
    }
}

/// As many of the names as a message holds beside its payload. The other members do not answer.
pub(super) fn fitting(names: impl IntoIterator<Item = DaemonName>) -> Vec<DaemonName> {
    within(MAX_NAMED, names, |name| name.as_str().len() + 3)
}

/// As many of the answers as a message holds. The other members count as lost and are asked again.
pub(super) fn fitting_answers(answers: Vec<Answer>) -> Vec<Answer> {
    let frame = r#"{"name":"","answer":""},"#.len();
    within(MAX_GATHERED, answers, |Answer { name, answer }| {
        frame + name.as_str().len() + answer.as_bytes().len().div_ceil(3) * 4
    })
}

fn within<T>(
    limit: usize,
    items: impl IntoIterator<Item = T>,
    size: impl Fn(&T) -> usize,
) -> Vec<T> {
    let mut total = 0;
    let fits = |item: &T| {
        total += size(item);
        total <= limit
    };
    items.into_iter().take_while(fits).collect()
}
