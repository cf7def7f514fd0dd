//! The groups that a client has constructed. Clients of PMIx up to 4.2.3 destruct a group by its name alone, so its members
//! are kept here. They count for the budget of the rank.

use std::collections::BTreeMap;

use pmi_proto::Ticket;

use super::Answer;
use crate::error::ProtocolError;
use crate::limits::{ENTRY_COST, MAX_GROUPS};
use crate::status::Status;
use crate::view::Proc;

/// The groups of one client.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By the request, whose answer is not known.
    constructing: BTreeMap<Ticket, Group>,
    /// By the name.
    constructed: BTreeMap<Vec<u8>, Group>,
    /// The requests to destruct a group, which are not answered, with the request that constructed it.
    destructing: BTreeMap<Ticket, Ticket>,
    /// The estimated memory of all groups.
    bytes: usize,
}

#[derive(Debug)]
struct Group {
    /// The request that constructs it.
    ticket: Ticket,
    name: Vec<u8>,
    members: Vec<Proc>,
}

impl Groups {
    /// The client constructs a group of these processes, which may take `room` bytes.
    pub(super) fn construct(
        &mut self,
        ticket: Ticket,
        name: &[u8],
        members: &[Proc],
        room: usize,
    ) -> Result<(), ProtocolError> {
        if self.constructed.len() + self.constructing.len() >= MAX_GROUPS {
            return Err(ProtocolError::TooManyGroups);
        }
        let group = Group { ticket, name: name.to_vec(), members: members.to_vec() };
        if group.bytes() > room {
            return Err(ProtocolError::GroupsTooLarge);
        }
        self.bytes += group.bytes();
        self.constructing.insert(ticket, group);
        Ok(())
    }

    /// The members of a group that the client has constructed.
    pub(super) fn members(&self, name: &[u8]) -> Option<&[Proc]> {
        self.constructed.get(name).map(|group| group.members.as_slice())
    }

    /// The client destructs a group. It keeps the group until the answer is a success.
    pub(super) fn destruct(&mut self, ticket: Ticket, name: &[u8]) {
        if let Some(group) = self.constructed.get(name) {
            self.destructing.insert(ticket, group.ticket);
        }
    }

    /// A request is answered.
    pub(super) fn answered(&mut self, ticket: Ticket, answer: &Answer<'_>) {
        if let Some(group) = self.constructing.remove(&ticket) {
            let replaced = match answer {
                Answer::Group { .. } => self.constructed.insert(group.name.clone(), group),
                _ => Some(group),
            };
            self.bytes -= replaced.map_or(0, |group| group.bytes());
        }
        // Without the members that have ended, all have arrived.
        let dissolved = [Status::SUCCESS, Status::PARTIAL_SUCCESS].map(Answer::Done);
        if let Some(of) = self.destructing.remove(&ticket)
            && dissolved.contains(answer)
        {
            let gone = self.constructed.extract_if(.., |_, group| group.ticket == of);
            self.bytes -= gone.map(|(_, group)| group.bytes()).sum::<usize>();
        }
    }

    /// The estimated memory of all groups.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Group {
    /// The estimated memory. The name is kept twice.
    fn bytes(&self) -> usize {
        let members = self.members.iter();
        let members = members.map(|proc| size_of::<Proc>() + proc.namespace.len()).sum::<usize>();
        ENTRY_COST + size_of::<Self>() + 2 * self.name.len() + members
    }
}
