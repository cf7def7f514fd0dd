//! The fence of a world: no rank leaves it before every living rank has entered it.
//!
//! The root has one fence for the whole job. Every other manager has a [`Reduce`] for the ranks of its subtree. So a
//! fence that all ranks enter costs one message per manager.

use crate::manager::FENCE_HOLD;
use mpd_sansio::Time;
use mpd_wire::{Rank, RankSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankState {
    Outside,
    Inside,
    Gone,
}

/// The position of each rank: outside, inside, or ended.
#[derive(Debug)]
pub(super) struct Fence {
    /// The lowest rank.
    low: u32,
    /// From the lowest rank on. Ranks that take no part stay outside.
    states: Vec<RankState>,
    taking_part: u32,
    inside: u32,
    gone: u32,
    /// The lowest rank that ended and may not leave the others.
    first_gone: Option<Rank>,
}

/// Whether a rank may end while others wait in the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It deserts them.
    Desertion,
    /// A user has retired it.
    Permitted,
}

impl Fence {
    /// A fence for `ranks`: only they may enter and leave.
    pub(super) fn of(ranks: &RankSet) -> Self {
        let low = ranks.ranges().first().map_or(0, |&(low, _)| low);
        let many = ranks.greatest().map_or(0, |rank| rank.0 - low + 1);
        Self {
            low,
            states: vec![RankState::Outside; many as usize],
            taking_part: ranks.count(),
            inside: 0,
            gone: 0,
            first_gone: None,
        }
    }

    /// `rank` waits in the fence. Returns whether that is new.
    pub(super) fn enter(&mut self, rank: Rank) -> bool {
        match self.state_of(rank) {
            Some(state @ RankState::Outside) => {
                *state = RankState::Inside;
                self.inside += 1;
                true
            }
            Some(RankState::Inside | RankState::Gone) | None => false,
        }
    }

    /// `rank` ended.
    pub(super) fn leave(&mut self, rank: Rank, leave: Leave) {
        let Some(state) = self.state_of(rank) else { return };
        match std::mem::replace(state, RankState::Gone) {
            RankState::Inside => self.inside -= 1,
            RankState::Outside => {}
            RankState::Gone => return,
        }
        self.gone += 1;
        if leave == Leave::Desertion {
            self.first_gone = Some(self.first_gone.map_or(rank, |first| first.min(rank)));
        }
    }

    fn state_of(&mut self, rank: Rank) -> Option<&mut RankState> {
        self.states.get_mut(rank.0.checked_sub(self.low)? as usize)
    }

    /// The first rank that ended, if other ranks wait in the fence.
    pub(super) fn deserter(&self) -> Option<Rank> {
        self.first_gone.filter(|_| self.inside > 0)
    }

    /// The ranks that wait in the fence.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Rank> {
        let states = (self.low..).zip(&self.states);
        states.filter(|(_, state)| **state == RankState::Inside).map(|(rank, _)| Rank(rank))
    }

    /// Whether at least one rank waits in the fence, and so do all others that have not ended.
    pub(super) const fn is_complete(&self) -> bool {
        self.inside > 0 && self.inside + self.gone == self.taking_part
    }

    /// Lets all ranks out.
    pub(super) fn release(&mut self) {
        self.inside = 0;
        for state in self.states.iter_mut().filter(|state| **state == RankState::Inside) {
            *state = RankState::Outside;
        }
    }
}

/// Entries on their way up. They are sent when all ranks of the subtree have entered, or else [`FENCE_HOLD`] after the
/// first entry. After that they are sent at the end of each turn.
#[derive(Debug)]
pub(super) struct Reduce {
    fence: Fence,
    unsent: RankSet,
    hold: Option<Time>,
    open: bool,
}

impl Reduce {
    /// The collection for the ranks of one subtree.
    pub(super) fn of(ranks: &RankSet) -> Self {
        Self { fence: Fence::of(ranks), unsent: RankSet::none(), hold: None, open: false }
    }

    pub(super) fn enter(&mut self, now: Time, ranks: &RankSet) {
        for rank in ranks.ranks() {
            if self.fence.enter(rank) {
                self.unsent.insert(rank);
            }
        }
        if !self.unsent.is_empty() && !self.open && self.hold.is_none() {
            self.hold = Some(now + FENCE_HOLD);
        }
    }

    pub(super) fn leave(&mut self, rank: Rank) {
        self.fence.leave(rank, Leave::Desertion);
    }

    /// The entries to send at the end of this turn.
    pub(super) fn take_due(&mut self) -> RankSet {
        if !self.open && !self.fence.is_complete() {
            return RankSet::none();
        }
        self.hold = None;
        std::mem::take(&mut self.unsent)
    }

    pub(super) fn release(&mut self) {
        self.fence.release();
        self.unsent = RankSet::none();
        self.hold = None;
        self.open = false;
    }

    /// The time at which [`Reduce::handle_timeout`] is due.
    pub(super) const fn poll_timeout(&self) -> Option<Time> {
        self.hold
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.hold.is_some_and(|at| at <= now) {
            self.hold = None;
            self.open = true;
        }
    }
}
