//! The fence of a world: nobody leaves before everybody who lives has entered.
//!
//! The root keeps one for the whole job. Every other manager keeps one for the ranks at its place and
//! below, in a [`Reduce`]: so a fence that all ranks enter costs one message per manager.

use crate::manager::FENCE_HOLD;
use mpd_machine::Time;
use mpd_wire::{Rank, RankSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Inside,
    Gone,
}

/// Where each rank is.
#[derive(Debug)]
pub(super) struct Fence {
    /// The lowest rank.
    low: u32,
    /// From the lowest rank on; those that take no part stay outside.
    places: Vec<Place>,
    taking_part: u32,
    inside: u32,
    gone: u32,
    first_gone: Option<Rank>,
}

impl Fence {
    /// A fence for `ranks`: only they may enter and leave.
    pub(super) fn of(ranks: &RankSet) -> Self {
        let low = ranks.ranges().first().map_or(0, |&(low, _)| low);
        let many = ranks.greatest().map_or(0, |rank| rank.0 - low + 1);
        Self {
            low,
            places: vec![Place::Outside; many as usize],
            taking_part: ranks.count(),
            inside: 0,
            gone: 0,
            first_gone: None,
        }
    }

    /// `rank` waits inside. Says whether that is new.
    pub(super) fn enter(&mut self, rank: Rank) -> bool {
        match self.place_of(rank) {
            Some(place @ Place::Outside) => {
                *place = Place::Inside;
                self.inside += 1;
                true
            }
            Some(Place::Inside | Place::Gone) | None => false,
        }
    }

    /// `rank` ended.
    pub(super) fn leave(&mut self, rank: Rank) {
        let Some(place) = self.place_of(rank) else { return };
        match std::mem::replace(place, Place::Gone) {
            Place::Inside => self.inside -= 1,
            Place::Outside => {}
            Place::Gone => return,
        }
        self.gone += 1;
        self.first_gone = Some(self.first_gone.map_or(rank, |first| first.min(rank)));
    }

    fn place_of(&mut self, rank: Rank) -> Option<&mut Place> {
        self.places.get_mut(rank.0.checked_sub(self.low)? as usize)
    }

    /// The first rank that ended while others wait for it.
    pub(super) fn deserter(&self) -> Option<Rank> {
        self.first_gone.filter(|_| self.inside > 0)
    }

    /// Whether somebody is inside and everybody who has not ended is.
    pub(super) const fn is_complete(&self) -> bool {
        self.inside > 0 && self.inside + self.gone == self.taking_part
    }

    /// Everybody goes outside.
    pub(super) fn release(&mut self) {
        self.inside = 0;
        for place in self.places.iter_mut().filter(|place| **place == Place::Inside) {
            *place = Place::Outside;
        }
    }
}

/// Entries on their way up. They go when nobody below is missing any more, or else [`FENCE_HOLD`] after
/// the first; from then on at the end of each turn.
#[derive(Debug)]
pub(super) struct Reduce {
    fence: Fence,
    unsent: RankSet,
    hold: Option<Time>,
    open: bool,
}

impl Reduce {
    /// For the ranks at one place and below.
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
        self.fence.leave(rank);
    }

    /// What goes up at the end of this turn.
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

    /// When [`Reduce::handle_timeout`] is due.
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
