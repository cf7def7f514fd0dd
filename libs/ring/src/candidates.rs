//! The link to the rhs: how it is kept, lost, and made again (R3).
//!
//! The rhs is derived from the list. This daemon declares an unreachable rhs dead at its present
//! incarnation and takes the next one. After `c` failures in a row it tries 2^c candidates at once,
//! staggered. The old link is closed only when the new link is up. The link of the lhs is not
//! touched.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::MAX_CANDIDATES;
use crate::dial::Aim;
use crate::links::{Link, LinkId, Peer, Purpose};
use crate::{Event, Ring, Timer};
use mpd_sansio::Time;
use mpd_wire::{DaemonName, Record, Standing};

#[derive(Debug)]
pub(crate) struct Reknit {
    pub(crate) rhs: Option<LinkId>,
    /// Failures since the last success, including those of candidates.
    failures: u32,
    /// Candidates that were not tried yet.
    waiting: VecDeque<DaemonName>,
    /// The time since which a living rhs is recorded as dead.
    doubted: Option<Time>,
    /// No attempt before this time: the last link was lost shortly after it came up, or no
    /// descriptor was free.
    not_before: Time,
}

impl Reknit {
    pub(crate) const fn new(now: Time) -> Self {
        let waiting = VecDeque::new();
        Self { rhs: None, failures: 0, waiting, doubted: None, not_before: now }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Ring {
    /// Makes sure that the rhs is the member that the list gives.
    pub(super) fn review_rhs(&mut self, now: Time) {
        let Some(seat) = self.seat() else { return };
        let Some(wanted) = self.list.after(&seat) else {
            // A link that is still up is kept, because a refutation may come by it.
            return self.stop_reknitting(|_| true);
        };
        let wanted = wanted.name.clone();
        if self.rhs().is_some_and(|(_, name)| *name == wanted) {
            self.reknit.doubted = None;
            return self.stop_reknitting(|_| true);
        }
        if self.dials.any(|aim| matches!(aim, Aim::Rhs(name, _) if *name == wanted)) {
            return;
        }
        self.stop_reknitting(|name| *name != wanted);
        let not_before = self.doubt_ends(now).max(self.reknit.not_before);
        if now < not_before {
            self.timers.set(Timer::Hold, not_before);
            return;
        }
        let Some(record) = self.list.get(&wanted) else { return };
        let (incarnation, addresses) = (record.incarnation, record.addresses.clone());
        self.dial(now, Aim::Rhs(wanted.clone(), incarnation), addresses);
        self.plan_candidates(now, &wanted);
    }

    /// The end of the time in which a living rhs that is recorded as dead may refute this.
    fn doubt_ends(&mut self, now: Time) -> Time {
        let link = self.reknit.rhs.and_then(|id| self.links.get(id));
        let doubted = link.is_some_and(|link| {
            let record = self.list.get(&link.peer.name);
            !link.suspected && record.is_some_and(|record| record.standing == Standing::Dead)
        });
        if doubted {
            *self.reknit.doubted.get_or_insert(now) + self.config.timing.pulse
        } else {
            now
        }
    }

    fn stop_reknitting(&mut self, unwanted: impl Fn(&DaemonName) -> bool) {
        self.reknit.waiting.clear();
        self.timers.stop(Timer::Candidate);
        self.abandon(|aim| matches!(aim, Aim::Rhs(name, _) if unwanted(name)));
    }

    fn plan_candidates(&mut self, now: Time, wanted: &DaemonName) {
        let wide = if self.config.rules.widen { self.reknit.failures.min(16) } else { 0 };
        let width = (1usize << wide).min(MAX_CANDIDATES) - 1;
        let Some(seat) = self.seat() else { return };
        let others =
            self.list.round(&seat).map(|record| &record.name).filter(|name| *name != wanted);
        self.reknit.waiting = others.take(width).cloned().collect();
        self.try_candidate(now);
    }

    /// Tries the next candidate, and plans the one after it.
    pub(super) fn try_candidate(&mut self, now: Time) {
        while let Some(name) = self.reknit.waiting.pop_front() {
            let tried = self.dials.any(|aim| aim.wanted() == Some(&name));
            // A chord may stay up long after its peer has died.
            let speaks = |link: &Link| link.proved && link.carries_list() && link.peer.name == name;
            let linked = self.links.iter().any(|(_, link)| speaks(link));
            let record = self.list.live(&name).filter(|_| !tried && !linked);
            let Some(record) = record else { continue };
            let aim = Aim::Candidate(name, record.incarnation);
            let addresses = record.addresses.clone();
            self.dial(now, aim, addresses);
            break;
        }
        if let Ok(left @ 1..) = u32::try_from(self.reknit.waiting.len()) {
            // All attempts begin before the first can have timed out.
            let stagger = self.config.timing.connect / (4 * (left + 1));
            self.timers.set(Timer::Candidate, now + stagger);
        }
    }

    pub(super) fn rhs_up(&mut self, now: Time, id: LinkId, peer: &Peer) {
        let old = self.reknit.rhs.replace(id);
        self.reknit.failures = 0;
        self.reknit.doubted = None;
        self.abandon(|aim| matches!(aim, Aim::Candidate(..)));
        if let Some(old) = old {
            self.close(now, old);
        }
        self.event(Event::LinkedRhs(peer.name.clone()));
        self.send_parked_laps();
    }

    /// The link to the rhs is gone. This daemon dials again at once: a crashed daemon's host
    /// refuses, a living daemon accepts.
    pub(super) fn rhs_gone(&mut self, now: Time, link: &Link) {
        self.reknit.rhs = None;
        // Half a pulse, so that all members learn of a crash within a whole pulse.
        let pause = self.config.timing.pulse / 2;
        if now - link.up < pause {
            self.reknit.not_before = link.up + pause;
        }
        self.event(Event::LostRhs(link.peer.name.clone()));
    }

    /// This daemon could not try to connect. It accuses no member and tries again later.
    pub(super) fn try_rhs_later(&mut self, now: Time) {
        self.reknit.not_before = now + self.config.timing.pulse;
    }

    pub(super) fn unreachable(&mut self, now: Time, name: &DaemonName, incarnation: u64) {
        self.reknit.failures += 1;
        self.accuse(now, name, incarnation);
    }

    /// Declares a member dead, unless its record has changed since the attempt.
    fn accuse(&mut self, now: Time, name: &DaemonName, incarnation: u64) {
        let known = self.list.live(name).filter(|record| record.incarnation == incarnation);
        let Some(record) = known.filter(|_| self.config.rules.reknit) else { return };
        let mut record = Record::clone(record);
        record.standing = Standing::Dead;
        record.by = Some(self.config.name.clone());
        self.put(now, Arc::new(record), None);
    }

    /// The rhs was silent for too long, though its link is up.
    pub(super) fn rhs_silent(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get(id) else { return };
        let Peer { name, instance } = link.peer.clone();
        self.close(now, id);
        // Only the silent instance is accused, not a later instance of the same name.
        let record = self.list.live(&name).filter(|record| record.instance == instance);
        if let Some(incarnation) = record.map(|record| record.incarnation) {
            self.reknit.failures += 1;
            self.accuse(now, &name, incarnation);
        }
    }

    /// A member has a new instance. Links to the former instance are gone or will be.
    pub(super) fn instance_changed(&mut self, now: Time, name: &DaemonName, peer: Peer) {
        let stale = |link: &Link| {
            link.peer.name == *name
                && link.peer.instance == peer.instance
                && (link.own || link.purpose == Purpose::Chord)
        };
        for id in self.links.which(stale) {
            self.close(now, id);
        }
    }
}
