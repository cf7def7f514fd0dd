//! Barriers of PMI-1: of the world, and in subversion 2 also of groups, several at once.
//!
//! A client of PMI-1.2 has threads: while some wait in barriers, other requests are answered. A second entry into a
//! group's barrier is the first entry into its next barrier. It waits here for the end of the present one, so that the
//! manager gets each rank at most once per group.

use std::collections::VecDeque;

use super::operation::Operation;
use super::{Facts, Pending, Session};
use crate::error::{ProtocolError, excerpt};
use crate::limits::MAX_BARRIERS;
use crate::pmi1::group::BarrierGroup;

/// The state of a session's barriers of PMI-1.2.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// Whether the client asked for subversion 2.
    pub(super) has_groups: bool,
    /// Entries of a client that is in a barrier of the same group.
    later: VecDeque<BarrierGroup>,
}

impl Session {
    /// Handles the client's entry into a barrier.
    pub(super) fn arrive(&mut self, group: Option<&[u8]>) {
        let Facts { rank, size, .. } = self.facts;
        let group = match group {
            None => Ok(BarrierGroup::WORLD),
            Some(text) if self.barriers.has_groups => BarrierGroup::parse(text, rank, size),
            Some(text) => Err(ProtocolError::BadGroup { group: excerpt(text) }),
        };
        match group {
            Err(error) => self.refuse_command(error),
            Ok(_) if self.open.len() + self.barriers.later.len() >= MAX_BARRIERS => {
                self.refuse_command(ProtocolError::TooManyOpen { command: "barrier_in" });
            }
            Ok(group) if self.is_in_barrier_of(&group) => self.barriers.later.push_back(group),
            Ok(group) => self.enter_barrier(group),
        }
    }

    /// Enters waiting barriers, if the client has left the earlier ones of the same group.
    pub(super) fn enter_put_off(&mut self) {
        for _ in 0..self.barriers.later.len() {
            if let Some(group) = self.barriers.later.pop_front() {
                if self.is_in_barrier_of(&group) {
                    self.barriers.later.push_back(group);
                } else {
                    self.enter_barrier(group);
                }
            }
        }
    }

    fn enter_barrier(&mut self, group: BarrierGroup) {
        let (wanted, operation) = if group == BarrierGroup::WORLD {
            (Pending::Fence, Operation::Fence)
        } else {
            (Pending::GroupFence(group.clone()), Operation::GroupFence { group })
        };
        self.ask(None, wanted, operation);
    }

    fn is_in_barrier_of(&self, group: &BarrierGroup) -> bool {
        let is_of_world = *group == BarrierGroup::WORLD;
        self.open.values().any(|open| {
            matches!(&open.wanted, Pending::GroupFence(other) if other == group)
                || (is_of_world && matches!(open.wanted, Pending::Fence))
        })
    }

    /// Whether the next command of PMI-1 has to wait for an answer.
    pub(super) fn awaits_answer(&self) -> bool {
        let passes = |wanted: &Pending| {
            self.barriers.has_groups && matches!(wanted, Pending::Fence | Pending::GroupFence(_))
        };
        !self.open.values().all(|open| passes(&open.wanted))
    }
}
