//! Which daemon runs which ranks of a job that was submitted here, or of what its ranks spawn: the members
//! as the pure placement wants them, and managers for what comes out.

use anyhow::{Context, Result, bail};
use mpd_io::{cpus, random};
use mpd_placement::spawn::{SpawnPlaced, place_spawn};
use mpd_placement::{Candidate, PlacedHost, place};
use mpd_ring::Ring;
use mpd_wire::job::{JobSpec, Notice, Share, Shares, SpawnWish};
use mpd_wire::message::Placing;
use mpd_wire::{DaemonName, Instance, RankSet, Record, Standing, frame};

/// Lines that a user would still read.
const MAX_NOTICES: usize = 50;

/// What else a message about spawned processes holds.
const ROOM_FOR_REST: usize = 4096;

/// Where the ranks of a job run, and lines for its user.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shares: Shares,
    pub(crate) notices: Vec<Notice>,
}

/// A place for every rank among the live members of the ring.
pub(crate) fn among(ring: &Ring, spec: &JobSpec) -> Result<Plan> {
    plan(spec, &candidates(ring), ring.name())
}

/// The one rank of a job that is a process of this host already.
pub(crate) fn adopted(name: &str, ring: Option<&Ring>) -> Result<Plan> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    let candidates = ring.map(candidates).unwrap_or_default();
    let own = candidates.into_iter().find(|candidate| candidate.member == name);
    let Candidate { member, addresses, .. } = own.unwrap_or_else(|| only(name));
    let host = PlacedHost { member, addresses, ranks: RankSet::below(1) };
    let mut shares = Shares::new(vec![share(host)?], 1)?;
    shares.address(|_| None);
    Ok(Plan { shares, notices: Vec::new() })
}

/// Every rank on the host of this daemon, which is in no ring.
pub(crate) fn alone(name: &str, spec: &JobSpec) -> Result<Plan> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    plan(spec, &[only(name.clone())], &name)
        .context("no daemon is running here, so the job has this host alone")
}

/// A place among the live members of the ring for every process that is to be spawned.
pub(crate) fn spawned_among(ring: &Ring, wish: &SpawnWish) -> Placing {
    let last = wish.last.as_ref().and_then(|last| ring.record(last));
    let stood = last.map(|record| record.ordinal);
    placing(wish, &candidates(ring), ring.name(), stood)
}

/// The same on the host of this daemon, which is in no ring.
pub(crate) fn spawned_alone(name: &str, wish: &SpawnWish) -> Placing {
    match DaemonName::new(name) {
        Ok(name) => placing(wish, &[only(name.clone())], &name, None),
        Err(e) => Placing::Failed(e.to_string()),
    }
}

fn placing(
    wish: &SpawnWish,
    candidates: &[Candidate],
    origin: &DaemonName,
    stood: Option<u64>,
) -> Placing {
    let placed = place_spawn(wish, candidates, origin, stood).map_err(anyhow::Error::from);
    placed.and_then(told).unwrap_or_else(|problem| Placing::Failed(format!("{problem:#}")))
}

/// What the manager is told, which has to fit a message.
fn told(SpawnPlaced { hosts, last }: SpawnPlaced) -> Result<Placing> {
    let shares = hosts.into_iter().map(share).collect::<Result<Vec<Share>>>()?;
    let count = shares.len();
    let done = Placing::Done { shares, last };
    // Ranks that take turns are many numbers.
    if serde_json::to_vec(&done)?.len() > frame::MAX_PAYLOAD - ROOM_FOR_REST {
        bail!(
            "which process runs where on {count} hosts is too much for one message; spawn fewer at once"
        );
    }
    Ok(done)
}

/// The live members; on the way into the ring its own host is there all the same.
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
    let shares = placed.hosts.into_iter().map(share).collect::<Result<Vec<Share>>>()?;
    let mut shares = Shares::new(shares, spec.size())?;
    shares.address(|_| None);
    let mut notices = placed.notices;
    notices.truncate(MAX_NOTICES);
    Ok(Plan { shares, notices })
}

fn candidate(record: &Record) -> Candidate {
    Candidate {
        member: record.name.clone(),
        addresses: record.addresses.clone(),
        ncpus: record.ncpus,
        ordinal: record.ordinal,
        draining: record.draining,
    }
}

fn only(member: DaemonName) -> Candidate {
    Candidate { member, addresses: Vec::new(), ncpus: cpus::count(), ordinal: 0, draining: false }
}

fn share(host: PlacedHost) -> Result<Share> {
    Ok(Share {
        member: host.member,
        manager: Instance::from_bytes(random::bytes()?),
        addresses: host.addresses,
        ranks: host.ranks,
    })
}
