//! Attempts to reach a daemon at one of its addresses: one after the other, staggered, the first that
//! proves itself wins. Pure: [`super::Net`] connects.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mpd_channel::{Instance, Purpose};
use mpd_machine::{Stagger, Time};
use mpd_ring::DialFailure;
use mpd_wire::DaemonName;

/// An attempt, numbered by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptId(pub(crate) u64);

/// An attempt that succeeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialed {
    pub(crate) attempt: AttemptId,
    /// Who answered.
    pub(crate) address: SocketAddr,
    /// When its connection came up.
    pub(crate) connected: Time,
}

/// Whom to reach, and where.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Who is to answer; anybody of the ring if none.
    pub(crate) name: Option<DaemonName>,
    /// Which life of it, if no other will do.
    pub(crate) instance: Option<mpd_wire::Instance>,
    /// In order of preference.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) purpose: mpd_ring::Purpose,
}

#[derive(Debug)]
struct Attempt {
    name: Option<DaemonName>,
    peer: Option<Instance>,
    /// Made to learn whether it comes back here.
    mirror: bool,
    purpose: Purpose,
    addresses: Stagger<SocketAddr>,
    /// What became of the others; in words, too.
    failed: (DialFailure, String),
}

/// One address of an attempt to connect to now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) attempt: AttemptId,
    pub(super) address: SocketAddr,
    pub(super) purpose: Purpose,
    /// Whom the first message names.
    pub(super) peer: Option<Instance>,
    /// Made to learn whether it comes back here.
    pub(super) mirror: bool,
}

/// The attempts under way.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    table: BTreeMap<AttemptId, Attempt>,
}

impl Attempts {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.table.values().filter_map(|a| a.addresses.poll_timeout()).min()
    }

    /// Whether that attempt is one of [`super::Net::mirror`].
    pub(super) fn mirrors(&self, id: Option<AttemptId>) -> bool {
        id.and_then(|id| self.table.get(&id)).is_some_and(|attempt| attempt.mirror)
    }

    /// Who is to answer an attempt.
    pub(super) fn wanted(&self, id: AttemptId) -> Option<&DaemonName> {
        self.table.get(&id).and_then(|attempt| attempt.name.as_ref())
    }

    /// All of them.
    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.table.keys().copied().collect()
    }

    /// Begins an attempt. Addresses that are our own are left out.
    pub(super) fn begin(
        &mut self,
        now: Time,
        id: AttemptId,
        wish: Wish,
        is_own: impl Fn(SocketAddr) -> bool,
    ) {
        let Wish { name, instance, addresses, purpose } = wish;
        let peer = instance.and_then(|instance| Instance::from_bytes(instance.to_bytes()));
        let purpose = match purpose {
            mpd_ring::Purpose::Ring => Purpose::Ring,
            mpd_ring::Purpose::Join => Purpose::Join,
            mpd_ring::Purpose::Probe => Purpose::Probe,
            mpd_ring::Purpose::Chord => Purpose::Chord,
        };
        let (own, addresses): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(|address| is_own(*address));
        let failed = if own.is_empty() {
            (DialFailure::Refused, "no address that can be connected to".to_owned())
        } else {
            ourselves()
        };
        let addresses = Stagger::new(now, addresses);
        let attempt = Attempt { name, peer, mirror: false, purpose, addresses, failed };
        self.table.insert(id, attempt);
    }

    /// Begins an attempt to reach `myself` at an address.
    pub(super) fn begin_mirror(
        &mut self,
        now: Time,
        id: AttemptId,
        myself: Instance,
        address: SocketAddr,
    ) {
        let attempt = Attempt {
            name: None,
            peer: Some(myself),
            mirror: true,
            purpose: Purpose::Probe,
            addresses: Stagger::new(now, vec![address]),
            failed: (DialFailure::Refused, "it does not lead here".to_owned()),
        };
        self.table.insert(id, attempt);
    }

    /// The next address of an attempt that is due.
    pub(super) fn next_due(&mut self, now: Time, id: AttemptId) -> Option<Call> {
        let attempt = self.table.get_mut(&id)?;
        let address = attempt.addresses.next_due(now)?;
        let Attempt { purpose, peer, mirror, .. } = *attempt;
        Some(Call { attempt: id, address, purpose, peer, mirror })
    }

    /// Ends an attempt: it succeeded or is given up.
    pub(super) fn end(&mut self, id: AttemptId) {
        self.table.remove(&id);
    }

    /// A connection of this attempt came back here.
    pub(super) fn reached_ourselves(&mut self, id: AttemptId) {
        if let Some(attempt) = self.table.get_mut(&id) {
            attempt.failed = ourselves();
        }
    }

    /// A connection of this attempt came to nothing.
    pub(super) fn missed(
        &mut self,
        id: AttemptId,
        address: SocketAddr,
        why: DialFailure,
        problem: &str,
    ) {
        let Some(attempt) = self.table.get_mut(&id) else { return };
        attempt.addresses.missed();
        log::debug!("{address}: {problem}");
        // What says something of us says more than how that ended.
        let of_us = matches!(attempt.failed.0, DialFailure::Myself | DialFailure::NoMeans);
        if !of_us || !attempt.addresses.is_over() {
            attempt.failed = (why, format!("{address}: {problem}"));
        }
    }

    /// Ends an attempt that has no address left; returns the failure, also as text.
    pub(super) fn end_if_over(&mut self, id: AttemptId) -> Option<(DialFailure, String)> {
        if !self.table.get(&id)?.addresses.is_over() {
            return None;
        }
        self.table.remove(&id).map(|attempt| attempt.failed)
    }
}

/// What becomes of an attempt to reach ourselves.
fn ourselves() -> (DialFailure, String) {
    (DialFailure::Myself, "that is this daemon".to_owned())
}
