//! `mpdboot --agent`, which runs at the far end of a remote shell. It reads one request, starts the
//! daemon of its host, then the daemons of the hosts in the request, and sends reports.
//!
//! The end of its standard input means that its starter has ended. The agent then ends the
//! processes that it is starting. Daemons that are in the ring stay.

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
use crate::wire::{
    AgentRequest, BootTask, MAX_REQUEST, Manner, Member, Outcome, Report, Task, VERSION,
};
use crate::{command, daemon, key};

/// Most addresses of the request that are passed on to other hosts, after those of the own daemon.
const MAX_INHERITED: usize = 4;

/// Time for ssh to connect, in seconds; the timeout of the request may shorten it.
pub(crate) const CONNECT_S: u32 = 10;

/// The process that started this agent has ended.
#[derive(Debug, thiserror::Error)]
#[error("the process that started this agent has ended")]
struct Abandoned;

pub(crate) fn run() -> Result<ExitCode> {
    let mut signals = Signals::catch(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .context("cannot catch signals")?;
    let order = read_request()?;
    let nonce = order.nonce;
    match order.task {
        Task::Check { name } => {
            say(&nonce, &Report::Host { name, outcome: Outcome::Up })?;
            say(&nonce, &Report::Done)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Boot(task) => {
            say(&nonce, &Report::Reached)?;
            let (manner, member) = (task.manner.clone(), task.member.clone());
            let kept = boot(&nonce, *task, &mut signals)?;
            say(&nonce, &Report::Done)?;
            if manner.private && kept.is_some() {
                stay(&manner, &member);
            }
            Ok(if kept.is_some() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOTHING) })
        }
    }
}

/// Reads standard input up to the end of the first line.
fn read_request() -> Result<AgentRequest> {
    let mut line = Zeroizing::new(Vec::new());
    let mut buffer = Zeroizing::new(vec![0_u8; 64 << 10]);
    while !line.ends_with(b"\n") {
        match read(io::stdin().as_fd(), &mut buffer) {
            Ok(0) => bail!("standard input ended before the request"),
            Ok(n) => line.extend_from_slice(&buffer[..n]),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot read the request"),
        }
        if line.len() > MAX_REQUEST {
            bail!("the request is longer than {MAX_REQUEST} bytes");
        }
    }
    // Errors of serde may quote values, for instance the key. They are not shown.
    let order: AgentRequest = serde_json::from_slice(&line).ok().context(OTHER_VERSION)?;
    if order.version != VERSION {
        bail!(OTHER_VERSION);
    }
    Ok(order)
}

const OTHER_VERSION: &str =
    "the request is from another version of mpdboot; install one version on all hosts";

fn say(nonce: &str, report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(report.to_line(nonce).as_bytes())
        .and_then(|()| out.flush())
        .context("cannot report")
}

/// Starts the daemons. Returns the remote shells that stay; `None` if the own daemon did not start.
fn boot(nonce: &str, task: BootTask, signals: &mut Signals) -> Result<Option<Vec<Child>>> {
    let name = task.member.name.clone();
    let started = start(nonce, &task, signals)?;
    let (outcome, addresses) = match started {
        Ok(addresses) => (Outcome::InRing { addresses: addresses.clone() }, addresses),
        Err(failure) => {
            say(nonce, &Report::Host { name, outcome: Outcome::Failed(failure) })?;
            return Ok(None);
        }
    };
    say(nonce, &Report::Host { name, outcome })?;
    if !task.hosts.is_empty() {
        let join = addresses.into_iter().chain(task.join.into_iter().take(MAX_INHERITED)).collect();
        return others(nonce, BootTask { join, ..task }, signals).map(Some);
    }
    Ok(Some(Vec::new()))
}

/// Waits for the end of standard input. If the remote shell kills its processes when it ends, waits
/// for the end of the own daemon instead.
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
    task: &BootTask,
    signals: &mut Signals,
) -> Result<Result<Vec<mpd_wire::Address>, Failure>> {
    let is_private = task.manner.private;
    if !is_private && let Err(failure) = take_key(task) {
        return Ok(Err(failure));
    }
    say(nonce, &Report::Joining)?;
    let start = Start {
        manner: &task.manner,
        member: &task.member,
        join: &task.join,
        root: task.root,
        running: task.running,
        keep: task.keep.as_deref(),
        key: is_private.then_some(&task.key),
    };
    let stdin = io::stdin();
    match start.run(&mut Watch { signals, other: Some(stdin.as_fd()) }) {
        Ok(addresses) => Ok(Ok(addresses)),
        Err(NotStarted::Failed(failure)) => Ok(Err(failure)),
        Err(NotStarted::Aborted(_)) => bail!(Abandoned),
    }
}

/// Writes the key into its file, or compares it with the existing file.
fn take_key(task: &BootTask) -> Result<(), Failure> {
    let failed = |problem: &str| Failure::new(Step::Key, problem, "");
    let theirs = KeyText::parse(task.key.0.as_bytes().to_vec())
        .map_err(|error| failed(&format!("the key in the request: {error}")))?;
    let file = KeyFile::resolve(task.manner.key_file.as_ref().map(Into::into))
        .map_err(|error| failed(&error.to_string()))?;
    let (ours, _) = file.load_or_store(&theirs).map_err(|error| failed(&error.to_string()))?;
    if key::are_compatible(&ours, &theirs) {
        return Ok(());
    }
    let (here, there) = (ours.keys().connect().id(), theirs.keys().connect().id());
    let path = file.path().display();
    let problem = format!("{path} there has another key ({here}, not {there})");
    let hint = format!(
        "end the daemons with the old key there, remove {path} on that host and boot again; mpdboot \
         then copies the key of this ring"
    );
    Err(Failure::new(Step::Key, &problem, hint))
}

/// Starts the daemons of the other hosts and reports their outcomes. Returns the remote shells that
/// stay.
fn others(nonce: &str, task: BootTask, signals: &mut Signals) -> Result<Vec<Child>> {
    let hosts = task.hosts.clone();
    let manner = task.manner.clone();
    let brief = Brief {
        nonce: nonce.to_owned(),
        connect_s: CONNECT_S.min(manner.timeout_s),
        manner,
        boot: Some(BootTask { hosts: Vec::new(), ..task }),
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
