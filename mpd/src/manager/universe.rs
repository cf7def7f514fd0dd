//! The universe size: for how many processes an MPI program may think that there is room.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mpd_io::cpus;
use mpd_wire::job::JobSpec;

/// The number of CPUs here. It takes many system calls, so a fork server counts them once for its copies.
static CPUS: OnceLock<u32> = OnceLock::new();

/// Counts the CPUs of this host.
pub(super) fn prepare() {
    cpus_here();
}

fn cpus_here() -> u32 {
    *CPUS.get_or_init(cpus::count)
}

/// The size of the universe of a job, as the user says. Without that, it is the slots of the hosts that the user or a batch
/// system has named, and without these the CPUs of this host. There is room at least for `size` processes, the present
/// world.
pub(super) fn size(job: &JobSpec, size: u32) -> u32 {
    job.universe_size.or_else(|| slots(job)).unwrap_or_else(cpus_here).max(size)
}

/// The same for the environment of the ranks of this world. `None`: it would take many system calls for one rank.
pub(super) fn known(world: &JobSpec) -> Option<u32> {
    let ranks = world.size();
    let is_cheap = ranks > 1 || world.universe_size.is_some() || CPUS.get().is_some();
    (is_cheap || slots(world).is_some()).then(|| size(world, ranks))
}

/// The slots of the named hosts. A host without a number counts as this one.
fn slots(job: &JobSpec) -> Option<u32> {
    let of_programs = job.argsets.iter().flat_map(|argset| argset.hosts.iter().flatten());
    let mut hosts = BTreeMap::new();
    for host in job.placement.hosts.iter().chain(of_programs) {
        let slots = hosts.entry(host.name.as_str()).or_insert(0);
        *slots = host.slots.unwrap_or_else(cpus_here).max(*slots);
    }
    let sum = hosts.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
    Some(sum).filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use mpd_wire::job::{HostChoice, PlacementSpec};

    use super::*;

    #[test]
    fn the_universe_has_the_given_size_or_the_slots_of_the_hosts_or_the_cpus() {
        let host = |name: &str, slots| HostChoice::new(name.to_owned(), slots);
        let of = |universe_size, hosts: &[HostChoice], ranks| {
            let placement = PlacementSpec { hosts: hosts.to_vec(), ..PlacementSpec::default() };
            size(&JobSpec { universe_size, placement, ..JobSpec::default() }, ranks)
        };
        let two = [host("h1", Some(4)), host("h2", Some(2))];
        assert_eq!(of(Some(9), &two, 2), 9);
        assert_eq!(of(None, &two, 2), 6);
        assert_eq!(of(None, &two, 8), 8, "never smaller than the world");
        assert_eq!(of(None, &[host("h1", Some(4)), host("h1", Some(3))], 1), 4, "one host");
        assert_eq!(of(None, &[host("h1", Some(4)), host("h2", None)], 1), 4 + cpus::count());
        assert_eq!(of(None, &[], 1), cpus::count());
    }
}
