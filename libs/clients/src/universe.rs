//! The universe size: for how many processes an MPI program may think that there is room. The daemon that places a job
//! chooses it, and each manager gets it with the job. So it is the same on each host, and for PMI and PMIx.

use mpd_wire::message::StartJob;

use crate::job::Job;

/// The universe size. There is room at least for the processes of the world, which may be a spawned one.
pub(crate) fn size(job: &Job, world: u32) -> u32 {
    job.order.universe.unwrap_or_else(|| job.host_facts.cpus()).max(world)
}

/// The same, if the daemon has chosen it.
pub fn known(order: &StartJob, world: u32) -> Option<u32> {
    order.universe.map(|universe| universe.max(world))
}

/// The same; `None` if the user wants no bound. PMIx cannot say that.
pub(crate) fn bounded(job: &Job, world: u32) -> Option<u32> {
    (job.spec.universe_size != Some(0)).then(|| size(job, world))
}
