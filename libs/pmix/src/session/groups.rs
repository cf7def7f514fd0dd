//! The groups that a client has constructed. Clients of PMIx up to 4.2.3 destruct a group by its name alone, so its members
//! are kept here.

use std::collections::BTreeMap;

use pmi_proto::Ticket;

use super::Answer;
use crate::limits::MAX_GROUPS;
use crate::view::Proc;

/// The groups of one client.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By the request, whose answer is not known.
    constructing: BTreeMap<Ticket, (Vec<u8>, Vec<Proc>)>,
    /// By the name.
    members: BTreeMap<Vec<u8>, Vec<Proc>>,
}

impl Groups {
    /// The client constructs a group of these processes. Returns whether there is room for it.
    #[must_use]
    pub(super) fn begin(&mut self, ticket: Ticket, group: &[u8], procs: &[Proc]) -> bool {
        let has_room = self.members.len() + self.constructing.len() < MAX_GROUPS;
        if has_room {
            self.constructing.insert(ticket, (group.to_vec(), procs.to_vec()));
        }
        has_room
    }

    /// A request is answered.
    pub(super) fn answered(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        if let Some((group, procs)) = self.constructing.remove(&ticket)
            && matches!(answer, Answer::Group { .. })
        {
            self.members.insert(group, procs);
        }
    }

    /// A request has no answer in its time.
    pub(super) fn expired(&mut self, ticket: Ticket) {
        self.constructing.remove(&ticket);
    }

    /// The members of a group that the client destructs, if it has constructed it. The group is forgotten.
    pub(super) fn destruct(&mut self, group: &[u8]) -> Option<Vec<Proc>> {
        self.members.remove(group)
    }
}
