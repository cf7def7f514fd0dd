//! The universe size: for how many processes an MPI program may think that there is room. The daemon that places a job
//! chooses it, and each manager gets it with the job. So it is the same on each host, and for PMI and PMIx.

use std::sync::OnceLock;

use mpd_io::cpus;
use mpd_wire::message::StartJob;

use super::context::Job;

/// The number of CPUs here. It takes many system calls.
static CPUS: OnceLock<u32> = OnceLock::new();

/// The universe size. There is room at least for the processes of the world, which may be a spawned one.
pub(super) fn size(order: &StartJob, world: u32) -> u32 {
    order.universe.unwrap_or_else(|| *CPUS.get_or_init(cpus::count)).max(world)
}

/// The same, if it takes no system calls.
pub(super) fn known(order: &StartJob, world: u32) -> Option<u32> {
    order.universe.map(|universe| universe.max(world))
}

/// The same; `None` if the user wants no bound. PMIx cannot say that.
pub(super) fn bounded(job: &Job, world: u32) -> Option<u32> {
    (job.spec.universe_size != Some(0)).then(|| size(&job.order, world))
}
