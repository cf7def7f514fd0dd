//! The agent, `mpd --boot-agent`, which runs at the far end of a remote shell. It reads one request and
//! becomes the daemon of its host, in the same process and program. If the request names further hosts, or
//! if the remote shell waits for the end of this process, it starts the daemon instead, and the daemons of
//! those hosts. In a Slurm step, every host of the request has such an agent, which starts only the daemon
//! of its own host.
//!
//! The end of its standard input means that its starter has ended. The agent then ends the
//! processes that it is starting. Daemons that are in the ring stay.

mod login;
mod own;

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_channel::KeyText;
use mpd_io::files::key_file::{KeyFile, KeyFileError};
use mpd_io::process::signals::Signals;
use mpd_io::ring::console::Console;
use mpd_wire::frame::Versions;
use mpd_wire::message::{Introduction, MAX_INTRODUCTION, RingRequest};
use nix::errno::Errno;
use nix::sys::wait::wait;
use nix::unistd::read;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::boot::ALIVE_INTERVAL;
use crate::child::Child;
use crate::daemon::Before;
use crate::drive::{Brief, Driver, report_of};
use crate::failure::{Failure, Step};
use crate::wire::{
    AgentRequest, BootTask, MAX_REQUEST, Manner, Member, Outcome, Report, Task, VERSION,
};
use crate::{command, daemon, key};

use own::Abandoned;

/// Time for ssh to connect, in seconds; the timeout of the request may shorten it.
pub const CONNECT_S: u32 = 10;

/// Exit code of an agent that has started nothing.
const EXIT_NOTHING: u8 = 1;

/// Serves as the daemon with these arguments, whose first is the path of `mpd`, until the end of the
/// daemon.
pub type Become = fn(Vec<String>) -> Result<ExitCode>;

/// Serves one request. The process has one thread.
///
/// # Errors
/// There is no valid request, the process that started this agent has ended, or the daemon has failed that
/// this process has become.
pub fn run(become_daemon: Become) -> Result<ExitCode> {
    let order = read_request()?;
    let nonce = order.nonce;
    match order.task {
        Task::Check { name } => {
            say(&nonce, &Report::Host { name, outcome: Outcome::Up })?;
            say(&nonce, &Report::Done)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Boot(mut task) => {
            let in_step = command::kills_at_end(&task.manner);
            let shares = in_step && !task.hosts.is_empty();
            if shares {
                choose_own(&mut task)?;
            }
            // Slurm passes the variables of another host's login on.
            let host_id = if in_step { None } else { login::host_id() };
            say(&nonce, &Report::Reached { name: task.member.name.clone(), host_id })?;
            boot(&nonce, *task, shares, become_daemon)
        }
    }
}

/// Selects the daemon of this node among those of the request.
fn choose_own(task: &mut BootTask) -> Result<()> {
    let node = std::env::var(command::SLURM_NODE);
    let node = node.with_context(|| format!("{} is not set", command::SLURM_NODE))?;
    let hosts = std::mem::take(&mut task.hosts);
    if task.member.host != node {
        let own = hosts.into_iter().find(|member| member.host == node);
        task.member = own.with_context(|| format!("the request has no daemon for node {node}"))?;
    }
    Ok(())
}

/// Becomes the daemon of this host, or starts it and the daemons of other hosts. If this agent `shares` its
/// remote shell with others, its reports name the daemon.
fn boot(nonce: &str, task: BootTask, shares: bool, become_daemon: Become) -> Result<ExitCode> {
    let name = task.member.name.clone();
    let failed = |failure: Failure| {
        say(nonce, &Report::Host { name: name.clone(), outcome: Outcome::Failed(failure) })?;
        Ok(ExitCode::from(EXIT_NOTHING))
    };
    let before = match prepare(nonce, &task)? {
        Ok(before) => before,
        Err(failure) => return failed(failure),
    };
    if task.hosts.is_empty()
        && let Before::Free { rundir, keep } = &before
        && !command::kills_at_end(&task.manner)
        && login::is_login()
    {
        let arguments = own::arguments_here(nonce, &task, rundir, keep.as_deref())?;
        // Its key is in the pipe for the daemon.
        drop(task);
        return become_daemon(arguments);
    }
    let mut signals = Signals::catch(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .context("cannot catch signals")?;
    let (manner, member) = (task.manner.clone(), task.member.clone());
    let is_alone = task.hosts.is_empty() && !shares;
    let kept = match (before, is_alone) {
        (Before::InRing(addresses), is_last) => {
            let outcome = Outcome::InRing { addresses };
            say(nonce, &Report::Host { name: name.clone(), outcome })?;
            if is_last || shares { Vec::new() } else { others(nonce, task, None, &mut signals)? }
        }
        (Before::Free { rundir, keep }, true) => {
            match own::start(nonce, &task, &rundir, keep.as_deref(), &mut signals)? {
                Ok(()) => Vec::new(),
                Err(failure) => return failed(failure),
            }
        }
        (Before::Free { rundir, keep }, false) => {
            match own::start_with_pipes(nonce, &task, &rundir, keep.as_deref()) {
                Ok(child) => others(nonce, task, Some(child), &mut signals)?,
                Err(failure) => return failed(failure),
            }
        }
    };
    say(nonce, &Report::Done)?;
    if manner.private || command::kills_at_end(&manner) {
        stay(&manner, &member);
    }
    drop(kept);
    Ok(ExitCode::SUCCESS)
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
    let Hello { version } = serde_json::from_slice(&line).ok().context(OTHER_VERSION)?;
    if VERSION.common(version).is_none() {
        bail!("{OTHER_VERSION} (it speaks version {version}, and mpd here {VERSION})");
    }
    serde_json::from_slice(&line).ok().context(OTHER_VERSION)
}

/// The version of a request, which counts before the rest is read.
#[derive(Deserialize)]
struct Hello {
    version: Versions,
}

const OTHER_VERSION: &str =
    "the request is from another version of mpdboot; install one version on all hosts";

fn say(nonce: &str, report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(report.to_line(nonce).as_bytes())
        .and_then(|()| out.flush())
        .context("cannot report")
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
    // A daemon that this process has started may still send its last messages, and removes its files.
    while matches!(wait(), Ok(_) | Err(Errno::EINTR)) {}
}

/// Takes the key and looks at the run directory.
fn prepare(nonce: &str, task: &BootTask) -> Result<Result<Before, Failure>> {
    if !task.manner.private
        && let Err(failure) = take_key(task)
    {
        return Ok(Err(failure));
    }
    say(nonce, &Report::Joining)?;
    Ok(own::start_of(task).prepare())
}

/// Writes the key into its file, or compares it with the existing file.
fn take_key(task: &BootTask) -> Result<(), Failure> {
    let failed = |problem: &str| Failure::new(Step::Key, problem, "");
    let theirs = KeyText::parse(task.key.0.as_bytes().to_vec())
        .map_err(|error| failed(&format!("the key in the request: {error}")))?;
    let manner = &task.manner;
    let text = |error: KeyFileError| failed(&error.to_string());
    let file = KeyFile::resolve(manner.key_file.as_ref().map(Into::into)).map_err(text)?;
    if manner.site.is_some() {
        let rundir = daemon::rundir(manner, &task.member).map_err(|e| failed(&e.to_string()))?;
        rundir.make().map_err(|e| failed(&e.to_string()))?;
        let former = file.load().map_err(text)?;
        if former.is_some_and(|former| !key::are_compatible(&former, &theirs)) {
            // The host that began the former ring has lost it, for example by a restart.
            let _ = daemon::end(&rundir, RingRequest::Exit { member: None });
        }
        return file.replace(&theirs).map_err(text);
    }
    let alone = file.of_ring_alone(&manner.ring);
    if manner.key_alone {
        return alone.replace(&theirs).map_err(text);
    }
    // An earlier ring of this name may have had a key of its own.
    alone.remove().map_err(text)?;
    let (ours, _) = file.load_or_store(&theirs).map_err(text)?;
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

/// Starts the daemons of the other hosts, and reports on them and on the `own` daemon. Returns the
/// remote shells that stay.
fn others(
    nonce: &str,
    task: BootTask,
    own: Option<Child>,
    signals: &mut Signals,
) -> Result<Vec<Child>> {
    let manner = task.manner.clone();
    let name = own.as_ref().map(|_| task.member.name.clone());
    let first = own.as_ref().map(|_| task.member.clone());
    let hosts = first.into_iter().chain(task.hosts.iter().cloned()).collect();
    let brief = Brief {
        nonce: nonce.to_owned(),
        connect_s: CONNECT_S.min(manner.timeout_s),
        manner,
        boot: Some(BootTask { hosts: Vec::new(), ..task }),
        here: None,
        own: name,
        introduces: false,
    };
    let stdin = io::stdin();
    let mut input = Input::default();
    let mut driver = Driver::new(signals, brief, hosts, false, own);
    while !driver.is_over() {
        let turn = driver.turn(Some(stdin.as_fd()), ALIVE_INTERVAL)?;
        if !turn.signals.is_empty() || (turn.readable && !input.read()) {
            driver.abort()?;
            bail!(Abandoned);
        }
        for line in input.lines() {
            let list: Introduction =
                serde_json::from_slice(&line).ok().context("the list of members is invalid")?;
            let names = list.records.iter().map(|record| record.name.to_string()).collect();
            driver.introduce(&line, names, false);
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

/// Lines of standard input after the request.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
}

impl Input {
    /// Reads once; false at the end of the input, and if a line is too long.
    fn read(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match read(io::stdin().as_fd(), &mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                self.bytes.len() <= MAX_INTRODUCTION
            }
            Err(error) => error == Errno::EINTR,
        }
    }

    /// Takes the whole lines, with their newlines.
    fn lines(&mut self) -> Vec<Vec<u8>> {
        let end = self.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.bytes.split_off(end);
        let whole = std::mem::replace(&mut self.bytes, rest);
        whole.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
    }
}
