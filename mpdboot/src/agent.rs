//! `mpdboot --agent`: at the far end of a remote shell. Reads one order, starts the daemon of its
//! host, then those of the hosts it is given, and reports.
//!
//! The end of its standard input means that nobody waits any more: it then ends what it has under
//! way. Daemons that are in the ring stay there.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_channel::KeyText;
use mpd_io::console::Console;
use mpd_io::keyfile::KeyFile;
use mpd_io::signals::Signals;
use mpd_wire::message::RingRequest;
use nix::errno::Errno;
use nix::unistd::read;
use zeroize::Zeroizing;

use crate::boot::ALIVE_INTERVAL;
use crate::child::Child;
use crate::cli::EXIT_NOTHING;
use crate::daemon::{NotStarted, Start, Watch};
use crate::drive::{Brief, Driver, report_of};
use crate::failure::{Failure, Step};
use crate::wire::{BootErrand, Errand, MAX_ORDER, Manner, Member, Order, Outcome, Report, VERSION};
use crate::{command, daemon, key};

/// Entries of the ones above that are passed on beside those of the own daemon.
const MAX_INHERITED: usize = 4;

/// How long ssh may take to connect, if the order allows more.
pub(crate) const CONNECT_S: u32 = 10;

/// Nobody waits for this agent any more.
#[derive(Debug, thiserror::Error)]
#[error("nobody waits for this agent any more")]
struct Abandoned;

pub(crate) fn run() -> Result<ExitCode> {
    let mut signals = Signals::catch(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .context("cannot catch signals")?;
    let order = read_order()?;
    let nonce = order.nonce;
    match order.errand {
        Errand::Check { name } => {
            say(&nonce, &Report::Host { name, outcome: Outcome::Up })?;
            say(&nonce, &Report::Done)?;
            Ok(ExitCode::SUCCESS)
        }
        Errand::Boot(errand) => {
            say(&nonce, &Report::Reached)?;
            let (manner, member) = (errand.manner.clone(), errand.member.clone());
            let kept = boot(&nonce, *errand, &mut signals)?;
            say(&nonce, &Report::Done)?;
            if manner.private && kept.is_some() {
                stay(&manner, &member);
            }
            Ok(if kept.is_some() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOTHING) })
        }
    }
}

/// Reads standard input up to the end of the first line.
fn read_order() -> Result<Order> {
    let mut line = Zeroizing::new(Vec::new());
    let mut buffer = Zeroizing::new(vec![0_u8; 64 << 10]);
    while !line.ends_with(b"\n") {
        match read(io::stdin().as_fd(), &mut buffer) {
            Ok(0) => bail!("standard input ended before the order"),
            Ok(n) => line.extend_from_slice(&buffer[..n]),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot read the order"),
        }
        if line.len() > MAX_ORDER {
            bail!("the order is longer than {MAX_ORDER} bytes");
        }
    }
    // Errors of serde name fields and may quote values: not here.
    let order: Order = serde_json::from_slice(&line).ok().context(OTHER_VERSION)?;
    if order.version != VERSION {
        bail!(OTHER_VERSION);
    }
    Ok(order)
}

const OTHER_VERSION: &str =
    "the order is of another version of mpdboot; install one version on all hosts";

fn say(nonce: &str, report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(report.to_line(nonce).as_bytes())
        .and_then(|()| out.flush())
        .context("cannot report")
}

/// The remote shells that stay, if the own daemon is in the ring.
fn boot(nonce: &str, errand: BootErrand, signals: &mut Signals) -> Result<Option<Vec<Child>>> {
    let name = errand.member.name.clone();
    let started = start(nonce, &errand, signals)?;
    let (outcome, addresses) = match started {
        Ok(addresses) => (Outcome::InRing { addresses: addresses.clone() }, addresses),
        Err(failure) => {
            say(nonce, &Report::Host { name, outcome: Outcome::Failed(failure) })?;
            return Ok(None);
        }
    };
    say(nonce, &Report::Host { name, outcome })?;
    if !errand.hosts.is_empty() {
        let join =
            addresses.into_iter().chain(errand.join.into_iter().take(MAX_INHERITED)).collect();
        return others(nonce, BootErrand { join, ..errand }, signals).map(Some);
    }
    Ok(Some(Vec::new()))
}

/// Waits until nobody waits any more; for the end of the own daemon, if that would be killed with this
/// process.
fn stay(manner: &Manner, member: &Member) {
    if !command::kills_at_end(manner) {
        let mut buffer = [0; 64];
        while matches!(read(io::stdin().as_fd(), &mut buffer), Ok(1..) | Err(Errno::EINTR)) {}
        return;
    }
    let rundir = daemon::rundir(manner, member).ok();
    let watch = rundir.and_then(|rundir| Console::ask(&rundir, RingRequest::Watch).ok());
    if let Some(mut watch) = watch {
        while watch.answer(None).is_ok() {}
    }
}

fn start(
    nonce: &str,
    errand: &BootErrand,
    signals: &mut Signals,
) -> Result<Result<Vec<mpd_wire::Address>, Failure>> {
    let is_private = errand.manner.private;
    if !is_private && let Err(failure) = take_key(errand) {
        return Ok(Err(failure));
    }
    say(nonce, &Report::Joining)?;
    let start = Start {
        manner: &errand.manner,
        member: &errand.member,
        join: &errand.join,
        root: errand.root,
        running: errand.running,
        keep: errand.keep.as_deref(),
        key: is_private.then_some(&errand.key),
    };
    let stdin = io::stdin();
    match start.run(&mut Watch { signals, other: Some(stdin.as_fd()) }) {
        Ok(addresses) => Ok(Ok(addresses)),
        Err(NotStarted::Failed(failure)) => Ok(Err(failure)),
        Err(NotStarted::Aborted(_)) => bail!(Abandoned),
    }
}

/// Puts the key into its file, or checks the one that is there.
fn take_key(errand: &BootErrand) -> Result<(), Failure> {
    let failed = |problem: &str| Failure::new(Step::Key, problem, "");
    let theirs = KeyText::parse(errand.key.0.as_bytes().to_vec())
        .map_err(|error| failed(&format!("the key in the order: {error}")))?;
    let file = KeyFile::resolve(errand.manner.key_file.as_ref().map(Into::into))
        .map_err(|error| failed(&error.to_string()))?;
    let (ours, _) = file.load_or_store(&theirs).map_err(|error| failed(&error.to_string()))?;
    if key::go_together(&ours, &theirs) {
        return Ok(());
    }
    let (here, there) = (ours.keys().connect().id(), theirs.keys().connect().id());
    let path = file.path().display();
    let problem = format!("{path} there has another key ({here}, not {there})");
    let hint = format!(
        "end what runs with the old key there, remove {path} on that host and boot again: it gets the \
         key of this ring"
    );
    Err(Failure::new(Step::Key, &problem, hint))
}

/// Starts the daemons of the other hosts and passes on what becomes of them. Returns remote shells that
/// stay.
fn others(nonce: &str, errand: BootErrand, signals: &mut Signals) -> Result<Vec<Child>> {
    let hosts = errand.hosts.clone();
    let manner = errand.manner.clone();
    let brief = Brief {
        nonce: nonce.to_owned(),
        connect_s: CONNECT_S.min(manner.timeout_s),
        manner,
        boot: Some(BootErrand { hosts: Vec::new(), ..errand }),
        here: None,
    };
    let stdin = io::stdin();
    let mut driver = Driver::new(signals, brief, hosts, false);
    while !driver.is_over() {
        let turn = driver.turn(Some(stdin.as_fd()), ALIVE_INTERVAL)?;
        if turn.readable || !turn.signals.is_empty() {
            driver.abort()?;
            bail!(Abandoned);
        }
        let reports: Vec<Report> = turn.events.iter().filter_map(report_of).collect();
        for report in &reports {
            say(nonce, report)?;
        }
        if reports.is_empty() {
            say(nonce, &Report::Alive)?;
        }
    }
    Ok(driver.into_kept())
}
