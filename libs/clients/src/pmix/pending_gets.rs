//! Requests for data that ranks committed.

use std::collections::{BTreeSet, VecDeque};

use mpd_wire::message::Gathering;
use mpd_wire::{JobId, Rank};

use super::waiter::Waiter;
use mpd_job::manager::LinkEnd;

/// A request for data that a rank committed, or put by PMI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingGet {
    pub(super) requester: Requester,
    /// The first rank of the world.
    pub(crate) first: Rank,
    /// `None`: all ranks of the world.
    pub(super) rank: Option<Rank>,
    pub(crate) key: Vec<u8>,
    /// It is answered at once, also without data.
    pub(super) is_immediate: bool,
    /// The number of its deadline. The request of another host or job gets one when its wait begins. A client's request has
    /// the deadline of its answer.
    pub(super) number: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A client here.
    Client(Waiter),
    /// The manager at this tree index.
    Host(u32),
    /// The root manager of another job.
    Job(JobId),
}

/// Requests that wait for data, and messages that are incomplete.
#[derive(Debug, Default)]
pub(super) struct Gets {
    pub(super) waiting: Vec<PendingGet>,
    /// How many deadlines of other hosts and jobs were numbered.
    pub(super) numbered: u64,
    /// Requests without an answer that wait for a look into the key-value space of PMI.
    pub(super) unsettled: VecDeque<PendingGet>,
    /// Ranks and keys that were requested from other hosts.
    pub(super) asked: BTreeSet<(Rank, Vec<u8>)>,
    /// By the link.
    pub(super) shared: Gathering<LinkEnd>,
    /// By the tree index of the sender.
    pub(super) routed: Gathering<u32>,
}

impl Gets {
    /// Forgets the requests of clients that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        let stays = |pending_get: &PendingGet| match &pending_get.requester {
            Requester::Client(waiter) => !matches(waiter),
            Requester::Host(_) | Requester::Job(_) => true,
        };
        self.waiting.retain(stays);
        self.unsettled.retain(stays);
    }

    /// Forgets the requests of another job.
    pub(super) fn forget_job(&mut self, job: &JobId) {
        let is_its = |get: &PendingGet| matches!(&get.requester, Requester::Job(of) if of == job);
        self.waiting.retain(|pending_get| !is_its(pending_get));
        self.unsettled.retain(|pending_get| !is_its(pending_get));
    }
}
