//! Links across the ring, to the members 2, 4, 8 … seats further on. They are opened when the list
//! has been unchanged for a while, so that no launch waits for a handshake. A failed chord leads to
//! no accusation.

use std::collections::BTreeSet;

use crate::Ring;
use crate::dial::Aim;
use crate::links::{Link, Purpose};
use mpd_machine::Time;
use mpd_wire::DaemonName;

impl Ring {
    pub(super) fn review_chords(&mut self, now: Time) {
        let quiet = now - self.list_changed >= self.config.timing.settle;
        if !quiet || self.rhs().is_none() {
            return;
        }
        let wanted = self.chord_ends();
        let stray = |link: &Link| link.is_own(Purpose::Chord) && !wanted.contains(&link.peer.name);
        for id in self.links.which(stray) {
            self.close(now, id);
        }
        for name in wanted {
            let fits = |link: &Link| link.is_own(Purpose::Chord) && link.peer.name == name;
            let there = self.links.iter().any(|(_, link)| fits(link));
            let aim = Aim::Chord(name.clone());
            if !there && !self.dials.any(|dialed| *dialed == aim) {
                let addresses = self.list.get(&name).map(|r| r.addresses.clone());
                self.dial(now, aim, addresses.unwrap_or_default());
            }
        }
    }

    /// The members 2, 4, 8 … seats further on.
    pub(super) fn chord_ends(&self) -> BTreeSet<DaemonName> {
        let Some(me) = self.seat() else { return BTreeSet::new() };
        let far = |place: usize| place >= 2 && place.is_power_of_two();
        let round = (1..).zip(self.list.round(&me));
        round.filter(|(place, _)| far(*place)).map(|(_, seat)| seat.name.clone()).collect()
    }

    /// Closes the chords of a dead or departed member. The answers that they owed are lost.
    pub(super) fn close_chords(&mut self, now: Time, name: &DaemonName) {
        let theirs = |link: &Link| link.purpose == Purpose::Chord && link.peer.name == *name;
        for id in self.links.which(theirs) {
            self.close(now, id);
        }
    }
}
