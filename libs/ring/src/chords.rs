//! Links across the ring, to the members 2, 4, 8 … seats further on. They are opened when the list
//! has been unchanged for a while, so that no launch waits for a handshake. A failed chord leads to
//! no accusation.

use std::collections::BTreeSet;

use crate::Ring;
use crate::dial::Aim;
use crate::links::{Link, Purpose};
use mpd_sansio::Time;
use mpd_wire::DaemonName;

/// The members to which chords lead.
#[derive(Debug, Default)]
pub(crate) struct Chords {
    ends: BTreeSet<DaemonName>,
    /// The revision of the list that they belong to.
    revision: Option<u64>,
}

impl Ring {
    pub(super) fn review_chords(&mut self, now: Time) {
        let quiet = now - self.list_changed >= self.config.timing.settle;
        if !quiet || self.rhs().is_none() {
            return;
        }
        // The way to the last chord leads past all members, so it is taken once for each list.
        if self.chords.revision != Some(self.revision) {
            self.chords = Chords { revision: Some(self.revision), ends: self.chord_ends() };
        }
        let wanted = self.chords.ends.clone();
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
    fn chord_ends(&self) -> BTreeSet<DaemonName> {
        let Some(me) = self.seat() else { return BTreeSet::new() };
        let far = |place: usize| place >= 2 && place.is_power_of_two();
        let round = (1..).zip(self.list.round(&me));
        round.filter(|(place, _)| far(*place)).map(|(_, record)| record.name.clone()).collect()
    }

    /// Closes the chords of a dead or departed member. The answers that they owed are lost.
    pub(super) fn close_chords(&mut self, now: Time, name: &DaemonName) {
        let theirs = |link: &Link| link.purpose == Purpose::Chord && link.peer.name == *name;
        for id in self.links.which(theirs) {
            self.close(now, id);
        }
    }
}
