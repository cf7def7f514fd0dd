//! The daemon of an agent's own host: this process becomes it, or starts it.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_io::place_for_exec;
use mpd_io::process::signals::Signals;
use mpd_io::process::spawn::{Extra, Fate, Spawn, own_environment, wait_for};
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::RunDir;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use crate::child::Child;
use crate::command::AgentPlaces;
use crate::daemon::{Start, cannot_run};
use crate::failure::{Failure, Step, VERSION_HINT};
use crate::wire::{BootTask, MAX_REPORT, SecretText};
use mpd_io::wait::{until_ready, wait};

/// Time for a daemon that is not in the ring to end, in milliseconds.
const GRACE: Duration = Duration::from_secs(1);

/// Number of the first descriptor after the standard streams of a daemon that this process starts.
const FIRST: i32 = 3;

/// The process that started this agent has ended.
#[derive(Debug, thiserror::Error)]
#[error("the process that started this agent has ended")]
pub(super) struct Abandoned;

/// The start of the daemon of this host.
pub(super) fn start_of(task: &BootTask) -> Start<'_> {
    Start {
        manner: &task.manner,
        member: &task.member,
        join: &task.join,
        root: task.root,
        running: task.running,
        keep: task.keep.as_deref(),
        holder: None,
    }
}

fn arguments(
    nonce: &str,
    task: &BootTask,
    (rundir, keep): (&RunDir, Option<&str>),
    (key, reports): (Option<i32>, bool),
) -> Vec<String> {
    let agent = AgentPlaces { nonce, waits: task.waits, key, reports };
    start_of(task).arguments(rundir, keep, Some(agent))
}

/// A pipe with the key, if the key is in no file. The pipe has room for a key.
fn key_pipe(task: &BootTask) -> io::Result<Option<PipeReader>> {
    if !task.manner.private {
        return Ok(None);
    }
    let SecretText(text) = &task.key;
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(text.as_bytes())?;
    Ok(Some(reader))
}

/// Prepares this process to become the daemon, and returns the daemon's arguments.
pub(super) fn arguments_here(
    nonce: &str,
    task: &BootTask,
    rundir: &RunDir,
    keep: Option<&str>,
) -> Result<Vec<String>> {
    let key = key_pipe(task).context("cannot pass the key")?.map(OwnedFd::from);
    let number = key.as_ref().map(AsRawFd::as_raw_fd);
    if let (Some(key), Some(number)) = (key, number) {
        // The daemon takes it over by its number, as one that was executed does.
        place_for_exec(key, number).context("cannot pass the key")?;
    }
    mpd_io::remove_variables(RingName::variables()).context("cannot forget this ring's name")?;
    Ok(arguments(nonce, task, (rundir, keep), (number, false)))
}

/// Starts the daemon with these standard streams, in a session of its own. `report` takes its report
/// that it is in the ring. A daemon with such a pipe ends if the pipe has no reader.
fn spawn(
    nonce: &str,
    task: &BootTask,
    place: (&RunDir, Option<&str>),
    streams: [BorrowedFd<'_>; 3],
    report: Option<BorrowedFd<'_>>,
) -> io::Result<Pid> {
    let key = key_pipe(task)?;
    let number = FIRST + i32::from(report.is_some());
    let arguments = arguments(nonce, task, place, (key.as_ref().map(|_| number), report.is_some()));
    let is_ours = |entry: &Vec<u8>| {
        let names = |variable: &str| {
            entry.strip_prefix(variable.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        RingName::variables().into_iter().any(names)
    };
    let environment = own_environment().into_iter().filter(|entry| !is_ours(entry));
    let program = std::path::Path::new(&task.manner.mpd).as_os_str().as_bytes().to_vec();
    let spawn = Spawn::new(&program, arguments, environment).map_err(io::Error::other)?;
    let mut descriptors = streams.to_vec();
    descriptors.extend(report);
    descriptors.extend(key.as_ref().map(|key| key.as_fd()));
    spawn.start(&descriptors, Extra::default(), None).map_err(io::Error::other)
}

/// Starts the daemon with our own standard streams, and waits until it is in the ring.
pub(super) fn start(
    nonce: &str,
    task: &BootTask,
    rundir: &RunDir,
    keep: Option<&str>,
    signals: &mut Signals,
) -> Result<Result<(), Failure>> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let (mut ready, report) = io::pipe().context("cannot make a pipe")?;
    let started = spawn(nonce, task, (rundir, keep), streams, Some(report.as_fd()));
    drop(report);
    let pid = match started {
        Ok(pid) => pid,
        Err(error) => return Ok(Err(cannot_run(&task.manner.mpd, &error.to_string()))),
    };
    loop {
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(ready.as_fd(), PollFlags::POLLIN),
        ];
        wait(&mut fds, None).context("cannot wait for the daemon")?;
        let is_readable = fds[1].any().unwrap_or(true);
        // A daemon in the ring stays, also if mpdboot ends this process now.
        if is_readable {
            break;
        }
        if signals.pending().into_iter().any(|signal| signal != libc::SIGCHLD) {
            end(pid, &ready);
            bail!(Abandoned);
        }
    }
    let mut report = String::new();
    ready.read_to_string(&mut report).context("cannot read the daemon's report")?;
    if report.starts_with("ready") {
        return Ok(Ok(()));
    }
    // The daemon has reported the reason, unless it died.
    Ok(Err(match (wait_for(pid), report.trim_end()) {
        (Ok(Fate::Exited(2)), "") => {
            Failure::new(Step::Exec, "mpd ended with code 2", VERSION_HINT)
        }
        (_, "") => Failure::new(Step::Join, "the daemon died before it was in the ring", ""),
        (_, problem) => Failure::new(Step::Join, problem, ""),
    }))
}

/// Ends a daemon that is not in the ring.
fn end(pid: Pid, ready: &PipeReader) {
    let _ = killpg(pid, Signal::SIGTERM);
    if !matches!(until_ready(ready, PollFlags::POLLIN, Some(GRACE)), Ok(true)) {
        let _ = killpg(pid, Signal::SIGKILL);
    }
}

/// Starts the daemon with pipes, as one of the daemons that this agent starts.
pub(super) fn start_with_pipes(
    nonce: &str,
    task: &BootTask,
    rundir: &RunDir,
    keep: Option<&str>,
) -> Result<Child, Failure> {
    let start = || {
        let (input, stdin) = io::pipe()?;
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let pid = spawn(nonce, task, (rundir, keep), streams, None)?;
        let pipes = [OwnedFd::from(stdin), stdout.into(), stderr.into()];
        Child::new(pid, pipes.map(Some), Zeroizing::default(), MAX_REPORT)
    };
    start().map_err(|error: io::Error| cannot_run(&task.manner.mpd, &error.to_string()))
}
