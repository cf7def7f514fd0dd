//! Questions that a daemon can ask its ring.

use crate::links::{LinkId, Purpose};
use crate::{Phase, Ring};
use mpd_wire::{DaemonName, Record};

impl Ring {
    pub const fn name(&self) -> &DaemonName {
        &self.config.name
    }

    /// Every record, by name.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.list.iter().map(|record| &**record)
    }

    /// The record of `name`.
    pub fn record(&self, name: &DaemonName) -> Option<&Record> {
        self.list.get(name).map(|record| &**record)
    }

    /// The live members in the order of the ring, this daemon first. Empty until this daemon has a
    /// place.
    pub fn members(&self) -> Vec<DaemonName> {
        let Some(me) = self.seat() else { return Vec::new() };
        let others = self.list.round(&me).map(|record| record.name.clone());
        std::iter::once(me.name.clone()).chain(others).collect()
    }

    /// The number of live members.
    pub fn live_count(&self) -> usize {
        self.list.live_count()
    }

    /// The neighbour to which this daemon sends, if the link to it is up.
    pub fn rhs(&self) -> Option<(LinkId, &DaemonName)> {
        let id = self.reknit.rhs?;
        self.links.get(id).map(|link| (id, &link.peer.name))
    }

    /// The neighbour from which this daemon receives, if it has linked.
    pub fn lhs(&self) -> Option<(LinkId, &DaemonName)> {
        let lhs = &self.list.before(&self.seat()?)?.name;
        self.links.guest(Purpose::Ring, lhs).map(|(id, link)| (id, &link.peer.name))
    }

    /// Whether a neighbour has been silent for so long that it gets no new work.
    pub fn is_suspect(&self, name: &DaemonName) -> bool {
        self.links.iter().any(|(_, link)| link.suspected && link.proved && link.peer.name == *name)
    }

    /// The number of links and attempts to connect, for the bound on descriptors.
    pub fn descriptors(&self) -> usize {
        self.links.len() + self.dials.len()
    }

    /// The number of live chords that this daemon opened.
    pub fn chords(&self) -> usize {
        self.links.iter().filter(|(_, link)| link.is_own(Purpose::Chord)).count()
    }

    /// The number of operations in progress here: requests of this daemon's consoles, shares of
    /// other daemons' scatters, laps that wait.
    pub fn pending(&self) -> usize {
        self.scatters.len() + self.laps.len()
    }

    /// Grows with every change of the list.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether this daemon left or stepped down.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }
}
