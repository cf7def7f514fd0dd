//! The start of a member: its key, its instance, its port, and the daemons through which it enters.

use anyhow::{Context, Result};
use mpd_channel::{Instance, KeyText};
use mpd_daemon::{Entrance, Facts, Member, RingIdentity, Saved, SlotsImage};
use mpd_io::clock::wall;
use mpd_io::files::key_file::{self, KeyFile};
use mpd_io::host::cpus;
use mpd_io::host::random;
use mpd_io::ring::rundir::RunDir;
use mpd_ring::{Ring, RingConfig, Rules, Timing};
use mpd_sansio::{Pump, Time};
use mpd_wire::{Address, DaemonName};
use nix::sys::utsname::uname;
use nix::unistd::geteuid;

use crate::cli::Cli;
use crate::daemon::membership::files::Files;
use crate::daemon::membership::helpers::Helpers;
use crate::daemon::net::port::{self, Port};
use crate::daemon::net::{Myself, Net};
use crate::recording;

/// Opens the port, and makes the member, which begins to enter the ring. `entries`: the daemons through which to enter.
pub(super) fn begin(
    cli: &Cli,
    (name, instance): (&str, Instance),
    rundir: &RunDir,
    entries: Vec<Address>,
    now: Time,
) -> Result<(Member, Net, Files, Option<Helpers>)> {
    let ring = cli.ring_name()?.to_string();
    let (text, alone) = key(cli, &ring)?;
    let timing = Timing::default().faster(crate::scale::divisor()?);
    let files = Files::of(rundir, alone);
    let (mut saved, mut before) = Saved::new(files.read_ring(), &ring, name);
    let options = port::PortOptions {
        number: cli.port,
        preferred: before.port,
        interface: cli.ifhn.clone(),
        towards: entries.first().and_then(|a| a.as_str().parse().ok()),
    };
    let port = Port::open(&options)?;
    saved.set_port(port.number());
    let (entry, seeds) = saved.entries(cli.waits, &entries, &mut before);
    let cpus = cpus::count();
    let config = RingConfig {
        name: DaemonName::new(name).context("the daemon's name")?,
        instance: mpd_wire::Instance::from_bytes(*instance.as_bytes()),
        addresses: port.addresses(),
        ordinal: cli.ordinal,
        ncpus: cli.ncpus.unwrap_or(cpus),
        entry,
        seeds,
        waits: cli.waits,
        timing: timing.clone(),
        chance: u64::from_be_bytes(random::bytes()?),
        rules: Rules::default(),
    };
    let identity = RingIdentity { name: ring.clone(), key: text.keys().connect().id().to_string() };
    let myself = Myself { ring, name: config.name.clone(), instance, keys: text.keys().clone() };
    log::info!("listening on port {}", port.number());
    let kept = cli.keep.as_deref().map(Helpers::open).transpose()?;
    let (helpers, kept) = kept.unzip();
    let lease = cli.lease(timing.pulse)?;
    let of_node = mpd_daemon::Membership {
        entrance: Entrance::new(now, timing.pulse, cli.waits, entries),
        saved,
        // The members that the earlier daemon knew, even if this one enters through named daemons.
        former: before.names,
        kept,
        lease,
    };
    let slots = SlotsImage::of_earlier(files.read_slots(), &config.name);
    let net = Net::new(myself, port, crate::limits::descriptor_limit());
    let pump = match &cli.record {
        Some(path) => recording::pump(path, ("mpd", name), now, config)?,
        None => Pump::new(Ring::new(now, config)),
    };
    let member = Member::new((now, wall()), pump, facts(cli, identity, cpus), of_node, slots);
    Ok((member, net, files, helpers))
}

/// What the node knows of this process and this host.
fn facts(cli: &Cli, identity: RingIdentity, cpus: u32) -> Facts {
    let machine =
        |names: nix::sys::utsname::UtsName| names.machine().to_string_lossy().into_owned();
    Facts {
        identity,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uid: geteuid().as_raw(),
        arch: uname().map(machine).unwrap_or_default(),
        cpus,
        speed_hundredths: cli.speed,
        has_hook: cli.alloc_hook().is_some(),
    }
}

/// Returns the ring's key, and the key file if it belongs to this ring alone.
fn key(cli: &Cli, ring: &str) -> Result<(KeyText, Option<KeyFile>)> {
    if let Some(number) = cli.key_descriptor {
        return Ok((key_file::from_descriptor(number)?, None));
    }
    if cli.has_key_on_input() {
        return Ok((key_file::from_standard_input()?, None));
    }
    let all = KeyFile::resolve(cli.key.clone())?;
    let alone = all.of_ring_alone(ring);
    let keys = all.in_force(ring);
    let (text, origin) = keys.load_or_create(key_file::name_of(ring))?;
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
