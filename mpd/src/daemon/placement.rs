//! Which daemon runs which ranks of a job that was submitted here.

use anyhow::{Context, Result};
use mpd_io::random;
use mpd_proto::job::{JobSpec, Shares};
use mpd_proto::ring::{DaemonName, Instance, Ring};

/// A place for every rank among the members of the ring, this daemon's host first.
pub(crate) fn among(ring: &Ring, spec: &JobSpec) -> Result<Shares> {
    alone(ring.name().as_str(), spec)
}

/// Every rank on the host of this daemon, which is in no ring.
pub(crate) fn alone(name: &str, spec: &JobSpec) -> Result<Shares> {
    let name = DaemonName::new(name).context("the name of this daemon")?;
    Ok(Shares::alone(name, instance()?, spec.size()))
}

/// A life for a manager that is to be.
fn instance() -> Result<Instance> {
    Ok(Instance::from_bytes(random::bytes()?))
}
