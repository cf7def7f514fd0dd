//! The size of the ring in which a job would run.

use std::time::Duration;

use mpd_io::host::cpus;
use mpd_io::ring::console;
use mpd_wire::Standing;

use crate::ring_options::RingOptions;

/// Time for the daemon of this host to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sums over the live members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Number of members.
    pub hosts: u32,
    /// Their CPUs, or the numbers after their names in the host file.
    pub cpus: u32,
}

/// The size of the ring of this host's daemon; of this host alone if no daemon answers.
pub fn size(ring_options: &RingOptions) -> RingSize {
    of_daemon(ring_options).unwrap_or_else(|| RingSize { hosts: 1, cpus: cpus::count() })
}

fn of_daemon(ring_options: &RingOptions) -> Option<RingSize> {
    let view = console::describe(&ring_options.rundir().ok()?, PATIENCE).ok()?;
    let live = view.members.iter().filter(|member| member.standing == Standing::Live);
    let sum = live.fold(RingSize { hosts: 0, cpus: 0 }, |sum, member| RingSize {
        hosts: sum.hosts + 1,
        cpus: sum.cpus.saturating_add(member.ncpus),
    });
    (sum.hosts > 0).then_some(sum)
}
