//! The link to the rhs: kept, lost, knitted anew (R3).
//!
//! The list says who the rhs is. Whoever cannot be reached is declared dead at its present
//! incarnation, and the next one is taken; after `c` failures in a row 2^c candidates are tried at
//! once, staggered. The old link goes only when the new one is up; the link of the lhs is not touched.

use std::collections::VecDeque;

use crate::config::MAX_CANDIDATES;
use crate::dial::Aim;
use crate::links::{Link, LinkId, Peer, Purpose};
use crate::{Event, Ring, Timer};
use mpd_machine::Time;
use mpd_wire::{DaemonName, Standing};

#[derive(Debug)]
pub(crate) struct Reknit {
    pub(crate) rhs: Option<LinkId>,
    /// Failures since the last success, those of candidates among them.
    failures: u32,
    /// Candidates whose turn has not come.
    waiting: VecDeque<DaemonName>,
    /// A living rhs is recorded as dead since then.
    doubted: Option<Time>,
    /// No attempt before that: the last link was lost as soon as it was up, or there were no means.
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
    /// Sees to it that the rhs is the one that the list asks for.
    pub(super) fn review_rhs(&mut self, now: Time) {
        let Some(seat) = self.seat() else { return };
        let Some(wanted) = self.list.after(&seat) else {
            // A link that is still up is kept: it may bring a refutation.
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

    /// When a living rhs that is recorded as dead has had its time to refute that.
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
        let others = self.list.round(&seat).map(|seat| &seat.name).filter(|name| *name != wanted);
        self.reknit.waiting = others.take(width).cloned().collect();
        self.try_candidate(now);
    }

    /// Tries the next candidate, and plans the one after it.
    pub(super) fn try_candidate(&mut self, now: Time) {
        while let Some(name) = self.reknit.waiting.pop_front() {
            let tried = self.dials.any(|aim| aim.wanted() == Some(&name));
            // A chord may stand long after its end has died.
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
            // All of them have begun before the first can have timed out.
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

    /// The link to the rhs is gone. It is dialed again at once: who crashed refuses, who lives accepts.
    pub(super) fn rhs_gone(&mut self, now: Time, link: &Link) {
        self.reknit.rhs = None;
        // Half a pulse, so that all know of a crash within a whole one.
        let pause = self.config.timing.pulse / 2;
        if now - link.up < pause {
            self.reknit.not_before = link.up + pause;
        }
        self.event(Event::LostRhs(link.peer.name.clone()));
    }

    /// This daemon had no means to connect: nobody is to blame, and it tries again.
    pub(super) fn try_rhs_later(&mut self, now: Time) {
        self.reknit.not_before = now + self.config.timing.pulse;
    }

    pub(super) fn unreachable(&mut self, now: Time, name: &DaemonName, incarnation: u64) {
        self.reknit.failures += 1;
        self.accuse(now, name, incarnation);
    }

    /// Declares a member dead, unless it was heard of since.
    fn accuse(&mut self, now: Time, name: &DaemonName, incarnation: u64) {
        let known = self.list.live(name).filter(|record| record.incarnation == incarnation);
        let Some(record) = known.filter(|_| self.config.rules.reknit) else { return };
        let mut record = record.clone();
        record.standing = Standing::Dead;
        record.by = Some(self.config.name.clone());
        self.put(now, record, None);
    }

    /// The rhs was silent for too long, though its link stands.
    pub(super) fn rhs_silent(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get(id) else { return };
        let Peer { name, instance } = link.peer.clone();
        self.close(now, id);
        // A later life of it is not to blame for the silence of the former.
        let record = self.list.live(&name).filter(|record| record.instance == instance);
        if let Some(incarnation) = record.map(|record| record.incarnation) {
            self.reknit.failures += 1;
            self.accuse(now, &name, incarnation);
        }
    }

    /// A member lives on in another instance: links to the former one are gone or will be.
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
