//! The fence of a world: nobody leaves before everybody who lives has entered.

use crate::id::Rank;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Inside,
    Gone,
}

/// Where each rank is.
#[derive(Debug)]
pub(super) struct Fence {
    places: Vec<Place>,
    inside: u32,
    gone: u32,
}

impl Fence {
    pub(super) fn new(size: u32) -> Self {
        Self { places: vec![Place::Outside; size as usize], inside: 0, gone: 0 }
    }

    /// `rank` waits inside. A second entry before the release changes nothing.
    pub(super) fn enter(&mut self, rank: Rank) {
        let place = &mut self.places[rank.index()];
        if *place == Place::Outside {
            *place = Place::Inside;
            self.inside += 1;
        }
    }

    /// `rank` ended.
    pub(super) fn leave(&mut self, rank: Rank) {
        let place = &mut self.places[rank.index()];
        match *place {
            Place::Inside => self.inside -= 1,
            Place::Outside | Place::Gone => {}
        }
        if *place != Place::Gone {
            *place = Place::Gone;
            self.gone += 1;
        }
    }

    /// A rank that ended while others wait for it.
    pub(super) fn deserter(&self) -> Option<Rank> {
        if self.inside == 0 || self.gone == 0 {
            return None;
        }
        let at = self.places.iter().position(|&p| p == Place::Gone)?;
        u32::try_from(at).ok().map(Rank)
    }

    /// Empties the fence if every rank that has not ended is inside.
    pub(super) fn take_complete(&mut self) -> bool {
        let complete = self.inside > 0 && (self.inside + self.gone) as usize == self.places.len();
        if complete {
            self.inside = 0;
            for place in self.places.iter_mut().filter(|p| **p == Place::Inside) {
                *place = Place::Outside;
            }
        }
        complete
    }
}
