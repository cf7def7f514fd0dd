//! The daemons for the ranks of a job that was submitted here, and for ranks that its ranks spawn. The pure
//! placement decides; this file gives it the members as candidates, and gives managers to the chosen hosts.

use std::collections::BTreeMap;

use mpd_placement::spawn::{SpawnPlaced, SpawnPlacing, place_spawn};
use mpd_placement::{Candidate, HostLoad, PlacedHost, PlacementError, place};
use mpd_ring::Ring;
use mpd_wire::job::{HostSlice, HostSlices, InvalidHostSlices, JobSpec, Notice, SpawnPlacement};
use mpd_wire::message::Placing;
use mpd_wire::{DaemonName, Instance, InvalidWord, RankSet, Record, Standing, frame};

/// Most notices to a user.
const MAX_NOTICES: usize = 50;

/// Bytes that the rest of a message about spawned processes needs.
const ROOM_FOR_REST: usize = 4096;

/// Where the ranks of a job run, and lines for its user.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The hosts with their ranks and managers.
    pub(crate) host_slices: HostSlices,
    /// Lines for the user.
    pub(crate) notices: Vec<Notice>,
    /// See [`mpd_wire::message::StartJob::universe`].
    pub(crate) universe: Option<u32>,
}

/// The ranks of a job cannot be placed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// This daemon has no valid name.
    #[error("the name of this daemon: {0}")]
    Name(InvalidWord),
    /// The hosts do not fit the ranks.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The result is not sound.
    #[error(transparent)]
    HostSlices(#[from] InvalidHostSlices),
    /// There is no ring, and this host alone does not do.
    #[error("no daemon is running here, so the job can use only this host: {0}")]
    Alone(Box<Self>),
}

/// Places every rank of a job on the live members of the ring, and one that is a process already on this host. `held`: the
/// slots of each host that allocations hold.
pub(crate) fn among(
    (ring, cpus): (&Ring, u32),
    held: &BTreeMap<DaemonName, u32>,
    spec: &JobSpec,
    first: Instance,
) -> Result<Plan, PlanError> {
    let mut candidates = candidates(ring, cpus);
    if spec.adopted {
        let name = ring.name().clone();
        let own = candidates.into_iter().find(|candidate| candidate.member == name);
        return adopted(name, own, spec, first);
    }
    if !held.is_empty() {
        for candidate in &mut candidates {
            candidate.held = held.get(&candidate.member).copied().unwrap_or(0);
        }
    }
    plan(spec, &candidates, ring.name(), first)
}

/// Places the one rank of a job that is already a process of this host.
fn adopted(
    name: DaemonName,
    own: Option<Candidate>,
    spec: &JobSpec,
    first: Instance,
) -> Result<Plan, PlanError> {
    let given = spec.given_universe();
    let universe = given.or_else(|| Some(own.as_ref()?.ncpus));
    let Candidate { member, addresses, .. } = own.unwrap_or_else(|| bare(name));
    let host = PlacedHost { member, addresses, ranks: RankSet::below(1) };
    let mut host_slices = HostSlices::new(host_slices(vec![host], first), 1)?;
    host_slices.address(|_| None);
    Ok(Plan { host_slices, notices: Vec::new(), universe })
}

/// Places every rank on the host of this daemon, which has no ring. Managers get instances from `first` on. `cpus` counts
/// the CPUs of this host.
pub(crate) fn alone(
    name: &str,
    spec: &JobSpec,
    first: Instance,
    cpus: impl FnOnce() -> u32,
) -> Result<Plan, PlanError> {
    let name = DaemonName::new(name).map_err(PlanError::Name)?;
    if spec.adopted {
        return adopted(name, None, spec, first);
    }
    // For one rank the number of CPUs matters for the size of the universe only, and it takes many system calls.
    let counts = spec.size() > 1 || spec.named_hosts().any(|host| host.slots.is_none());
    let ncpus = if counts { cpus() } else { 1 };
    let mut plan = plan(spec, &[Candidate { ncpus, ..bare(name.clone()) }], &name, first)
        .map_err(|problem| PlanError::Alone(Box::new(problem)))?;
    let is_known = counts || spec.given_universe().is_some() || spec.named_hosts().next().is_some();
    plan.universe = plan.universe.filter(|_| is_known);
    Ok(plan)
}

/// Places every process to be spawned on the live members of the ring.
pub(crate) fn spawned_among(
    (ring, cpus): (&Ring, u32),
    placement: &SpawnPlacement,
    first: Result<Instance, String>,
    load_of: impl Fn(&DaemonName) -> HostLoad,
) -> Placing {
    let last = placement.last.as_ref().and_then(|last| ring.record(last));
    let ordinal = last.map(|record| record.ordinal);
    let mut candidates = candidates(ring, cpus);
    for candidate in &mut candidates {
        candidate.load = load_of(&candidate.member);
    }
    placing(placement, &candidates, ring.name(), ordinal, first)
}

/// Places every process to be spawned on the host of this daemon, which has no ring.
pub(crate) fn spawned_alone(
    name: &str,
    placement: &SpawnPlacement,
    first: Result<Instance, String>,
    cpus: u32,
) -> Placing {
    match DaemonName::new(name) {
        Ok(name) => placing(placement, &[only(name.clone(), cpus)], &name, None, first),
        Err(e) => Placing::Failed(e.to_string()),
    }
}

fn placing(
    placement: &SpawnPlacement,
    candidates: &[Candidate],
    origin: &DaemonName,
    last_ordinal: Option<u64>,
    first: Result<Instance, String>,
) -> Placing {
    let placed = place_spawn(placement, candidates, origin, last_ordinal);
    let answer = placed.map_err(|problem| problem.to_string()).and_then(|placing| match placing {
        SpawnPlacing::Placed(placed) => reported(placed, first?),
        SpawnPlacing::Full => Ok(Placing::Full),
    });
    answer.unwrap_or_else(Placing::Failed)
}

/// The answer to the manager, which must fit one message.
fn reported(SpawnPlaced { hosts, last }: SpawnPlaced, first: Instance) -> Result<Placing, String> {
    let host_slices = host_slices(hosts, first);
    let count = host_slices.len();
    let done = Placing::Done { host_slices, last };
    // A host slice with scattered rank numbers is large. Our own enums serialise; see frame::encode_message.
    let bytes = serde_json::to_vec(&done).expect("an answer serialises").len();
    if bytes > frame::MAX_PAYLOAD - ROOM_FOR_REST {
        return Err(format!(
            "the list of processes on {count} hosts is too long for one message; spawn fewer at once"
        ));
    }
    Ok(done)
}

/// The live members. A daemon that has not entered a ring yet is its own only candidate, with its `cpus`.
fn candidates(ring: &Ring, cpus: u32) -> Vec<Candidate> {
    let live = ring.records().filter(|record| record.standing == Standing::Live);
    let candidates: Vec<Candidate> = live.map(candidate).collect();
    if candidates.iter().any(|candidate| candidate.member == *ring.name()) {
        candidates
    } else {
        vec![only(ring.name().clone(), cpus)]
    }
}

fn plan(
    spec: &JobSpec,
    candidates: &[Candidate],
    origin: &DaemonName,
    first: Instance,
) -> Result<Plan, PlanError> {
    let placed = place(spec, candidates, origin)?;
    let mut host_slices = HostSlices::new(host_slices(placed.hosts, first), spec.size())?;
    host_slices.address(|_| None);
    let mut notices = placed.notices;
    notices.truncate(MAX_NOTICES);
    Ok(Plan { host_slices, notices, universe: Some(placed.universe) })
}

fn candidate(record: &Record) -> Candidate {
    Candidate {
        addresses: record.addresses.clone(),
        draining: record.draining,
        ..Candidate::new(record.name.clone(), record.ncpus, record.ordinal)
    }
}

fn only(member: DaemonName, cpus: u32) -> Candidate {
    Candidate::new(member, cpus, 0)
}

/// This host, with one CPU.
fn bare(member: DaemonName) -> Candidate {
    Candidate::new(member, 1, 0)
}

/// The managers get instances in a row, so that a list of many hosts is short.
fn host_slices(hosts: Vec<PlacedHost>, first: Instance) -> Vec<HostSlice> {
    let host_slice = |(number, host): (u32, PlacedHost)| HostSlice {
        member: host.member,
        manager: first.plus(number),
        addresses: host.addresses,
        ranks: host.ranks,
    };
    (0..).zip(hosts).map(host_slice).collect()
}
