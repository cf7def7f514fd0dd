//! The expected hosts and CPUs of the ranks: pure. The placement is that of the daemon, with the members of the ring
//! as they are now.

use mpd_placement::binding::Bindings;
use mpd_placement::place;
use mpd_wire::job::{Binding, JobSpec};
use mpd_wire::{DaemonName, RankSet};

use crate::surroundings::{Addresses, RingKind, Surroundings};

/// Where the ranks would run.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    pub(super) kind: RingKind,
    /// The hosts with ranks; the console's host first if it has any.
    pub(super) hosts: Vec<HostOutlook>,
    /// The notices that mpirun would print.
    pub(super) notices: Vec<String>,
}

/// A host and its ranks.
#[derive(Clone, Debug)]
pub(super) struct HostOutlook {
    pub(super) name: DaemonName,
    pub(super) is_here: bool,
    /// Its addresses or the resolver's error; `None` if they were not looked up.
    pub(super) addresses: Option<Addresses>,
    /// The number of ranks that it takes before another host is preferred.
    pub(super) cpus: u32,
    /// Whether that number was not reported by the host.
    pub(super) is_assumed: bool,
    pub(super) ranks: RankSet,
    /// The CPUs of each rank in the order of `ranks`; empty if the ranks are not bound, or not on this host.
    pub(super) bound: Vec<Vec<u32>>,
}

impl Outlook {
    /// Places the ranks; the error is the reason why the job would fail.
    pub(super) fn of(spec: &JobSpec, surroundings: &Surroundings) -> Result<Self, String> {
        let Surroundings { kind, here, members, addresses, assumed, cpus } = surroundings;
        let placed = place(spec, members, here).map_err(|e| e.to_string())?;
        let hosts = placed.hosts.into_iter().filter(|host| !host.ranks.is_empty());
        let hosts = hosts.map(|host| {
            let ncpus = members.iter().find(|c| c.member == host.member).map_or(1, |c| c.ncpus);
            let is_here = host.member == *here;
            let count = host.ranks.ranks().count();
            let binding = spec.placement.binding;
            let bound = match is_here && binding != Binding::None {
                true => {
                    let bindings = Bindings::plan(&spec.placement, cpus, count);
                    (0..count).map(|local| bindings.cpus(local).to_vec()).collect()
                }
                false => Vec::new(),
            };
            HostOutlook {
                addresses: addresses.get(&host.member).cloned(),
                cpus: ncpus,
                is_assumed: assumed.contains(&host.member),
                is_here,
                ranks: host.ranks,
                bound,
                name: host.member,
            }
        });
        let notices = placed.notices.into_iter().map(|notice| notice.text).collect();
        Ok(Self { kind: *kind, hosts: hosts.collect(), notices })
    }
}
