//! The start of a member: its key, its instance, its port, and the daemons through which it enters.

use anyhow::{Context, Result};
use mpd_channel::{Instance, KeyText};
use mpd_io::keyfile::{self, KeyFile};
use mpd_io::rundir::RunDir;
use mpd_io::{cpus, random};
use mpd_machine::{Pump, Time};
use mpd_ring::{Ring, RingConfig, Rules, Timing};
use mpd_wire::{Address, DaemonName};

use crate::cli::Cli;
use crate::daemon::membership::hosts::Hosts;
use crate::daemon::membership::keep::Keep;
use crate::daemon::membership::lease::Lease;
use crate::daemon::membership::saved::Saved;
use crate::daemon::membership::stay::{Entrance, Stay};
use crate::daemon::net::port::{self, Port};
use crate::daemon::net::{Myself, Net};
use crate::recording;

/// The number of pulses for entering through the named daemons before the daemon gives up.
const ENTRY_PATIENCE: u32 = 10;

/// Opens the port, and makes the machine and the owners that need the command line. `entries`: the daemons through
/// which to enter.
pub(super) fn begin(
    cli: &Cli,
    (name, instance): (&str, Instance),
    rundir: &RunDir,
    entries: Vec<Address>,
    now: Time,
) -> Result<(Pump<Ring>, Net, Stay, Hosts)> {
    let ring = cli.ring_name()?.to_string();
    let (text, alone) = key(cli, &ring)?;
    let timing = Timing::default().faster(crate::scale::divisor()?);
    let (mut saved, before) = Saved::open(rundir, &ring, name);
    alone.into_iter().for_each(|file| saved.note_key(file));
    let options = port::PortOptions {
        number: cli.port,
        preferred: before.port,
        interface: cli.ifhn.clone(),
        towards: entries.first().and_then(|a| a.as_str().parse().ok()),
    };
    let port = Port::open(&options)?;
    // With named daemons, the saved ring is not used.
    let (entry, seeds) = if cli.waits {
        saved.forget_former();
        (Vec::new(), Vec::new())
    } else if entries.is_empty() {
        (before.entries, before.seeds)
    } else {
        saved.forget_former();
        (entries.clone(), Vec::new())
    };
    // Also those of a daemon that enters through named daemons now.
    let hosts = Hosts::new(before.names);
    let config = RingConfig {
        name: DaemonName::new(name).context("the daemon's name")?,
        instance: mpd_wire::Instance::from_bytes(*instance.as_bytes()),
        addresses: port.addresses(),
        ordinal: cli.ordinal,
        ncpus: cli.ncpus.unwrap_or_else(cpus::count),
        entry,
        seeds,
        waits: cli.waits,
        timing: timing.clone(),
        chance: u64::from_be_bytes(random::bytes()?),
        rules: Rules::default(),
    };
    let myself = Myself { ring, name: config.name.clone(), instance, keys: text.keys().clone() };
    log::info!("listening on port {}", port.number());
    let keep = cli.keep.as_deref().map(|plan| Keep::open(plan, now)).transpose()?;
    let patience = timing.pulse * ENTRY_PATIENCE;
    let enters = !cli.waits && !entries.is_empty();
    let give_up = enters.then(|| now + patience);
    let addresses = if enters { entries } else { Vec::new() };
    let entrance = Entrance { addresses, patience, give_up };
    let stay = Stay::new(entrance, saved, keep, Lease::new(cli, timing.pulse, now));
    let net = Net::new(myself, port, crate::limits::descriptor_limit());
    let pump = match &cli.record {
        Some(path) => recording::pump(path, ("mpd", name), now, config)?,
        None => Pump::new(Ring::new(now, config)),
    };
    Ok((pump, net, stay, hosts))
}

/// The ring's key, and its file if that is of this ring alone.
fn key(cli: &Cli, ring: &str) -> Result<(KeyText, Option<KeyFile>)> {
    if let Some(number) = cli.key_descriptor {
        return Ok((keyfile::from_descriptor(number)?, None));
    }
    if cli.has_key_on_input() {
        return Ok((keyfile::from_standard_input()?, None));
    }
    let all = KeyFile::resolve(cli.key.clone())?;
    let alone = all.of_ring_alone(ring);
    let keys = all.in_force(ring);
    let (text, origin) = keys.load_or_create(keyfile::name_of(ring))?;
    let path = keys.path().display();
    log::info!("key {} ({origin:?}) from {path}", text.keys().connect().id());
    let is_alone = keys.path() == alone.path();
    Ok((text, is_alone.then_some(alone)))
}

/// The instance of this daemon.
pub(crate) fn new_instance() -> Result<Instance> {
    loop {
        if let Some(instance) = Instance::from_bytes(random::bytes()?) {
            return Ok(instance);
        }
    }
}
