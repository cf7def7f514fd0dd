//! Requests of clients about names, and the names and values in the ring.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_wire::Rank;
use mpd_wire::message::NameOperation;
use mpd_wire::names::{Content, Hold, MAX_NAME, MAX_VALUE, PmixValue, scoped_name, split_name};
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::{read_pairs, write_pairs};
use pmix_proto::view::{Pair, Proc, Published};
use pmix_proto::{Persistence, Range, Status};

use super::describe;
use super::waiter::{NameTicket, Waiter};
use crate::job::Job;

/// The pauses between two lookups of a name that is waited for.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A request of a client about names.
#[derive(Debug)]
pub(super) struct NameRequest {
    pub(super) waiter: Waiter,
    pub(super) rank: Rank,
    pub(super) kind: Kind,
    /// Answers that are missing.
    pub(super) missing: usize,
    pub(super) status: Status,
    pub(super) found: Vec<Found>,
    pub(super) pause: Duration,
}

#[derive(Debug)]
pub(super) enum Kind {
    Publish(Persistence),
    Unpublish,
    /// A lookup has found names that are taken back now. The client gets its answer when they are gone: it may use the
    /// same keys again at once.
    Read,
    /// The keys, and how many of them are waited for. Without a number only those that are there count.
    Lookup(Vec<String>, Option<usize>),
}

/// A name that a lookup has found. One of a narrower range comes first.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: usize,
    pub(super) name: String,
    pub(super) is_read_once: bool,
    pub(super) published: Published,
}

/// What a name is for, if not for a waiting client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request of this number.
    NameRequest(u64),
    /// The process of the name has ended, so it is removed.
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
    /// Names of ranks that have ended. They end with the world of this first rank.
    of_worlds: BTreeMap<Rank, Vec<String>>,
}

impl NameRequests {
    /// Forgets the requests of clients that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        self.name_requests.retain(|_, name_request| !matches(&name_request.waiter));
    }

    /// Removes the names that end with a process. `first` is the first rank of its world.
    pub(super) fn rank_ended(&mut self, rank: Rank, first: Option<Rank>) {
        for (name, persistence) in self.published.remove(&rank).unwrap_or_default() {
            match (persistence, first) {
                (Persistence::Process, _) => self.clean_up(name),
                (Persistence::Application, Some(first)) => {
                    self.of_worlds.entry(first).or_default().push(name);
                }
                (Persistence::Application, None)
                | (Persistence::FirstRead | Persistence::Indefinite | Persistence::Session, _) => {}
            }
        }
    }

    /// Removes the names that end with a world.
    pub(super) fn world_ended(&mut self, first: Rank) {
        let names = self.of_worlds.remove(&first).unwrap_or_default();
        names.into_iter().for_each(|name| self.clean_up(name));
    }

    pub(super) fn clean_up(&mut self, name: String) {
        self.ask(Purpose::CleanUps, NameOperation::Unpublish { name, key: None });
    }

    /// A number that no other request here has.
    pub(super) const fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn ask(&mut self, purpose: Purpose, operation: NameOperation) {
        let ticket = self.number();
        self.asked.insert(ticket, (purpose, operation.clone()));
        self.outgoing.push_back((ticket, operation));
    }

    /// Begins a request of a client with these operations.
    pub(super) fn begin(
        &mut self,
        waiter: Waiter,
        rank: Rank,
        kind: Kind,
        operations: Vec<NameOperation>,
    ) {
        let number = self.number();
        let (missing, status, pause) = (operations.len(), Status::SUCCESS, FIRST_PAUSE);
        let found = Vec::new();
        let name_request = NameRequest { waiter, rank, kind, missing, status, found, pause };
        self.name_requests.insert(number, name_request);
        for operation in operations {
            self.ask(Purpose::NameRequest(number), operation);
        }
    }
}

/// A key as text, if it can be one.
pub(super) fn text_of(key: Vec<u8>) -> Option<String> {
    String::from_utf8(key).ok().filter(|key| !key.is_empty())
}

/// The ranges of names that a process finds, the narrowest first.
const RANGES: [Range; 4] = [Range::Own, Range::Namespace, Range::Local, Range::Session];

/// The name in the ring of a key that a rank publishes in a range. All jobs of the ring find a name of the range
/// session.
///
/// # Errors
/// The range is not offered, or the key is too long.
pub(super) fn name_in(job: &Job, rank: Rank, key: &str, range: Range) -> Result<String, Status> {
    let world = job.worlds.of(rank).ok_or(Status::ERROR)?;
    let (id, number, own) =
        (job.order.job.in_full(), world.numbers.number, world.numbers.own(rank));
    let name = match range {
        Range::Session | Range::Global => key.to_owned(),
        Range::Namespace => scoped_name(key, &format!("world {number} of {id}")),
        Range::Local => scoped_name(key, &format!("host {}", job.host())),
        Range::Own => scoped_name(key, &format!("rank {own} of world {number} of {id}")),
        Range::Manager | Range::Custom => return Err(Status::NOT_SUPPORTED),
    };
    if name.len() > MAX_NAME { Err(Status::OUT_OF_RESOURCE) } else { Ok(name) }
}

/// The names in the ring under which a rank may find a key, the best first.
pub(super) fn names_for(job: &Job, rank: Rank, key: &str) -> Vec<String> {
    RANGES.iter().filter_map(|range| name_in(job, rank, key, *range).ok()).collect()
}

/// The key of a name in the ring, and its place among the names for that key.
pub(super) fn key_of<'a>(job: &Job, rank: Rank, name: &'a str) -> Option<(&'a str, usize)> {
    let (key, _) = split_name(name);
    let place = names_for(job, rank, key).iter().position(|other| other == name)?;
    Some((key, place))
}

/// How long a name stays in the ring.
pub(super) const fn hold_of(persistence: Persistence) -> Hold {
    match persistence {
        // The reader, of any job, takes it back.
        Persistence::FirstRead => Hold::Shared,
        Persistence::Indefinite => Hold::Kept,
        // A session is what one mpirun runs. Names of processes and worlds are removed at their end.
        Persistence::Process | Persistence::Application | Persistence::Session => Hold::Job,
    }
}

/// A value as text. `once` is as in [`PmixValue`]. `None` if it is too long.
pub(super) fn write(job: &Job, rank: Rank, once: u64, value: &Value) -> Option<String> {
    let numbers = job.worlds.of(rank)?.numbers;
    let text = value.as_text().and_then(|text| std::str::from_utf8(text).ok());
    let digits;
    let content = match text {
        Some(text) => Content::Text(text),
        None => {
            let pair = Pair::new("v", value.clone());
            digits = mpd_wire::hex::encode(&write_pairs(Encoding::Flexible, [&pair]));
            Content::Encoded(&digits)
        }
    };
    let id = job.order.job.in_full();
    let (world, rank) = (numbers.number, numbers.own(rank).0);
    let text = PmixValue { once, world, rank, job: &id, content }.write();
    (text.len() <= MAX_VALUE).then_some(text)
}

/// Reads a value; and whether it is removed now. A value of PMI is taken as a string.
pub(super) fn read(job: &Job, key: &str, text: &str) -> Option<(bool, Published)> {
    let published = |owner, value| Published { owner, key: key.into(), value };
    if !PmixValue::is_one(text) {
        return Some((false, published(Proc::new("", 0), Value::text(text))));
    }
    let PmixValue { once, world, rank, job: id, content } = PmixValue::read(text)?;
    // The namespaces of other jobs are secrets.
    let is_ours = job.order.job.in_full() == id;
    let namespace = if is_ours { describe::namespace(job, world) } else { format!("{id}-{world}") };
    let value = match content {
        Content::Text(text) => Value::text(text),
        Content::Encoded(digits) => {
            let mut bytes = vec![0; digits.len() / 2];
            mpd_wire::hex::decode(digits, &mut bytes)?;
            read_pairs(Encoding::Flexible, &bytes).ok()?.pop()?.value
        }
    };
    Some((once != 0, published(Proc::new(namespace, rank), value)))
}

/// The value of a name for a client of PMI. `None`: it is not a text.
pub(crate) fn plain_value(text: &str) -> Option<&str> {
    if !PmixValue::is_one(text) {
        return Some(text);
    }
    match PmixValue::read(text)?.content {
        Content::Text(text) => Some(text),
        Content::Encoded(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_pmi_gets_the_text_that_a_client_of_pmix_has_published() {
        assert_eq!(plain_value("tag#0$port"), Some("tag#0$port"));
        assert_eq!(plain_value("pmix:0:0:3:t:31@h1:a:b"), Some("a:b"));
        assert_eq!(plain_value("pmix:0:0:3:x:31@h1:0206"), None);
        assert_eq!(plain_value("pmix:0"), None);
    }

    #[test]
    fn names_end_with_their_process_or_their_world() {
        let mut names = NameRequests::default();
        let all = [
            ("p", Persistence::Process),
            ("a", Persistence::Application),
            ("s", Persistence::Session),
            ("i", Persistence::Indefinite),
        ];
        let all = all.map(|(name, persistence)| (name.to_owned(), persistence));
        names.published.insert(Rank(7), all.to_vec());
        let removed = |names: &mut NameRequests| {
            let asked = names.outgoing.drain(..).map(|(_, operation)| match operation {
                NameOperation::Unpublish { name, .. } => name,
                other => panic!("{other:?}"),
            });
            asked.collect::<Vec<_>>()
        };
        names.rank_ended(Rank(7), Some(Rank(4)));
        assert_eq!(removed(&mut names), ["p"]);
        names.world_ended(Rank(0));
        assert!(removed(&mut names).is_empty());
        names.world_ended(Rank(4));
        assert_eq!(removed(&mut names), ["a"]);
    }
}
