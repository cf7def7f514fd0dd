//! What the three parts of the machine share: the clock of this daemon, the outputs, and the need to save.

use std::collections::VecDeque;

use crate::data::{AllocMessage, Stamp};
use mpd_sansio::Time;
use mpd_wire::DaemonName;

use crate::{Output, Timing};

/// The context of the parts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) timing: Timing,
    pub(crate) me: DaemonName,
    /// Wall-clock time at [`Time::ZERO`], in microseconds.
    pub(crate) life: u64,
    pub(crate) last_stamp: u64,
    /// The record on disk must be written before the outputs are performed.
    pub(crate) is_changed: bool,
    pub(crate) outputs: VecDeque<Output>,
    /// Messages of one part to another one of this daemon.
    pub(crate) own: VecDeque<AllocMessage>,
}

impl Shared {
    pub(crate) fn send(&mut self, to: &DaemonName, message: AllocMessage) {
        if *to == self.me {
            self.own.push_back(message);
        } else {
            self.outputs.push_back(Output::Send(to.clone(), message));
        }
    }

    /// The stamp of a message that is sent now; greater than all earlier ones.
    pub(crate) fn stamp(&mut self, now: Time) -> Stamp {
        self.last_stamp = micros(now).max(self.last_stamp + 1);
        Stamp { life: self.life, at: self.last_stamp }
    }

    /// Wall-clock time in microseconds.
    pub(crate) fn wall(&self, time: Time) -> u64 {
        self.life.saturating_add(micros(time))
    }

    /// The time of this process at that wall-clock time.
    pub(crate) const fn time_of(&self, wall_us: u64) -> Time {
        Time::from_micros(wall_us.saturating_sub(self.life))
    }
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX)
}
