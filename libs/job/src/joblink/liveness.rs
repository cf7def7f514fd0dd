//! Whether the peer lives, judged by what it sends.

use std::mem;
use std::time::Duration;

use super::Timing;
use mpd_machine::Time;

/// When there was which sign of life.
#[derive(Debug)]
pub(super) struct Liveness {
    /// When we last sent something.
    sent: Time,
    /// When the peer last did.
    heard: Time,
    /// When we last looked at the time.
    looked: Time,
    /// Until then nothing is held against the peer.
    spared: Time,
    suspected: bool,
}

/// What the time says of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    /// Silent for so long; said once in a silence.
    Suspect(Duration),
    /// Silent for so long.
    Lost(Duration),
}

impl Liveness {
    pub(super) const fn new(now: Time) -> Self {
        Self { sent: now, heard: now, looked: now, spared: now, suspected: false }
    }

    pub(super) const fn sent(&mut self, now: Time) {
        self.sent = now;
    }

    /// The peer sent something; whether it was suspected before.
    pub(super) const fn heard(&mut self, now: Time) -> bool {
        self.heard = now;
        mem::replace(&mut self.suspected, false)
    }

    pub(super) fn is_pulse_due(&self, now: Time, timing: &Timing) -> bool {
        self.sent + timing.pulse <= now
    }

    /// Lets time pass. Who stood still itself has not listened: the peer gets a chance to answer first.
    pub(super) fn judge(&mut self, now: Time, timing: &Timing) -> Verdict {
        let stood_still = now - mem::replace(&mut self.looked, now) > timing.suspect;
        if stood_still {
            self.spared = now + timing.suspect;
        }
        let silence = now - self.heard;
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

    /// When to look again; a clogged link needs no pulse.
    pub(super) fn poll_timeout(&self, timing: &Timing, clogged: bool) -> Time {
        let patience = if self.suspected { timing.host_lost } else { timing.suspect };
        let pulse = if clogged { self.looked } else { self.sent } + timing.pulse;
        pulse.min(self.spared.max(self.heard + patience))
    }
}
