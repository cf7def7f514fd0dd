//! Attempts to reach a daemon at one of its addresses. The addresses are tried in order, with staggered starts. The
//! first connection that proves itself wins. Pure: [`super::Net`] connects.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mpd_channel::{Instance, Purpose};
use mpd_ring::DialFailure;
use mpd_sansio::{Stagger, Time};
use mpd_wire::DaemonName;

/// An attempt, numbered by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptId(pub(crate) u64);

/// An attempt that succeeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialed {
    pub(crate) attempt: AttemptId,
    /// The address that answered.
    pub(crate) address: SocketAddr,
    /// When its connection came up.
    pub(crate) connected: Time,
}

/// The daemon to reach, and its addresses.
#[derive(Debug)]
pub(crate) struct DialRequest {
    /// The daemon that must answer; any daemon of the ring if `None`.
    pub(crate) name: Option<DaemonName>,
    /// The instance that must answer; any instance if `None`.
    pub(crate) instance: Option<mpd_wire::Instance>,
    /// In order of preference.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) purpose: mpd_ring::Purpose,
}

#[derive(Debug)]
struct Attempt {
    name: Option<DaemonName>,
    peer: Option<Instance>,
    /// Whether the attempt tests that the address leads to this daemon.
    mirror: bool,
    purpose: Purpose,
    addresses: Stagger<SocketAddr>,
    /// The result of the last failed address; the text is for people.
    failed: (DialFailure, String),
}

/// The next address of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialStep {
    pub(super) attempt: AttemptId,
    pub(super) address: SocketAddr,
    pub(super) purpose: Purpose,
    /// The instance that the first message names.
    pub(super) peer: Option<Instance>,
    /// Whether the attempt tests that the address leads to this daemon.
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

    /// The daemon that must answer an attempt.
    pub(super) fn wanted(&self, id: AttemptId) -> Option<&DaemonName> {
        self.table.get(&id).and_then(|attempt| attempt.name.as_ref())
    }

    /// All attempts.
    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.table.keys().copied().collect()
    }

    /// Begins an attempt. Our own addresses are left out.
    pub(super) fn begin(
        &mut self,
        now: Time,
        id: AttemptId,
        request: DialRequest,
        is_own: impl Fn(SocketAddr) -> bool,
    ) {
        let DialRequest { name, instance, addresses, purpose } = request;
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
            (DialFailure::Refused, "it has no usable address".to_owned())
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
    pub(super) fn next_due(&mut self, now: Time, id: AttemptId) -> Option<DialStep> {
        let attempt = self.table.get_mut(&id)?;
        let address = attempt.addresses.next_due(now)?;
        let Attempt { purpose, peer, mirror, .. } = *attempt;
        Some(DialStep { attempt: id, address, purpose, peer, mirror })
    }

    /// Ends an attempt: it has succeeded or is given up.
    pub(super) fn end(&mut self, id: AttemptId) {
        self.table.remove(&id);
    }

    /// Notes that a connection of this attempt has reached this daemon.
    pub(super) fn reached_ourselves(&mut self, id: AttemptId) {
        if let Some(attempt) = self.table.get_mut(&id) {
            attempt.failed = ourselves();
        }
    }

    /// Notes that a connection of this attempt has failed.
    pub(super) fn attempt_failed(
        &mut self,
        id: AttemptId,
        address: SocketAddr,
        why: DialFailure,
        problem: &str,
    ) {
        let Some(attempt) = self.table.get_mut(&id) else { return };
        attempt.addresses.missed();
        log::debug!("{address}: {problem}");
        // A failure that concerns this host explains more than the failure of the last address.
        let concerns_us = matches!(attempt.failed.0, DialFailure::Myself | DialFailure::NoMeans);
        if !concerns_us || !attempt.addresses.is_over() {
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

/// The failure of an attempt that reaches this daemon itself.
fn ourselves() -> (DialFailure, String) {
    (DialFailure::Myself, "that address leads to this daemon itself".to_owned())
}
