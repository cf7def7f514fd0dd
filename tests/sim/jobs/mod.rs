//! The machines of all managers of a job, on hosts that only pretend.
//!
//! `cluster` is the hosts, their ranks and the links between them; `sweep` runs jobs on it in random orders
//! of events with random faults.

pub(crate) mod cluster;
mod sweep;

use mpd_wire::job::{Share, Shares};
use mpd_wire::{DaemonName, Instance, RankSet};

const SIGHUP: u8 = 1;
const SIGINT: u8 = 2;
const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

fn name(place: usize) -> DaemonName {
    DaemonName::new(&format!("h{place}")).expect("a name")
}

/// `each` ranks on each of so many hosts, in order.
fn shares(hosts: usize, each: u32) -> Shares {
    let share = |place: usize| {
        let low = u32::try_from(place).expect("a place") * each;
        Share {
            member: name(place),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(low, low + each - 1)]),
        }
    };
    let size = u32::try_from(hosts).expect("a size") * each;
    Shares::new((0..hosts).map(share).collect(), size).expect("sound shares")
}
