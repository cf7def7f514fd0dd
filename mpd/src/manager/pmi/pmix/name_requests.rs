//! Requests of clients about names, and the values of names.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_wire::Rank;
use mpd_wire::message::NameOperation;
use mpd_wire::names::{MAX_NAME, MAX_VALUE};
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::{read_pairs, write_pairs};
use pmix_proto::view::{Pair, Proc, Published};
use pmix_proto::{Persistence, Status};

use super::describe;
use super::waiter::{NameTicket, Waiter};
use crate::manager::context::Job;

/// The pauses between two lookups of a name that is waited for.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A request of a client about names.
#[derive(Debug)]
pub(super) struct NameRequest {
    pub(super) waiter: Waiter,
    pub(super) kind: Kind,
    /// Answers that are missing.
    pub(super) missing: usize,
    pub(super) status: Status,
    pub(super) found: Vec<Published>,
    pub(super) pause: Duration,
}

#[derive(Debug)]
pub(super) enum Kind {
    Publish,
    Unpublish,
    /// How many keys are waited for; none is one that is there.
    Lookup(Vec<String>, Option<usize>),
}

/// What a name is for, if not for a waiting client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request of this number.
    NameRequest(u64),
    /// The name was read once, so it is removed.
    CleanUps,
}

/// The requests about names that are under way, and the names of ranks here.
#[derive(Debug, Default)]
pub(super) struct NameRequests {
    pub(super) name_requests: BTreeMap<u64, NameRequest>,
    pub(super) asked: BTreeMap<NameTicket, (Purpose, NameOperation)>,
    pub(super) outgoing: VecDeque<(NameTicket, NameOperation)>,
    last: u64,
    pub(super) published: BTreeMap<Rank, Vec<(String, Persistence)>>,
}

impl NameRequests {
    /// Forgets the requests of clients that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        self.name_requests.retain(|_, name_request| !matches(&name_request.waiter));
    }

    /// Removes the names that end with a process.
    pub(super) fn rank_ended(&mut self, rank: Rank) {
        let names = self.published.remove(&rank).unwrap_or_default();
        for (name, persistence) in names {
            if persistence == Persistence::Process {
                self.ask(Purpose::CleanUps, NameOperation::Unpublish { name, key: None });
            }
        }
    }

    pub(super) fn ask(&mut self, purpose: Purpose, operation: NameOperation) {
        self.last += 1;
        self.asked.insert(self.last, (purpose, operation.clone()));
        self.outgoing.push_back((self.last, operation));
    }

    /// Begins an request with these requests.
    pub(super) fn begin(
        &mut self,
        (waiter, kind): (Waiter, Kind),
        operations: Vec<NameOperation>,
    ) -> u64 {
        self.last += 1;
        let number = self.last;
        let (missing, status, pause) = (operations.len(), Status::SUCCESS, FIRST_PAUSE);
        let name_request = NameRequest { waiter, kind, missing, status, found: Vec::new(), pause };
        self.name_requests.insert(number, name_request);
        for operation in operations {
            self.ask(Purpose::NameRequest(number), operation);
        }
        number
    }
}

/// A key as the name of a name of the ring, if it can be one.
pub(super) fn name_of(key: Vec<u8>) -> Option<String> {
    String::from_utf8(key).ok().filter(|name| (1..=MAX_NAME).contains(&name.len()))
}

/// Stands in front of the values of PMIx clients. A value of PMI is taken as a string.
const MARK: &str = "pmix:";

/// A value as text: `pmix:ONCE:WORLD:RANK:KIND:`, then a string as it is, or other values as hexadecimal digits. `None`
/// if it is too long.
pub(super) fn write(
    job: &Job,
    rank: Rank,
    persistence: Persistence,
    value: &Value,
) -> Option<String> {
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
pub(super) fn read(job: &Job, name: &str, text: &str) -> Option<(bool, Published)> {
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
