//! The ranks of this host that wait for others, and what they contribute to groups.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use mpd_wire::Rank;
use mpd_wire::message::FenceGroup;
use pmix_proto::Status;
use pmix_proto::view::{Pair, Proc};

use super::waiter::Waiter;

/// Most fences of groups that ranks of this host may wait in.
pub(super) const MAX_COLLECTIVES: usize = 16 * 1024;

/// What ranks wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Collective {
    /// The fence of the world with this first rank.
    World(Rank),
    /// The fence of a group.
    Group(FenceGroup),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Fence,
    Connect,
    Disconnect,
    Construct,
    Destruct,
}

/// An entry of a rank. The waiter is gone when it had another answer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) waiter: Option<Waiter>,
    pub(super) purpose: Purpose,
    pub(super) members: Rc<[Proc]>,
    /// The estimated memory of the request, with what it contributes to a group.
    pub(super) bytes: usize,
}

/// What a member contributes to a group, and its proposal for the group's number.
pub(super) type Contribution = (u64, Vec<Pair>);

/// The ranks of this host that wait for others.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    pub(super) waiting: BTreeMap<Collective, BTreeMap<Rank, VecDeque<Entry>>>,
    pub(super) contributions: BTreeMap<FenceGroup, BTreeMap<Rank, Contribution>>,
    /// The outcomes of meetings with other jobs, until the groups are released.
    pub(super) met: BTreeMap<FenceGroup, Status>,
    /// How many numbers of groups were proposed here.
    contexts: u32,
    /// The memory of entries whose waiters are gone.
    abandoned: BTreeMap<Rank, usize>,
}

impl Collectives {
    /// Forgets the waiters that match. Their ranks stay in the fence.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        for (rank, entries) in self.waiting.values_mut().flatten() {
            for entry in entries {
                if entry.waiter.take_if(|waiter| matches(waiter)).is_some() {
                    *self.abandoned.entry(*rank).or_default() += entry.bytes;
                }
            }
        }
    }

    /// Notes that an entry of a rank is gone.
    pub(super) fn left(&mut self, rank: Rank, entry: &Entry) {
        if let (None, Some(bytes)) = (entry.waiter, self.abandoned.get_mut(&rank)) {
            *bytes = bytes.saturating_sub(entry.bytes);
        }
    }

    /// The memory of a rank's entries without waiters.
    pub(super) fn abandoned(&self, rank: Rank) -> usize {
        self.abandoned.get(&rank).copied().unwrap_or(0)
    }

    /// Forgets a rank that has ended.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.abandoned.remove(&rank);
        self.waiting.retain(|_, ranks| {
            ranks.remove(&rank);
            !ranks.is_empty()
        });
    }

    /// Keeps the contribution of a member of a group.
    pub(super) fn contribute(&mut self, group: FenceGroup, rank: Rank, given: Contribution) {
        if self.contributions.len() < MAX_COLLECTIVES {
            self.contributions.entry(group).or_default().insert(rank, given);
        }
    }

    /// The next proposal of a rank for the number of a group. No other rank makes the same one.
    pub(super) fn propose(&mut self, rank: Rank) -> u64 {
        self.contexts = self.contexts.wrapping_add(1);
        u64::from(rank.0 + 1) << 32 | u64::from(self.contexts)
    }
}
