//! The daemons for the ranks of a job that was submitted here, and for ranks that its ranks spawn. The pure
//! placement decides; this file gives it the members as candidates, and gives managers to the chosen hosts.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use mpd_io::{cpus, random};
use mpd_placement::spawn::{SpawnPlaced, SpawnPlacing, place_spawn};
use mpd_placement::{Candidate, HostLoad, PlacedHost, place};
use mpd_ring::Ring;
use mpd_wire::job::{HostSlice, HostSlices, JobSpec, Notice, SpawnPlacement};
use mpd_wire::message::Placing;
use mpd_wire::{DaemonName, Instance, RankSet, Record, Standing, frame};

/// Most notices to a user.
const MAX_NOTICES: usize = 50;

/// Bytes that the rest of a message about spawned processes needs.
const ROOM_FOR_REST: usize = 4096;

/// Where the ranks of a job run, and lines for its user.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) host_slices: HostSlices,
    pub(crate) notices: Vec<Notice>,
    /// See [`mpd_wire::message::StartJob::universe`].
    pub(crate) universe: Option<u32>,
}

/// Places every rank of a job on the live members of the ring. `held`: the slots of each host that allocations hold.
pub(crate) fn among(ring: &Ring, held: &BTreeMap<DaemonName, u32>, spec: &JobSpec) -> Result<Plan> {
    let mut candidates = candidates(ring);
    if !held.is_empty() {
        for candidate in &mut candidates {
            candidate.held = held.get(&candidate.member).copied().unwrap_or(0);
        }
    }
    plan(spec, &candidates, ring.name())
}

/// Places the one rank of a job that is already a process of this host.
pub(crate) fn adopted(name: &str, ring: Option<&Ring>, spec: &JobSpec) -> Result<Plan> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    let candidates = ring.map(candidates).unwrap_or_default();
    let own = candidates.into_iter().find(|candidate| candidate.member == name);
    let given = spec.given_universe();
    let universe = given.or_else(|| Some(own.as_ref()?.ncpus));
    let Candidate { member, addresses, .. } = own.unwrap_or_else(|| bare(name));
    let host = PlacedHost { member, addresses, ranks: RankSet::below(1) };
    let mut host_slices = HostSlices::new(host_slices(vec![host])?, 1)?;
    host_slices.address(|_| None);
    Ok(Plan { host_slices, notices: Vec::new(), universe })
}

/// Places every rank on the host of this daemon, which has no ring.
pub(crate) fn alone(name: &str, spec: &JobSpec) -> Result<Plan> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    // For one rank the number of CPUs matters for the size of the universe only, and it takes many system calls.
    let counts = spec.size() > 1 || spec.named_hosts().any(|host| host.slots.is_none());
    let ncpus = if counts { cpus::count() } else { 1 };
    let mut plan = plan(spec, &[Candidate { ncpus, ..bare(name.clone()) }], &name)
        .context("no daemon is running here, so the job can use only this host")?;
    let is_known = counts || spec.given_universe().is_some() || spec.named_hosts().next().is_some();
    plan.universe = plan.universe.filter(|_| is_known);
    Ok(plan)
}

/// Places every process to be spawned on the live members of the ring.
pub(crate) fn spawned_among(
    ring: &Ring,
    placement: &SpawnPlacement,
    load_of: impl Fn(&DaemonName) -> HostLoad,
) -> Placing {
    let last = placement.last.as_ref().and_then(|last| ring.record(last));
    let ordinal = last.map(|record| record.ordinal);
    let mut candidates = candidates(ring);
    for candidate in &mut candidates {
        candidate.load = load_of(&candidate.member);
    }
    placing(placement, &candidates, ring.name(), ordinal)
}

/// Places every process to be spawned on the host of this daemon, which has no ring.
pub(crate) fn spawned_alone(name: &str, placement: &SpawnPlacement) -> Placing {
    match DaemonName::new(name) {
        Ok(name) => placing(placement, &[only(name.clone())], &name, None),
        Err(e) => Placing::Failed(e.to_string()),
    }
}

fn placing(
    placement: &SpawnPlacement,
    candidates: &[Candidate],
    origin: &DaemonName,
    last_ordinal: Option<u64>,
) -> Placing {
    let placed =
        place_spawn(placement, candidates, origin, last_ordinal).map_err(anyhow::Error::from);
    let reported = |placing| match placing {
        SpawnPlacing::Placed(placed) => reported(placed),
        SpawnPlacing::Full => Ok(Placing::Full),
    };
    placed.and_then(reported).unwrap_or_else(|problem| Placing::Failed(format!("{problem:#}")))
}

/// The answer to the manager, which must fit one message.
fn reported(SpawnPlaced { hosts, last }: SpawnPlaced) -> Result<Placing> {
    let host_slices = host_slices(hosts)?;
    let count = host_slices.len();
    let done = Placing::Done { host_slices, last };
    // A host slice with scattered rank numbers is large.
    if serde_json::to_vec(&done)?.len() > frame::MAX_PAYLOAD - ROOM_FOR_REST {
        bail!(
            "the list of processes on {count} hosts is too long for one message; spawn fewer at once"
        );
    }
    Ok(done)
}

/// The live members. A daemon that has not entered a ring yet is its own only candidate.
fn candidates(ring: &Ring) -> Vec<Candidate> {
    let live = ring.records().filter(|record| record.standing == Standing::Live);
    let candidates: Vec<Candidate> = live.map(candidate).collect();
    if candidates.iter().any(|candidate| candidate.member == *ring.name()) {
        candidates
    } else {
        vec![only(ring.name().clone())]
    }
}

fn plan(spec: &JobSpec, candidates: &[Candidate], origin: &DaemonName) -> Result<Plan> {
    let placed = place(spec, candidates, origin)?;
    let mut host_slices = HostSlices::new(host_slices(placed.hosts)?, spec.size())?;
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

fn only(member: DaemonName) -> Candidate {
    Candidate::new(member, cpus::count(), 0)
}

/// This host, with one CPU.
fn bare(member: DaemonName) -> Candidate {
    Candidate::new(member, 1, 0)
}

/// The managers get instances in a row, so that a list of many hosts is short.
fn host_slices(hosts: Vec<PlacedHost>) -> Result<Vec<HostSlice>> {
    let first = Instance::from_bytes(random::bytes()?);
    let host_slice = |(number, host): (u32, PlacedHost)| HostSlice {
        member: host.member,
        manager: first.plus(number),
        addresses: host.addresses,
        ranks: host.ranks,
    };
    Ok((0..).zip(hosts).map(host_slice).collect())
}
