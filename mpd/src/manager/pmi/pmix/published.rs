//! Pairs that clients publish and look up. They are names of the ring, as those of PMI.
//!
//! The value of such a name is a text: when it is removed, the publisher, and the published value. Looking it up returns
//! it once it is there, or tells at once that it is not.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_wire::Rank;
use mpd_wire::message::{NameAnswer, NameOperation};
use mpd_wire::names::{MAX_NAME, MAX_VALUE};
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::{read_pairs, write_pairs};
use pmix_proto::view::{Pair, Proc, Published};
use pmix_proto::{Answer, Operation, Persistence, Status};

use super::{Pmix, Timer, Waiter, describe};
use crate::manager::context::{Job, Turn};

/// The number of a request about a name.
pub(in crate::manager::pmi) type NameTicket = u64;

/// The pauses between two lookups of a name that is waited for.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A request of a client about names.
#[derive(Debug)]
struct Inquiry {
    waiter: Waiter,
    kind: Kind,
    /// Answers that are missing.
    missing: usize,
    status: Status,
    found: Vec<Published>,
    pause: Duration,
}

#[derive(Debug)]
enum Kind {
    Publish,
    Unpublish,
    /// How many keys are waited for; none is one that is there.
    Lookup(Vec<String>, Option<usize>),
}

/// What a name is for, if not for a waiting client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// The inquiry of this number.
    Inquiry(u64),
    /// The name was read once, so it is removed.
    Removal,
}

/// The requests about names that are under way, and the names of ranks here.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    inquiries: BTreeMap<u64, Inquiry>,
    asked: BTreeMap<NameTicket, (Purpose, NameOperation)>,
    outgoing: VecDeque<(NameTicket, NameOperation)>,
    last: u64,
    published: BTreeMap<Rank, Vec<(String, Persistence)>>,
}

impl Inquiries {
    /// Forgets the requests of clients that are meant.
    pub(super) fn withdraw(&mut self, is_meant: impl Fn(&Waiter) -> bool) {
        self.inquiries.retain(|_, inquiry| !is_meant(&inquiry.waiter));
    }

    /// Removes the names that end with a process.
    pub(super) fn rank_ended(&mut self, rank: Rank) {
        let names = self.published.remove(&rank).unwrap_or_default();
        for (name, persistence) in names {
            if persistence == Persistence::Process {
                self.ask(Purpose::Removal, NameOperation::Unpublish { name, key: None });
            }
        }
    }

    fn ask(&mut self, purpose: Purpose, operation: NameOperation) {
        self.last += 1;
        self.asked.insert(self.last, (purpose, operation.clone()));
        self.outgoing.push_back((self.last, operation));
    }

    /// Begins an inquiry with these requests.
    fn begin(&mut self, (waiter, kind): (Waiter, Kind), operations: Vec<NameOperation>) -> u64 {
        self.last += 1;
        let number = self.last;
        let (missing, status, pause) = (operations.len(), Status::SUCCESS, FIRST_PAUSE);
        let inquiry = Inquiry { waiter, kind, missing, status, found: Vec::new(), pause };
        self.inquiries.insert(number, inquiry);
        for operation in operations {
            self.ask(Purpose::Inquiry(number), operation);
        }
        number
    }
}

impl Pmix {
    /// The next request about a name.
    pub(in crate::manager::pmi) fn next_name_request(
        &mut self,
    ) -> Option<(NameTicket, NameOperation)> {
        self.inquiries.outgoing.pop_front()
    }

    /// Performs an operation about names.
    pub(super) fn inquire(
        &mut self,
        turn: &mut Turn<'_>,
        (waiter, rank): (Waiter, Rank),
        operation: Operation,
    ) {
        match operation {
            Operation::Publish { pairs, persistence, .. } => {
                self.publish(turn.job, (waiter, rank), (&pairs, persistence));
            }
            Operation::Lookup { keys, wait, timeout, .. } => {
                let names: Option<Vec<String>> = keys.into_iter().map(name_of).collect();
                let Some(names) = names else {
                    return self.answer(waiter, Answer::Done(Status::NOT_FOUND));
                };
                self.limit(turn, waiter, timeout);
                let lookups = names.iter().cloned();
                let lookups = lookups.map(|name| NameOperation::Lookup { name, key: None });
                let lookups = lookups.collect();
                self.inquiries.begin((waiter, Kind::Lookup(names, wait)), lookups);
            }
            Operation::Unpublish { keys, .. } => self.unpublish((waiter, rank), keys),
            _ => {}
        }
    }

    fn publish(
        &mut self,
        job: &Job,
        (waiter, rank): (Waiter, Rank),
        (pairs, persistence): (&[Pair], Persistence),
    ) {
        let named = |pair: &Pair| {
            let name = name_of(pair.key.clone())?;
            let value = write(job, rank, persistence, &pair.value)?;
            Some(NameOperation::Publish { name, value, key: None })
        };
        let Some(operations) = pairs.iter().map(named).collect::<Option<Vec<_>>>() else {
            return self.answer(waiter, Answer::Done(Status::OUT_OF_RESOURCE));
        };
        let own = self.inquiries.published.entry(rank).or_default();
        for name in pairs.iter().filter_map(|pair| name_of(pair.key.clone())) {
            own.retain(|(other, _)| *other != name);
            own.push((name, persistence));
        }
        self.inquiries.begin((waiter, Kind::Publish), operations);
    }

    fn unpublish(&mut self, (waiter, rank): (Waiter, Rank), keys: Vec<Vec<u8>>) {
        let own = self.inquiries.published.entry(rank).or_default();
        let names: Vec<String> = if keys.is_empty() {
            std::mem::take(own).into_iter().map(|(name, _)| name).collect()
        } else {
            keys.into_iter().filter_map(name_of).collect()
        };
        own.retain(|(name, _)| !names.contains(name));
        if names.is_empty() {
            return self.answer(waiter, Answer::Done(Status::SUCCESS));
        }
        let names = names.into_iter();
        let operations = names.map(|name| NameOperation::Unpublish { name, key: None }).collect();
        self.inquiries.begin((waiter, Kind::Unpublish), operations);
    }

    /// Takes the answer to a request about a name.
    pub(in crate::manager::pmi) fn named(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: NameTicket,
        answer: NameAnswer,
    ) {
        let Some((Purpose::Inquiry(number), operation)) = self.inquiries.asked.remove(&ticket)
        else {
            return;
        };
        let Some(inquiry) = self.inquiries.inquiries.get_mut(&number) else { return };
        inquiry.missing -= 1;
        match (operation, answer) {
            (NameOperation::Lookup { name, .. }, NameAnswer::Value(text)) => {
                if let Some((is_read_once, found)) = read(turn.job, &name, &text) {
                    inquiry.found.push(found);
                    if is_read_once {
                        let removal = NameOperation::Unpublish { name, key: None };
                        self.inquiries.ask(Purpose::Removal, removal);
                    }
                }
            }
            (_, NameAnswer::Done | NameAnswer::Value(_)) => {}
            (NameOperation::Lookup { .. }, NameAnswer::Unknown) => {}
            (_, NameAnswer::Taken) => inquiry.status = Status::EXISTS,
            (_, NameAnswer::Unknown) => inquiry.status = Status::NOT_FOUND,
            (_, NameAnswer::Failed(_) | NameAnswer::Later(_)) => inquiry.status = Status::ERROR,
        }
        self.conclude(turn, number);
    }

    /// Answers the client if all answers about its names have come.
    fn conclude(&mut self, turn: &Turn<'_>, number: u64) {
        let Some(inquiry) = self.inquiries.inquiries.get_mut(&number) else { return };
        if inquiry.missing > 0 {
            return;
        }
        if let Kind::Lookup(_, Some(wanted)) = inquiry.kind
            && inquiry.found.len() < wanted
            && inquiry.status.is_success()
        {
            let pause = inquiry.pause;
            inquiry.pause = LONGEST_PAUSE.min(2 * pause);
            return self.timers.set(Timer::Look(number), turn.now() + pause);
        }
        let Some(inquiry) = self.inquiries.inquiries.remove(&number) else { return };
        let Inquiry { waiter, kind, status, found, .. } = inquiry;
        match kind {
            Kind::Lookup(..) if !found.is_empty() => self.answer(waiter, Answer::Found(&found)),
            Kind::Lookup(..) if status.is_success() => {
                self.answer(waiter, Answer::Done(Status::NOT_FOUND));
            }
            _ => self.answer(waiter, Answer::Done(status)),
        }
    }

    /// Looks the missing names of an inquiry up again.
    pub(super) fn look_again(&mut self, number: u64) {
        let Some(inquiry) = self.inquiries.inquiries.get_mut(&number) else { return };
        let Kind::Lookup(names, _) = &inquiry.kind else { return };
        let is_found = |name: &String| inquiry.found.iter().any(|one| one.key == name.as_bytes());
        let missing: Vec<String> = names.iter().filter(|name| !is_found(name)).cloned().collect();
        inquiry.missing = missing.len();
        for name in missing {
            let lookup = NameOperation::Lookup { name, key: None };
            self.inquiries.ask(Purpose::Inquiry(number), lookup);
        }
    }
}

fn name_of(key: Vec<u8>) -> Option<String> {
    String::from_utf8(key).ok().filter(|name| (1..=MAX_NAME).contains(&name.len()))
}

/// Stands in front of the values of PMIx clients. A value of PMI is taken as a string.
const MARK: &str = "pmix:";

/// A value as text: `pmix:ONCE:WORLD:RANK:KIND:`, then a string as it is, or other values as hexadecimal digits. `None`
/// if it is too long.
fn write(job: &Job, rank: Rank, persistence: Persistence, value: &Value) -> Option<String> {
    let numbers = job.worlds.of(rank)?.numbers;
    let once = u8::from(persistence == Persistence::FirstRead);
    let (number, own) = (numbers.number, numbers.own(rank));
    let text = value.as_text().and_then(|text| std::str::from_utf8(text).ok());
    let value = match text {
        Some(text) => format!("t:{text}"),
        None => {
            let pair = Pair::new("v", value.clone());
            let bytes = write_pairs(Encoding::Flexible, [&pair]);
            format!("x:{}", mpd_wire::hex::encode(&bytes))
        }
    };
    let text = format!("{MARK}{once}:{number}:{own}:{value}");
    (text.len() <= MAX_VALUE).then_some(text)
}

/// Reads a value; and whether it is removed now.
fn read(job: &Job, name: &str, text: &str) -> Option<(bool, Published)> {
    let published = |owner, value| Published { owner, key: name.into(), value };
    let Some(text) = text.strip_prefix(MARK) else {
        return Some((false, published(Proc::new("", 0), Value::text(text))));
    };
    let mut fields = text.splitn(5, ':');
    let is_read_once = fields.next()? == "1";
    let number = fields.next()?.parse().ok()?;
    let own = fields.next()?.parse().ok()?;
    let owner = Proc::new(describe::namespace(job, number), own);
    let value = match (fields.next()?, fields.next()?) {
        ("t", text) => Value::text(text),
        (_, digits) => {
            let mut bytes = vec![0; digits.len() / 2];
            mpd_wire::hex::decode(digits, &mut bytes)?;
            read_pairs(Encoding::Flexible, &bytes).ok()?.pop()?.value
        }
    };
    Some((is_read_once, published(owner, value)))
}
