//! Detection: neighbours that are silent for too long, and stalls of this daemon itself.

use crate::links::{Link, LinkId, Purpose};
use crate::{Event, Ring, Timer};
use mpd_sansio::Time;

impl Ring {
    /// Detects a stall: this daemon was woken far too late. The silence of every neighbour is then
    /// measured from now, because their messages may not have been read yet.
    pub(super) fn notice_stall(&mut self, now: Time) {
        let idle = now - std::mem::replace(&mut self.now, now);
        let Some(due) = self.timers.next() else { return };
        // A timer that is late does not count if other inputs were handled meanwhile.
        if (now - due).min(idle) < self.config.timing.stall {
            return;
        }
        self.event(Event::Stalled);
        for (_, link) in self.links.iter_mut() {
            link.received = now;
        }
        let dials: Vec<_> = self.dials.iter().map(|(token, _)| token).collect();
        for token in dials {
            self.timers.set(Timer::Dial(token), now + self.config.timing.connect);
        }
        self.timers.stop(Timer::Judge);
    }

    /// Sets the timer if a silence can become too long before the next pulse.
    pub(super) fn plan_judgement(&mut self, now: Time) {
        let timing = &self.config.timing;
        let limit = |link: &Link| {
            let patience = if link.suspected { timing.dead } else { timing.suspect };
            link.received + patience
        };
        let ring = self.links.iter().filter(|(_, link)| link.purpose == Purpose::Ring);
        if let Some(first) = ring.map(|(_, link)| limit(link)).min() {
            self.timers.set(Timer::Judge, first.max(now));
        }
    }

    pub(super) fn judge(&mut self, now: Time) {
        let (suspect, dead) = (self.config.timing.suspect, self.config.timing.dead);
        let silent: Vec<(LinkId, bool)> = self
            .links
            .iter()
            .filter(|(_, link)| link.purpose == Purpose::Ring && now - link.received >= suspect)
            .map(|(id, link)| (id, now - link.received >= dead))
            .collect();
        for (id, too_long) in silent {
            if too_long && self.reknit.rhs == Some(id) {
                self.rhs_silent(now, id);
            } else if too_long {
                self.close(now, id);
            } else {
                self.suspect(id);
            }
        }
        self.plan_judgement(now);
    }

    fn suspect(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        if !std::mem::replace(&mut link.suspected, true) && link.proved {
            let name = link.peer.name.clone();
            self.event(Event::Suspected(name));
        }
    }
}
