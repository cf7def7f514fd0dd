//! Whether the peer lives, derived from the times at which it sends.

use std::mem;
use std::time::Duration;

use super::Timing;
use mpd_sansio::Time;

/// The times of signs of life.
#[derive(Debug)]
pub(super) struct Liveness {
    /// The time at which this side last sent.
    sent: Time,
    /// The time at which the peer last sent.
    received: Time,
    /// The time of the last check.
    looked: Time,
    /// Before this time the peer's silence does not count.
    spared: Time,
    suspected: bool,
}

/// The judgement of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    /// Silent for this time; reported once in each silence.
    Suspect(Duration),
    /// Silent for this time.
    Lost(Duration),
}

impl Liveness {
    pub(super) const fn new(now: Time) -> Self {
        Self { sent: now, received: now, looked: now, spared: now, suspected: false }
    }

    pub(super) const fn sent(&mut self, now: Time) {
        self.sent = now;
    }

    /// The peer sent a frame. Returns whether it was suspected before.
    pub(super) const fn received(&mut self, now: Time) -> bool {
        self.received = now;
        mem::replace(&mut self.suspected, false)
    }

    pub(super) fn is_pulse_due(&self, now: Time, timing: &Timing) -> bool {
        self.sent + timing.pulse <= now
    }

    /// Judges the peer. After a stall of this process the peer first gets time to answer, because
    /// its frames were not read.
    pub(super) fn judge(&mut self, now: Time, timing: &Timing) -> Verdict {
        let stood_still = now - mem::replace(&mut self.looked, now) > timing.suspect;
        if stood_still {
            self.spared = now + timing.suspect;
        }
        let silence = now - self.received;
        if now < self.spared || silence < timing.suspect {
            Verdict::Well
        } else if silence >= timing.host_lost {
            Verdict::Lost(silence)
        } else if mem::replace(&mut self.suspected, true) {
            Verdict::Well
        } else {
            Verdict::Suspect(silence)
        }
    }

    /// The time of the next check. A clogged link needs no pulse.
    pub(super) fn poll_timeout(&self, timing: &Timing, clogged: bool) -> Time {
        let patience = if self.suspected { timing.host_lost } else { timing.suspect };
        let pulse = if clogged { self.looked } else { self.sent } + timing.pulse;
        pulse.min(self.spared.max(self.received + patience))
    }
}
