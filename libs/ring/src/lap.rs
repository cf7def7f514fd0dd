//! A message once round the ring, hop by hop. A lap that cannot be forwarded waits for the new rhs.
//! A lap that is not back in time is reported lost, once.

use std::collections::{BTreeMap, VecDeque};

use crate::config::{MAX_PARKED_LAPS, MAX_REQUESTS};
use crate::{Event, Output, RequestId, Ring, Timer};
use mpd_sansio::Time;
use mpd_wire::DaemonName;
use mpd_wire::message::{Lap, RingMessage};

#[derive(Debug)]
struct Running {
    request: RequestId,
    began: Time,
    home: u32,
    wanted: u32,
    trace: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Laps {
    last: u64,
    running: BTreeMap<u64, Running>,
    /// Laps that wait for a new rhs, and the time since which each waits.
    parked: VecDeque<(Time, Lap)>,
}

impl Laps {
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.parked.len()
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.running.len() <= MAX_REQUESTS && self.parked.len() <= MAX_PARKED_LAPS
    }
}

impl Ring {
    pub(super) fn lap(&mut self, now: Time, request: RequestId, laps: u32, trace: bool) {
        if self.laps.running.len() >= MAX_REQUESTS || laps == 0 || self.seat().is_none() {
            self.outputs.push_back(Output::Refused(request));
            return;
        }
        self.start_lap(now, Running { request, began: now, home: 0, wanted: laps, trace });
    }

    fn start_lap(&mut self, now: Time, running: Running) {
        let trace = running.trace;
        if self.rhs().is_none() && self.list.live_count() == 1 {
            // In a ring of one, a lap is complete at once.
            let names = if trace { vec![self.config.name.clone()] } else { Vec::new() };
            self.laps_home(now, &running, 0, names);
            return;
        }
        self.laps.last += 1;
        let sequence = self.laps.last;
        self.timers.set(Timer::Lap(sequence), now + self.config.timing.lap);
        self.laps.running.insert(sequence, running);
        let origin = self.config.instance;
        self.pass_lap(Lap { origin, sequence, hops: 0, trace, way: 0, names: Vec::new() });
    }

    pub(super) fn received_lap(&mut self, now: Time, mut lap: Lap) {
        if lap.trace {
            lap.visit(&self.config.name);
        }
        if lap.origin != self.config.instance {
            return self.pass_lap(lap);
        }
        // A lap that was reported lost and comes back later is ignored.
        let Some(mut running) = self.laps.running.remove(&lap.sequence) else { return };
        self.timers.stop(Timer::Lap(lap.sequence));
        running.home += 1;
        if running.home < running.wanted {
            self.start_lap(now, running);
        } else if let Some(names) = self.way_of(&lap) {
            self.laps_home(now, &running, lap.hops, names);
        } else {
            let Running { request, home, .. } = running;
            self.outputs.push_back(Output::LapLost { request, home: home - 1 });
        }
    }

    /// The names on the way of a lap. A lap over many members has the digest of their names. If that is the digest of
    /// the list, they are those of the list. Else the ring is changing, and the answer is `None`.
    fn way_of(&self, lap: &Lap) -> Option<Vec<DaemonName>> {
        if lap.names.len() == lap.hops as usize || !lap.trace {
            return Some(lap.names.clone());
        }
        let mut members = self.members();
        // A lap ends with this daemon.
        let own = 1.min(members.len());
        members.rotate_left(own);
        (Lap::way_over(0, &members) == lap.way).then_some(members)
    }

    fn laps_home(&mut self, now: Time, running: &Running, hops: u32, names: Vec<DaemonName>) {
        let (request, took) = (running.request, now - running.began);
        self.outputs.push_back(Output::LapsHome { request, hops, names, took });
    }

    /// Sends a lap to the rhs. A lap whose origin is gone ends after two rounds.
    fn pass_lap(&mut self, mut lap: Lap) {
        let members = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if lap.hops > members.saturating_mul(2).saturating_add(16) {
            return;
        }
        if let Some((rhs, _)) = self.rhs() {
            lap.hops += 1;
            self.send(rhs, RingMessage::Lap(lap));
        } else if self.laps.parked.len() < MAX_PARKED_LAPS {
            self.laps.parked.push_back((self.now, lap));
        } else {
            self.event(Event::Full("laps"));
        }
    }

    pub(super) fn send_parked_laps(&mut self) {
        for (_, lap) in std::mem::take(&mut self.laps.parked) {
            self.pass_lap(lap);
        }
    }

    /// Drops laps that were parked for the whole deadline of a lap: their origins have reported
    /// them lost.
    pub(super) fn drop_late_laps(&mut self, now: Time) {
        let patience = self.config.timing.lap;
        self.laps.parked.retain(|(since, _)| now - *since < patience);
    }

    pub(super) fn lap_expired(&mut self, sequence: u64) {
        if let Some(running) = self.laps.running.remove(&sequence) {
            self.timers.stop(Timer::Lap(sequence));
            let Running { request, home, .. } = running;
            self.outputs.push_back(Output::LapLost { request, home });
        }
    }

    pub(super) fn give_up_laps(&mut self) {
        let sequences: Vec<u64> = self.laps.running.keys().copied().collect();
        for sequence in sequences {
            self.lap_expired(sequence);
        }
        self.laps.parked.clear();
    }
}
