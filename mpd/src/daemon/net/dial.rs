//! Attempts to reach a daemon at one of its addresses: one after the other, staggered, the first that
//! proves itself wins.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mio::Registry;
use mpd_channel::handshake::{Opening, PATIENCE};
use mpd_channel::{Instance, Purpose};
use mpd_io::link::Link;
use mpd_io::random;
use mpd_machine::{Stagger, Time};
use mpd_ring::DialFailure;
use mpd_wire::DaemonName;

use crate::daemon::net::{Line, Net, failure};

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

/// Whom the first message of an attempt names.
#[derive(Clone, Copy)]
struct Called {
    peer: Option<Instance>,
    mirror: bool,
}

#[derive(Debug, Default)]
pub(super) struct Attempts {
    table: BTreeMap<AttemptId, Attempt>,
}

impl Attempts {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.table.values().filter_map(|a| a.addresses.poll_timeout()).min()
    }

    /// Whether that attempt is one of [`Net::mirror`].
    pub(super) fn mirrors(&self, id: Option<AttemptId>) -> bool {
        id.and_then(|id| self.table.get(&id)).is_some_and(|attempt| attempt.mirror)
    }

    /// Who is to answer an attempt.
    pub(super) fn wanted(&self, id: AttemptId) -> Option<&DaemonName> {
        self.table.get(&id).and_then(|attempt| attempt.name.as_ref())
    }
}

impl Net {
    /// Begins an attempt.
    pub(crate) fn dial(&mut self, registry: &Registry, now: Time, id: AttemptId, wish: Wish) {
        let Wish { name, instance, addresses, purpose } = wish;
        let peer = instance.and_then(|instance| Instance::from_bytes(instance.to_bytes()));
        let purpose = match purpose {
            mpd_ring::Purpose::Ring => Purpose::Ring,
            mpd_ring::Purpose::Join => Purpose::Join,
            mpd_ring::Purpose::Probe => Purpose::Probe,
            mpd_ring::Purpose::Chord => Purpose::Chord,
        };
        let (own, addresses): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(|address| self.port.is_own(*address));
        let failed = if own.is_empty() {
            (DialFailure::Refused, "no address that can be connected to".to_owned())
        } else {
            ourselves()
        };
        let addresses = Stagger::new(now, addresses);
        let attempt = Attempt { name, peer, mirror: false, purpose, addresses, failed };
        self.attempts.table.insert(id, attempt);
        self.dial_next(registry, now, id);
    }

    /// Begins an attempt that succeeds, with [`super::Happened::Mirrored`], if this very process answers.
    pub(crate) fn mirror(
        &mut self,
        registry: &Registry,
        now: Time,
        id: AttemptId,
        address: SocketAddr,
    ) {
        let attempt = Attempt {
            name: None,
            peer: Some(self.myself.instance),
            mirror: true,
            purpose: Purpose::Probe,
            addresses: Stagger::new(now, vec![address]),
            failed: (DialFailure::Refused, "it does not lead here".to_owned()),
        };
        self.attempts.table.insert(id, attempt);
        self.dial_next(registry, now, id);
    }

    /// An attempt of [`Net::mirror`] succeeded.
    pub(super) fn mirrored(&mut self, token: usize) {
        let Some(id) = self.lines.remove(&token).and_then(|line| line.attempt) else { return };
        self.attempts.table.remove(&id);
        self.drop_others(id, None);
        self.happened.push_back(super::Happened::Mirrored(id));
    }

    /// Whether the connection from `remote` is one of our own attempts; it is one to ourselves then.
    pub(super) fn note_own(&mut self, remote: SocketAddr) -> bool {
        let same = |end: SocketAddr| {
            end.port() == remote.port() && end.ip().to_canonical() == remote.ip().to_canonical()
        };
        let ours = |line: &Line| line.attempt.filter(|_| line.link.local().is_some_and(same));
        let found = self.lines.values().find_map(ours);
        if let Some(attempt) = found.and_then(|id| self.attempts.table.get_mut(&id)) {
            attempt.failed = ourselves();
        }
        found.is_some()
    }

    /// Gives an attempt up.
    pub(crate) fn abandon(&mut self, id: AttemptId) {
        self.attempts.table.remove(&id);
        self.drop_others(id, None);
    }

    pub(super) fn dial_due(&mut self, registry: &Registry, now: Time) {
        for id in self.attempts.table.keys().copied().collect::<Vec<_>>() {
            self.dial_next(registry, now, id);
        }
    }

    /// Connects to the addresses that are due: the next one that does not fail at once.
    fn dial_next(&mut self, registry: &Registry, now: Time, id: AttemptId) {
        while let Some(attempt) = self.attempts.table.get_mut(&id) {
            let Some(address) = attempt.addresses.next_due(now) else { break };
            let called = Called { peer: attempt.peer, mirror: attempt.mirror };
            let purpose = attempt.purpose;
            if let Err((why, problem)) = self.connect(registry, now, id, address, purpose, called) {
                self.missed(id, address, why, problem);
            }
        }
        self.give_up_if_over(id);
    }

    fn connect(
        &mut self,
        registry: &Registry,
        now: Time,
        id: AttemptId,
        address: SocketAddr,
        purpose: Purpose,
        called: Called,
    ) -> Result<(), (DialFailure, String)> {
        let helpless = |e: std::io::Error| (DialFailure::NoMeans, e.to_string());
        // No daemon answers a hello of its own instance.
        let me = if called.mirror {
            Instance::from_bytes(random::bytes().map_err(helpless)?).unwrap_or(self.myself.instance)
        } else {
            self.myself.instance
        };
        let opening = Opening {
            key: self.myself.keys.connect().clone(),
            me,
            peer: called.peer,
            purpose,
            nonce: random::bytes().map_err(helpless)?,
            deadline: now + PATIENCE,
        };
        let from = self.port.source();
        let link = Link::dial(address, from, opening).map_err(|e| (failure(&e), e.to_string()))?;
        let line = Line::new(link, Some(id), now, address.ip().to_canonical());
        self.insert(registry, line).map_err(helpless)
    }

    /// The link `token` of this attempt is up: the others go.
    pub(super) fn won(
        &mut self,
        id: AttemptId,
        token: usize,
        address: SocketAddr,
        connected: Time,
    ) -> Dialed {
        self.attempts.table.remove(&id);
        self.drop_others(id, Some(token));
        Dialed { attempt: id, address, connected }
    }

    fn drop_others(&mut self, id: AttemptId, winner: Option<usize>) {
        self.lines.retain(|token, line| line.attempt != Some(id) || Some(*token) == winner);
    }

    /// A connection of this attempt came to nothing.
    pub(super) fn missed(
        &mut self,
        id: AttemptId,
        address: SocketAddr,
        why: DialFailure,
        problem: String,
    ) {
        if let Some(attempt) = self.attempts.table.get_mut(&id) {
            attempt.addresses.missed();
        }
        self.note(id, address, why, &problem);
        self.give_up_if_over(id);
    }

    fn note(&mut self, id: AttemptId, address: SocketAddr, why: DialFailure, problem: &str) {
        if let Some(attempt) = self.attempts.table.get_mut(&id) {
            log::debug!("{address}: {problem}");
            // What says something of us says more than how that ended.
            let of_us = matches!(attempt.failed.0, DialFailure::Myself | DialFailure::NoMeans);
            if !of_us || !attempt.addresses.is_over() {
                attempt.failed = (why, format!("{address}: {problem}"));
            }
        }
    }

    fn give_up_if_over(&mut self, id: AttemptId) {
        let over = |a: &Attempt| a.addresses.is_over();
        if self.attempts.table.get(&id).is_some_and(over)
            && let Some(attempt) = self.attempts.table.remove(&id)
        {
            self.drop_others(id, None);
            let (why, problem) = attempt.failed;
            self.happened.push_back(super::Happened::Failed(id, why, problem));
        }
    }
}

/// What becomes of an attempt to reach ourselves.
fn ourselves() -> (DialFailure, String) {
    (DialFailure::Myself, "that is this daemon".to_owned())
}
