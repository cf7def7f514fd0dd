//! The event registrations of a client.

use std::collections::{BTreeMap, BTreeSet};

use super::operation::Event;
use crate::limits::MAX_EVENT_CODES;
use crate::status::Status;
use crate::view::{Info, Proc, WILDCARD};

/// The registrations of one client.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    /// The processes of interest for each code; `None` means all.
    codes: BTreeMap<Status, Option<Vec<Proc>>>,
    /// The codes that were registered at any time, even if they are no longer registered.
    known: BTreeSet<Status>,
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

    /// Whether the client gets an event: it has registered the code, and one of the affected processes is of interest.
    /// The default handler of Open MPI ends the program, so it gets an event only with `with_default`.
    pub(super) fn want(&self, event: &Event, with_default: bool) -> bool {
        let by_default = with_default && !Info::is_set(&event.info, "pmix.evnondef");
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
