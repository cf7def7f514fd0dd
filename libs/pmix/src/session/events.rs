//! The event registrations of a client.

use std::collections::{BTreeMap, BTreeSet};

use crate::event_log::OrderedEvent;
use crate::limits::{MAX_EVENT_CODES, MAX_EVENT_PROCS, MAX_KEPT_EVENTS};
use crate::status::Status;
use crate::view::{Info, Proc, WILDCARD};

/// The registrations of one client.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    /// The processes of interest for each code; `None` means all.
    codes: BTreeMap<Status, Option<Vec<Proc>>>,
    /// The codes that were registered at any time, even if they are no longer registered.
    known: BTreeSet<Status>,
    /// The numbers of the last events that were sent. There are as many as there may be kept events.
    sent: BTreeSet<u64>,
}

impl Registrations {
    /// Registers codes. An empty list means the default handler. Returns the codes that were never registered before.
    pub(super) fn register(
        &mut self,
        codes: &[Status],
        info: &[Info],
    ) -> Result<Vec<Status>, Status> {
        let affected = Info::find(info, "pmix.evproc").or(Info::find(info, "pmix.evaffected"));
        let affected = affected.and_then(|value| value.as_procs());
        let known: usize = self.codes.values().flatten().map(Vec::len).sum();
        let more = affected.as_ref().map_or(0, |procs| procs.len() * codes.len().max(1));
        let affected = affected.filter(|_| known + more <= MAX_EVENT_PROCS);
        let default = [Status::DEFAULT_HANDLER];
        let codes = if codes.is_empty() { &default[..] } else { codes };
        let mut new = Vec::new();
        for code in codes {
            if self.known.len() >= MAX_EVENT_CODES && !self.known.contains(code) {
                return Err(Status::OUT_OF_RESOURCE);
            }
            match self.codes.get_mut(code) {
                None => {
                    self.codes.insert(*code, affected.clone());
                    if self.known.insert(*code) {
                        new.push(*code);
                    }
                }
                Some(filter) => match (filter.as_mut(), &affected) {
                    (Some(old), Some(more)) => {
                        old.extend(more.iter().cloned());
                        old.sort_unstable();
                        old.dedup();
                        old.truncate(MAX_EVENT_CODES);
                    }
                    _ => *filter = None,
                },
            }
        }
        Ok(new)
    }

    pub(super) fn deregister(&mut self, codes: &[Status]) {
        for code in codes {
            self.codes.remove(code);
        }
    }

    /// Whether the client gets an event now: it wants it, and has not got it.
    pub(super) fn take(&mut self, ordered: &OrderedEvent) -> bool {
        let is_next = !self.sent.contains(&ordered.number) && self.want(ordered);
        if is_next {
            self.sent.insert(ordered.number);
            if self.sent.len() > MAX_KEPT_EVENTS {
                self.sent.pop_first();
            }
        }
        is_next
    }

    /// Whether the client has registered the code, and one of the affected processes is of interest.
    fn want(&self, OrderedEvent { event, has_default, .. }: &OrderedEvent) -> bool {
        let by_default = *has_default && !Info::is_set(&event.info, "pmix.evnondef");
        let registered = self
            .codes
            .get(&event.status)
            .or_else(|| self.codes.get(&Status::DEFAULT_HANDLER).filter(|_| by_default));
        match registered {
            None => false,
            Some(None) => true,
            Some(Some(wanted)) => {
                let affected = affected(&event.info);
                affected.is_empty()
                    || affected.iter().any(|proc| wanted.iter().any(|one| is_in(proc, one)))
            }
        }
    }
}

/// The affected processes of an event.
fn affected(info: &[Info]) -> Vec<Proc> {
    let keys: [&[u8]; 2] = [b"pmix.evproc", b"pmix.evaffected"];
    let infos = info.iter().filter(|info| keys.contains(&info.key.as_slice()));
    infos.filter_map(|info| info.value.as_procs()).flatten().collect()
}

fn is_in(proc: &Proc, other: &Proc) -> bool {
    proc.namespace == other.namespace
        && (proc.rank == other.rank || proc.rank == WILDCARD || other.rank == WILDCARD)
}
