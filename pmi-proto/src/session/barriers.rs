//! Barriers of PMI-1: of the world, and with subversion 2 of groups, several at once.
//!
//! A client of PMI-1.2 has threads: while some wait in barriers, others ask and are answered. A second
//! entry into a group's barrier is the first one into its next barrier, and waits here for the end of
//! this one: the manager sees each rank at most once in each group.

use std::collections::VecDeque;

use super::operation::Operation;
use super::{Facts, Session, Wanted};
use crate::error::{ProtocolError, excerpt};
use crate::limits::MAX_BARRIERS;
use crate::pmi1::group::BarrierGroup;

/// What the session keeps for the barriers of PMI-1.2.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// The client asked for subversion 2.
    pub(super) has_groups: bool,
    /// Entered while in the same group's barrier.
    later: VecDeque<BarrierGroup>,
}

impl Session {
    /// The client arrived at a barrier.
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

    /// Enters barriers that were put off, as far as the client is out of those before.
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
            (Wanted::Fence, Operation::Fence)
        } else {
            (Wanted::GroupFence(group.clone()), Operation::GroupFence { group })
        };
        self.ask(None, wanted, operation);
    }

    fn is_in_barrier_of(&self, group: &BarrierGroup) -> bool {
        let is_of_world = *group == BarrierGroup::WORLD;
        self.open.values().any(|open| {
            matches!(&open.wanted, Wanted::GroupFence(other) if other == group)
                || (is_of_world && matches!(open.wanted, Wanted::Fence))
        })
    }

    /// Whether the next command of PMI-1 has to wait for an answer.
    pub(super) fn awaits_answer(&self) -> bool {
        let passes = |wanted: &Wanted| {
            self.barriers.has_groups && matches!(wanted, Wanted::Fence | Wanted::GroupFence(_))
        };
        !self.open.values().all(|open| passes(&open.wanted))
    }
}
