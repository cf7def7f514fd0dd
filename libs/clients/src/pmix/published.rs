//! Pairs that clients publish and look up. They are names of the ring, as those of PMI.
//!
//! The value of such a name is a text with three parts: when it is removed, the publisher, and the published value. The processes that
//! may find it are part of the name, see [`name_in`]. Looking it up returns it once it is there, or tells at once that it
//! is not.

use mpd_wire::Rank;
use mpd_wire::message::{NameAnswer, NameOperation};
use pmix_proto::view::Pair;
use pmix_proto::{Answer, Persistence, Range, Status};

use super::name_requests::{
    Found, Kind, LONGEST_PAUSE, NameRequest, Purpose, hold_of, key_of, name_in, names_for, read,
    text_of, write,
};
use super::waiter::{NameTicket, Waiter};
use super::{Pmix, Timer};
use crate::job::Job;
use crate::turn::Turn;

impl Pmix {
    /// The next request about a name.
    pub(crate) fn next_name_request(&mut self) -> Option<(NameTicket, NameOperation)> {
        self.name_requests.outgoing.pop_front()
    }

    /// Publishes the pairs of a rank.
    pub(super) fn publish(
        &mut self,
        job: &Job,
        waiter: Waiter,
        rank: Rank,
        pairs: &[Pair],
        persistence: Persistence,
        range: Range,
    ) {
        let once = match persistence {
            Persistence::FirstRead => self.name_requests.number(),
            _ => 0,
        };
        match operations_of(job, rank, pairs, persistence, range, once) {
            Ok(operations) => {
                let kind = Kind::Publish(persistence);
                self.name_requests.begin(waiter, rank, kind, operations);
            }
            Err(status) => self.answer(waiter, Answer::Done(status)),
        }
    }

    /// Looks keys up. `wait` is the number of keys that the client waits for.
    pub(super) fn look_up(
        &mut self,
        turn: &Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        keys: Vec<Vec<u8>>,
        wait: Option<usize>,
        timeout: Option<u32>,
    ) {
        let keys: Option<Vec<String>> = keys.into_iter().map(text_of).collect();
        let Some(keys) = keys else {
            return self.answer(waiter, Answer::Done(Status::NOT_FOUND));
        };
        self.limit(turn, waiter, timeout);
        let lookups = lookups(turn.job, rank, &keys);
        self.name_requests.begin(waiter, rank, Kind::Lookup(keys, wait), lookups);
    }

    /// Takes back the names of a rank, or names that outlived their jobs.
    pub(super) fn unpublish(&mut self, job: &Job, waiter: Waiter, rank: Rank, keys: Vec<Vec<u8>>) {
        let own = self.name_requests.published.entry(rank).or_default();
        let names: Vec<String> = if keys.is_empty() {
            own.drain(..).map(|(name, _)| name).collect()
        } else {
            let mut names = Vec::new();
            for key in keys.into_iter().filter_map(text_of) {
                let mut of_key = names_for(job, rank, &key);
                of_key.retain(|name| own.iter().any(|(own, _)| own == name));
                names.extend(if of_key.is_empty() { vec![key] } else { of_key });
            }
            own.retain(|(name, _)| !names.contains(name));
            names
        };
        if names.is_empty() {
            return self.answer(waiter, Answer::Done(Status::SUCCESS));
        }
        let names = names.into_iter();
        let operations = names.map(|name| NameOperation::Unpublish { name, key: None }).collect();
        self.name_requests.begin(waiter, rank, Kind::Unpublish, operations);
    }

    /// Takes the answer to a request about a name.
    pub(crate) fn named(&mut self, turn: &mut Turn<'_>, ticket: NameTicket, answer: NameAnswer) {
        let Some((Purpose::NameRequest(number), operation)) =
            self.name_requests.asked.remove(&ticket)
        else {
            return;
        };
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else { return };
        name_request.missing -= 1;
        let rank = name_request.rank;
        match (operation, answer) {
            // The value is found, whether its name was taken back or not.
            _ if matches!(name_request.kind, Kind::Read) => {}
            (NameOperation::Lookup { name, .. }, NameAnswer::Value(text)) => {
                let found = key_of(turn.job, rank, &name).and_then(|(key, place)| {
                    let (is_read_once, published) = read(turn.job, key, &text)?;
                    Some(Found { place, name: name.clone(), is_read_once, published })
                });
                name_request.found.extend(found);
            }
            (NameOperation::Publish { name, .. }, NameAnswer::Done) => {
                if let Kind::Publish(persistence) = name_request.kind {
                    let own = self.name_requests.published.entry(rank).or_default();
                    own.retain(|(other, _)| *other != name);
                    own.push((name, persistence));
                }
            }
            (_, NameAnswer::Done | NameAnswer::Value(_)) => {}
            (NameOperation::Lookup { .. }, NameAnswer::Unknown) => {}
            (_, NameAnswer::Taken) => name_request.status = Status::EXISTS,
            (_, NameAnswer::Unknown) => name_request.status = Status::NOT_FOUND,
            (_, NameAnswer::NotKept) => name_request.status = Status::NOT_SUPPORTED,
            (_, NameAnswer::Failed(_) | NameAnswer::Later(_)) => {
                name_request.status = Status::ERROR
            }
        }
        self.conclude(turn, number);
    }

    /// Answers the client if all answers about its names have come.
    fn conclude(&mut self, turn: &Turn<'_>, number: u64) {
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else { return };
        if name_request.missing > 0 {
            return;
        }
        // Each key counts once, with the narrowest range.
        name_request.found.sort_by(|one, other| {
            (&one.published.key, one.place).cmp(&(&other.published.key, other.place))
        });
        name_request.found.dedup_by(|later, kept| later.published.key == kept.published.key);
        if let Kind::Lookup(_, Some(wanted)) = name_request.kind
            && name_request.found.len() < wanted
            && name_request.status.is_success()
        {
            let pause = name_request.pause;
            name_request.pause = LONGEST_PAUSE.min(2 * pause);
            return self.timers.set(Timer::Look(number), turn.now() + pause);
        }
        if matches!(name_request.kind, Kind::Lookup(..)) && self.take_back_read(number) {
            return;
        }
        let Some(name_request) = self.name_requests.name_requests.remove(&number) else { return };
        let NameRequest { waiter, kind, status, found, .. } = name_request;
        match kind {
            Kind::Lookup(..) | Kind::Read if !found.is_empty() => {
                let found: Vec<_> = found.into_iter().map(|one| one.published).collect();
                self.answer(waiter, Answer::Found(&found));
            }
            Kind::Lookup(..) if status.is_success() => {
                self.answer(waiter, Answer::Done(Status::NOT_FOUND));
            }
            _ => self.answer(waiter, Answer::Done(status)),
        }
    }

    /// Takes back the names that a lookup has found, and that end with their first reader. Returns whether there are any.
    fn take_back_read(&mut self, number: u64) -> bool {
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else {
            return false;
        };
        let read = name_request.found.iter().filter(|one| one.is_read_once);
        let read: Vec<String> = read.map(|one| one.name.clone()).collect();
        if read.is_empty() {
            return false;
        }
        name_request.kind = Kind::Read;
        name_request.missing = read.len();
        // The value is found, so the time that the client gave does not count any longer.
        self.timers.stop(Timer::Answer(name_request.waiter));
        for name in read {
            let operation = NameOperation::Unpublish { name, key: None };
            self.name_requests.ask(Purpose::NameRequest(number), operation);
        }
        true
    }

    /// Looks the missing keys of a request up again.
    pub(super) fn look_again(&mut self, job: &Job, number: u64) {
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else { return };
        let Kind::Lookup(keys, _) = &name_request.kind else { return };
        let is_found = |key: &&String| {
            name_request.found.iter().any(|one| one.published.key == key.as_bytes())
        };
        let missing: Vec<String> = keys.iter().filter(|key| !is_found(key)).cloned().collect();
        let lookups = lookups(job, name_request.rank, &missing);
        name_request.missing = lookups.len();
        for lookup in lookups {
            self.name_requests.ask(Purpose::NameRequest(number), lookup);
        }
    }
}

/// The operations that publish these pairs.
fn operations_of(
    job: &Job,
    rank: Rank,
    pairs: &[Pair],
    persistence: Persistence,
    range: Range,
    once: u64,
) -> Result<Vec<NameOperation>, Status> {
    let hold = hold_of(persistence);
    let publish = |pair: &Pair| {
        let key = text_of(pair.key.clone()).ok_or(Status::BAD_PARAM)?;
        let name = name_in(job, rank, &key, range)?;
        let value = write(job, rank, once, &pair.value).ok_or(Status::OUT_OF_RESOURCE)?;
        Ok(NameOperation::Publish { name, value, key: None, hold })
    };
    pairs.iter().map(publish).collect()
}

fn lookups(job: &Job, rank: Rank, keys: &[String]) -> Vec<NameOperation> {
    let names = keys.iter().flat_map(|key| names_for(job, rank, key));
    names.map(|name| NameOperation::Lookup { name, key: None }).collect()
}
