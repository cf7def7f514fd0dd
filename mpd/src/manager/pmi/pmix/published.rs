//! Pairs that clients publish and look up. They are names of the ring, as those of PMI.
//!
//! The value of such a name is a text: when it is removed, the publisher, and the published value. Looking it up returns
//! it once it is there, or tells at once that it is not.

use mpd_wire::Rank;
use mpd_wire::message::{NameAnswer, NameOperation};
use pmix_proto::view::Pair;
use pmix_proto::{Answer, Operation, Persistence, Status};

use super::name_requests::{Kind, LONGEST_PAUSE, NameRequest, Purpose, name_of, read, write};
use super::waiter::{NameTicket, Waiter};
use super::{Pmix, Timer};
use crate::manager::context::{Job, Turn};

impl Pmix {
    /// The next request about a name.
    pub(in crate::manager::pmi) fn next_name_request(
        &mut self,
    ) -> Option<(NameTicket, NameOperation)> {
        self.name_requests.outgoing.pop_front()
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
                self.name_requests.begin((waiter, Kind::Lookup(names, wait)), lookups);
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
        let own = self.name_requests.published.entry(rank).or_default();
        for name in pairs.iter().filter_map(|pair| name_of(pair.key.clone())) {
            own.retain(|(other, _)| *other != name);
            own.push((name, persistence));
        }
        self.name_requests.begin((waiter, Kind::Publish), operations);
    }

    fn unpublish(&mut self, (waiter, rank): (Waiter, Rank), keys: Vec<Vec<u8>>) {
        let own = self.name_requests.published.entry(rank).or_default();
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
        self.name_requests.begin((waiter, Kind::Unpublish), operations);
    }

    /// Takes the answer to a request about a name.
    pub(in crate::manager::pmi) fn named(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: NameTicket,
        answer: NameAnswer,
    ) {
        let Some((Purpose::NameRequest(number), operation)) =
            self.name_requests.asked.remove(&ticket)
        else {
            return;
        };
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else { return };
        name_request.missing -= 1;
        match (operation, answer) {
            (NameOperation::Lookup { name, .. }, NameAnswer::Value(text)) => {
                if let Some((is_read_once, found)) = read(turn.job, &name, &text) {
                    name_request.found.push(found);
                    if is_read_once {
                        let clean_ups = NameOperation::Unpublish { name, key: None };
                        self.name_requests.ask(Purpose::CleanUps, clean_ups);
                    }
                }
            }
            (_, NameAnswer::Done | NameAnswer::Value(_)) => {}
            (NameOperation::Lookup { .. }, NameAnswer::Unknown) => {}
            (_, NameAnswer::Taken) => name_request.status = Status::EXISTS,
            (_, NameAnswer::Unknown) => name_request.status = Status::NOT_FOUND,
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
        if let Kind::Lookup(_, Some(pending_get)) = name_request.kind
            && name_request.found.len() < pending_get
            && name_request.status.is_success()
        {
            let pause = name_request.pause;
            name_request.pause = LONGEST_PAUSE.min(2 * pause);
            return self.timers.set(Timer::Look(number), turn.now() + pause);
        }
        let Some(name_request) = self.name_requests.name_requests.remove(&number) else { return };
        let NameRequest { waiter, kind, status, found, .. } = name_request;
        match kind {
            Kind::Lookup(..) if !found.is_empty() => self.answer(waiter, Answer::Found(&found)),
            Kind::Lookup(..) if status.is_success() => {
                self.answer(waiter, Answer::Done(Status::NOT_FOUND));
            }
            _ => self.answer(waiter, Answer::Done(status)),
        }
    }

    /// Looks the missing names of an request up again.
    pub(super) fn look_again(&mut self, number: u64) {
        let Some(name_request) = self.name_requests.name_requests.get_mut(&number) else { return };
        let Kind::Lookup(names, _) = &name_request.kind else { return };
        let is_found =
            |name: &String| name_request.found.iter().any(|one| one.key == name.as_bytes());
        let missing: Vec<String> = names.iter().filter(|name| !is_found(name)).cloned().collect();
        name_request.missing = missing.len();
        for name in missing {
            let lookup = NameOperation::Lookup { name, key: None };
            self.name_requests.ask(Purpose::NameRequest(number), lookup);
        }
    }
}
