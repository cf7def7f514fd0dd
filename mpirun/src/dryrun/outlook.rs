//! The expected hosts and CPUs of the ranks: pure. The placement is that of the daemon, with the members of the ring
//! as they are now.

use mpd_placement::binding::Bindings;
use mpd_placement::description::describe;
use mpd_placement::gpus::Gpus;
use mpd_placement::{gpus_of, place};
use mpd_wire::job::JobSpec;
use mpd_wire::{DaemonName, Rank, RankSet};

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

/// The parts of a host to which a rank is bound, and the CPUs.
pub(super) type Bound = (String, Vec<u32>);

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
    /// The CPUs of each rank in the order of `ranks`, with their description; `None` for a rank that is not bound. Empty if
    /// no rank is bound, or they are not on this host.
    pub(super) bound: Vec<Option<Bound>>,
    /// The GPUs of the host, if their number is known and ranks get some, and the number for each rank.
    pub(super) gpus: Option<(Gpus, u32)>,
}

impl Outlook {
    /// Places the ranks; the error is the reason why the job would fail.
    pub(super) fn of(spec: &JobSpec, surroundings: &Surroundings) -> Result<Self, String> {
        let Surroundings { kind, here, members, addresses, assumed, others: _, cpus } =
            surroundings;
        let placed = place(spec, members, here).map_err(|e| e.to_string())?;
        let hosts = placed.hosts.into_iter().filter(|host| !host.ranks.is_empty());
        let hosts = hosts.map(|host| -> Result<HostOutlook, String> {
            let ncpus = members.iter().find(|c| c.member == host.member).map_or(1, |c| c.ncpus);
            let is_here = host.member == *here;
            let bound = match is_here && spec.placement.binds() {
                true => {
                    let ranks: Vec<Rank> = host.ranks.ranks().collect();
                    let bindings = Bindings::plan(&spec.placement, cpus, &ranks);
                    let bindings = bindings.map_err(|e| format!("host {}: {e}", host.member))?;
                    let bound = |local| {
                        let numbers = bindings.cpus(local).to_vec();
                        (!numbers.is_empty()).then(|| (describe(&numbers, cpus), numbers))
                    };
                    (0..ranks.len()).map(bound).collect()
                }
                false => Vec::new(),
            };
            let lists = spec.argsets.iter().filter_map(|argset| argset.hosts.as_deref());
            let mut lists = std::iter::once(&spec.placement.hosts[..]).chain(lists);
            let gpus = spec.placement.gpus.and_then(|each| {
                let number = lists.find_map(|list| gpus_of(list, &host.member, is_here));
                // The devices of other hosts are not visible here.
                let found =
                    || Some(mpd_io::host::gpus::here()).filter(|gpus| is_here && gpus.count() > 0);
                Some((number.map(Gpus::of_number).or_else(found)?, each))
            });
            Ok(HostOutlook {
                addresses: addresses.get(&host.member).cloned(),
                cpus: ncpus,
                is_assumed: assumed.contains(&host.member),
                is_here,
                ranks: host.ranks,
                bound,
                gpus,
                name: host.member,
            })
        });
        let hosts = hosts.collect::<Result<Vec<HostOutlook>, String>>()?;
        let notices = placed.notices.into_iter().map(|notice| notice.text).collect();
        Ok(Self { kind: *kind, hosts, notices })
    }
}
