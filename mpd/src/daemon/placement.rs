//! Which daemon runs which ranks of a job that was submitted here: the members as the pure placement
//! wants them, and managers for what comes out.

use anyhow::{Context, Result};
use mpd_io::{cpus, random};
use mpd_proto::job::{FAN_OUT, JobSpec, Share, Shares};
use mpd_proto::placement::{Candidate, PlacedHost, place};
use mpd_proto::ring::{DaemonName, Instance, Record, Ring, Standing};

/// Lines that a user would still read.
const MAX_NOTICES: usize = 50;

/// Where the ranks of a job run, and lines for its user.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shares: Shares,
    pub(crate) notices: Vec<String>,
}

/// A place for every rank among the live members of the ring.
pub(crate) fn among(ring: &Ring, spec: &JobSpec) -> Result<Plan> {
    let live = ring.records().filter(|record| record.standing == Standing::Live);
    let mut candidates: Vec<Candidate> = live.map(candidate).collect();
    if !candidates.iter().any(|candidate| candidate.member == *ring.name()) {
        // On its way into the ring: its own host is there all the same.
        candidates = vec![only(ring.name().clone())];
    }
    plan(spec, &candidates, ring.name())
}

/// Every rank on the host of this daemon, which is in no ring.
pub(crate) fn alone(name: &str, spec: &JobSpec) -> Result<Plan> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    plan(spec, &[only(name.clone())], &name)
        .context("no daemon is running here, so the job has this host alone")
}

fn plan(spec: &JobSpec, candidates: &[Candidate], origin: &DaemonName) -> Result<Plan> {
    let placed = place(spec, candidates, origin)?;
    let mut shares = placed.hosts.into_iter().map(share).collect::<Result<Vec<Share>>>()?;
    // Only those with managers below are ever dialed.
    let parents = 1 + shares.len().saturating_sub(2) / FAN_OUT;
    shares.iter_mut().skip(parents).for_each(|share| share.addresses.clear());
    let shares = Shares::new(shares, spec.size())?;
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
    }
}

fn only(member: DaemonName) -> Candidate {
    Candidate { member, addresses: Vec::new(), ncpus: cpus::count(), ordinal: 0 }
}

fn share(host: PlacedHost) -> Result<Share> {
    Ok(Share {
        member: host.member,
        manager: Instance::from_bytes(random::bytes()?),
        addresses: host.addresses,
        ranks: host.ranks,
    })
}
