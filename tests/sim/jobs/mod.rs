//! The machines of all managers of a job, on simulated hosts.
//!
//! `cluster` has the hosts, their ranks and the links between them; in its `programs`, ranks speak PMI. `sweep` runs jobs
//! on it in random orders of events with random faults.

pub(crate) mod cluster;
mod sweep;

use mpd_wire::job::{HostSlice, HostSlices};
use mpd_wire::{DaemonName, Instance, RankSet};

const SIGHUP: u8 = 1;
const SIGINT: u8 = 2;
const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

fn name(tree_index: usize) -> DaemonName {
    DaemonName::new(&format!("h{tree_index}")).expect("a name")
}

/// `each` ranks on each of `hosts` hosts, in order.
fn host_slices(hosts: usize, each: u32) -> HostSlices {
    let host_slice = |tree_index: usize| {
        let low = u32::try_from(tree_index).expect("a place") * each;
        HostSlice {
            member: name(tree_index),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(low, low + each - 1)]),
        }
    };
    let size = u32::try_from(hosts).expect("a size") * each;
    HostSlices::new((0..hosts).map(host_slice).collect(), size).expect("sound shares")
}
