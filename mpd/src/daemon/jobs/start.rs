//! Starts managers and helpers: this executable again with other arguments.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::conn::Conn;
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_wire::JobId;
use nix::unistd::Pid;

use crate::cli;

/// Characters that a manager without a job has in its arguments, so that the longest name of a job fits there later.
const ROOM: usize = 300;

/// The stand-in for unused descriptors.
fn null() -> Result<OwnedFd> {
    let mut options = OpenOptions::new();
    Ok(options.read(true).write(true).open("/dev/null").context("cannot open /dev/null")?.into())
}

/// Starts a manager, which waits for its job on the returned connection. Its arguments name the job, if there is one.
pub(super) fn manager(job: Option<&JobId>) -> Result<(Pid, Conn)> {
    manager_in(job, None)
}

/// Starts the manager of the only job that this daemon will have, before the daemon is ready itself. The directory in
/// which the user has started it is not kept in use.
pub(crate) fn first_manager() -> Result<(Pid, Conn)> {
    manager_in(None, Some(b"/"))
}

fn manager_in(job: Option<&JobId>, directory: Option<&[u8]>) -> Result<(Pid, Conn)> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let ours = Conn::new(ours);
    let null = null()?;
    let (called, name) = match job {
        Some(job) => (cli::MANAGER, job.to_string()),
        None => (cli::IN_WAITING, " ".repeat(ROOM)),
    };
    let mut argv: Vec<Vec<u8>> =
        vec![called.into(), "--manager".into(), "--name".into(), name.into()];
    // The manager logs to the daemon's log, at the same level.
    let level = log::max_level();
    let louder = [LevelFilter::Debug, LevelFilter::Trace].map(|from| level >= from);
    argv.extend(louder.iter().filter(|louder| **louder).map(|_| b"--verbose".to_vec()));
    let mut spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    // It begins its session itself, see `manager::run`.
    spawn.in_our_group();
    if let Some(directory) = directory {
        spawn.directory(directory)?;
    }
    let log = std::io::stderr();
    let descriptors = [null.as_fd(), null.as_fd(), log.as_fd(), theirs.as_fd()];
    let pid = spawn.start(&descriptors, Extra::default(), None);
    Ok((pid.context("cannot start a manager")?, ours))
}

/// Starts a helper that removes the leftovers of a job without a manager, and last its record `file`. `just_died`:
/// the manager lived until now.
pub(super) fn sweeper(record: &File, file: Option<PathBuf>, just_died: bool) -> Result<Pid> {
    let null = null()?;
    let mut argv = vec![b"mpdsweep".to_vec(), b"--sweep".to_vec()];
    if just_died {
        argv.push(b"--just-died".to_vec());
    }
    if let Some(file) = file {
        argv.extend([b"--record-file".to_vec(), file.into_os_string().into_vec()]);
    }
    let mut spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    spawn.in_our_session();
    let log = std::io::stderr();
    spawn
        .start(&[record.as_fd(), null.as_fd(), log.as_fd()], Extra::default(), None)
        .context("cannot start a helper")
}
