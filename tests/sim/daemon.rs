//! The daemon of a simulated host: the machine of the ring alone, or a whole node with its process.

use std::collections::BTreeMap;

use mpd_daemon::{Input, RingEvent};
use mpd_ring::{Input as RingInput, Output, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::DaemonName;

use crate::process::{Process, SLOTS};
use crate::world::World;

/// What runs on a host.
#[derive(Debug)]
pub(crate) enum Daemon {
    Ring(Box<Pump<Ring>>),
    Node(Box<Process>),
}

impl Daemon {
    /// An event of a link, or another input of the ring.
    pub(crate) fn post(&mut self, now: Time, input: RingInput) {
        match self {
            Self::Ring(pump) => pump.post(input),
            Self::Node(process) => process.handle(now, Input::Ring(RingEvent::Link(input))),
        }
    }

    /// The next output for the world. A node keeps the others.
    pub(crate) fn next(&mut self, now: Time) -> Option<Output> {
        match self {
            Self::Ring(pump) => pump.next(now),
            Self::Node(process) => process.next(now),
        }
    }

    /// When time must pass for it.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Ring(pump) => pump.machine().poll_timeout(),
            Self::Node(process) => process.deadline(),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Ring(pump) => pump.handle_timeout(now),
            Self::Node(process) => process.wake(),
        }
    }

    pub(crate) fn machine(&self) -> &Ring {
        match self {
            Self::Ring(pump) => pump.machine(),
            Self::Node(process) => process.ring(),
        }
    }
}

impl World {
    /// The process of `host`, if its daemon is a whole node.
    pub(crate) fn process(&mut self, host: usize) -> Option<&mut Process> {
        match &mut self.hosts[host].ring {
            Some(Daemon::Node(process)) => Some(process),
            Some(Daemon::Ring(_)) | None => None,
        }
    }

    fn process_of(&self, host: usize) -> Option<&Process> {
        match &self.hosts[host].ring {
            Some(Daemon::Node(process)) => Some(process),
            Some(Daemon::Ring(_)) | None => None,
        }
    }

    /// The daemon of `host` has left by order. Its slots are lost, and the consoles that hold them may learn of it late.
    pub(crate) fn lose_slots_of(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        for host in 0..self.hosts.len() {
            let consoles = self.process(host).map(|process| process.consoles.values_mut());
            for console in consoles.into_iter().flatten() {
                console.slots.remove(&name);
            }
        }
    }

    /// Takes the violations that a process has noted, and checks that no slot is held twice.
    pub(crate) fn take_violations(&mut self, host: usize) {
        let now = self.now as f64 / 1e6;
        let Some(process) = self.process(host) else { return };
        let noted = std::mem::take(&mut process.violations);
        let started = process.take_started();
        let lines = std::mem::take(&mut process.lines);
        let has_changed = std::mem::take(&mut process.slots_changed);
        let noted = noted.into_iter().map(|text| format!("{now:.3} h{host}: {text}"));
        self.watch.violations.extend(noted);
        let name = &self.hosts[host].name;
        lines.iter().for_each(|line| self.trace.say(self.now, name, line));
        self.started.extend(started.into_iter().map(|job| (name.clone(), job)));
        if has_changed {
            let mut held: BTreeMap<DaemonName, u32> = BTreeMap::new();
            for host in 0..self.hosts.len() {
                let consoles = self.process_of(host).map(|process| process.consoles.values());
                for (host, slots) in consoles.into_iter().flatten().flat_map(|one| &one.slots) {
                    *held.entry(host.clone()).or_default() += slots;
                }
            }
            for (name, slots) in held.into_iter().filter(|(_, slots)| *slots > SLOTS) {
                let text =
                    format!("{now:.3}: consoles believe in {slots} of {SLOTS} slots of {name}");
                self.watch.violations.push(text);
            }
        }
    }
}
