//! How large the ring is that a job would run in.

use std::time::Duration;

use mpd_io::console::Console;
use mpd_io::cpus;
use mpd_wire::Standing;
use mpd_wire::message::{ConsoleReply, RingRequest};

use crate::place::Place;

/// How long the daemon of this host may take to say.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the live members have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// How many they are.
    pub hosts: u32,
    /// Their CPUs, or what stands behind their names in the host file.
    pub cpus: u32,
}

/// The ring that the daemon of this host is in; this host alone if none serves here, or does not say.
pub fn size(place: &Place) -> RingSize {
    of_daemon(place).unwrap_or_else(|| RingSize { hosts: 1, cpus: cpus::count() })
}

fn of_daemon(place: &Place) -> Option<RingSize> {
    let mut console = Console::ask(&place.rundir().ok()?, RingRequest::Describe).ok()?;
    let ConsoleReply::Ring(view) = console.answer(Some(PATIENCE)).ok()? else { return None };
    let live = view.members.iter().filter(|member| member.standing == Standing::Live);
    let sum = live.fold(RingSize { hosts: 0, cpus: 0 }, |sum, member| RingSize {
        hosts: sum.hosts + 1,
        cpus: sum.cpus.saturating_add(member.ncpus),
    });
    (sum.hosts > 0).then_some(sum)
}
