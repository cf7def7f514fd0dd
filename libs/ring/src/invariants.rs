//! Conditions between the parts of a [`Ring`] that hold after every public call. Checked in debug
//! builds only.

use crate::config::{
    MAX_CANDIDATES, MAX_CHORD_GUESTS, MAX_GUESTS, MAX_PROBES, MAX_PROOFS, MAX_RING_GUESTS,
};
use crate::links::{Link, Purpose};
use crate::{Phase, Ring};
use mpd_wire::{MAX_MEMBERS, Standing};

/// Lists longer than this are not checked at every step.
const RECOMPUTED: usize = 32;

impl Ring {
    pub(super) fn check_invariants(&self) {
        let own = self.list.get(&self.config.name);
        match self.phase {
            Phase::Over => {
                assert!(self.links.len() == 0 && self.dials.len() == 0, "links after the end");
                assert!(self.timers.next().is_none(), "timers after the end");
                assert_eq!(self.pending(), 0, "requests after the end");
            }
            Phase::Waiting(_) | Phase::Entering(_) | Phase::Member => {
                assert!(self.timers.next().is_some(), "nothing would ever happen again");
                assert!(
                    own.is_none_or(|own| own.standing == Standing::Live),
                    "the owner believes that it is dead"
                );
            }
        }
        assert!(own.is_none() || !self.is_waiting(), "a place before the introduction");
        assert!(own.is_none_or(|own| own.instance == self.config.instance));
        assert!(self.list.len() <= RECOMPUTED || self.list.len() <= MAX_MEMBERS);
        assert!(self.list.len() > RECOMPUTED || self.list.is_consistent(), "list and digest");
        assert!(self.untold.is_empty(), "untold changes");
        let rhs = self.reknit.rhs.map(|id| self.links.get(id));
        assert!(rhs.is_none_or(|link| link.is_some_and(|link| link.is_own(Purpose::Ring))));
        assert!(self.names.untold.is_empty() && !self.names.unreviewed, "names left over");
        assert!(self.list.len() > RECOMPUTED || self.names.is_consistent(&self.list), "names");
        self.check_bounds();
    }

    fn check_bounds(&self) {
        let count = |wanted: &dyn Fn(&Link) -> bool| {
            self.links.iter().filter(|(_, link)| wanted(link)).count()
        };
        let guests = |purpose| count(&|link| !link.own && link.purpose == purpose);
        assert!(guests(Purpose::Ring) <= MAX_RING_GUESTS, "accepted ring links");
        assert!(guests(Purpose::Chord) <= MAX_CHORD_GUESTS, "accepted chords");
        assert!(guests(Purpose::Join) <= MAX_GUESTS, "accepted entries");
        assert!(guests(Purpose::Probe) <= MAX_GUESTS, "accepted probes");
        let chords = 2 * MAX_CHORD_GUESTS;
        assert!(
            self.dials.len() <= 2 * MAX_CANDIDATES + MAX_PROBES + MAX_PROOFS + chords,
            "attempts"
        );
        assert!(self.reknit.waiting() <= MAX_CANDIDATES, "candidates");
        assert!(self.owner.accusations() <= 64, "accusations");
        assert!(self.scatters.is_bounded() && self.laps.is_bounded(), "requests");
    }
}
