//! The daemon of a simulated host: the machine of the ring alone, or a whole node with its process.

use mpd_machine::{Pump, Time};
use mpd_ring::{Input, Output, Ring};

use crate::daemons::process::Process;

/// What runs on a host.
#[derive(Debug)]
pub(crate) enum Daemon {
    Ring(Box<Pump<Ring>>),
    Node(Box<Process>),
}

impl Daemon {
    /// An event of a link, or another input of the ring.
    pub(crate) fn post(&mut self, now: Time, input: Input) {
        match self {
            Self::Ring(pump) => pump.post(input),
            Self::Node(process) => process.handle(now, mpd_daemon::Input::Link(input)),
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
            Self::Node(process) => process.node().next_deadline(),
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
            Self::Node(process) => process.node().ring(),
        }
    }
}
