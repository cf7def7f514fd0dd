//! The universe size of a job: for how many processes an MPI program may think that there is room.

use std::collections::BTreeMap;

use mpd_wire::job::JobSpec;

use super::error::PlacementError;
use super::members::Members;

/// The size that the user says. Without that, it is the slots of the hosts that the user, an allocation or a batch system
/// has named, and without these the CPUs of the console's host. There is room at least for the ranks of the job.
pub(super) fn size(job: &JobSpec, members: &Members<'_>) -> Result<u32, PlacementError> {
    let size = match job.given_universe() {
        Some(size) => size,
        None => slots(job, members)?.unwrap_or_else(|| members.get(members.origin()).ncpus),
    };
    Ok(size.max(job.size()))
}

/// The slots of the named hosts. A host without a number has those of its daemon.
fn slots(job: &JobSpec, members: &Members<'_>) -> Result<Option<u32>, PlacementError> {
    let mut hosts = BTreeMap::new();
    for host in job.named_hosts() {
        let Some(member) = members.find(&host.name)? else { continue };
        if !members.is_excluded(member) {
            let slots = hosts.entry(member).or_insert(0);
            *slots = host.slots.unwrap_or(members.get(member).ncpus).max(*slots);
        }
    }
    let sum = hosts.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
    Ok(Some(sum).filter(|sum| *sum > 0))
}
