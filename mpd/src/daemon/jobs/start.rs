//! Starts managers, the fork server and helpers: this executable again with other arguments.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::network::conn::Conn;
use mpd_io::process::spawn::{Extra, Spawn, own_environment};
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
pub(super) fn manager(job: &JobId) -> Result<(Pid, Conn)> {
    let (pid, ours) = serving([cli::MANAGER, "--manager"], &job.to_string(), None)
        .context("cannot start a manager")?;
    Ok((pid, Conn::new(ours)))
}

/// Starts the manager of the only job that this daemon will have, before the daemon is ready itself. The directory in
/// which the user has started it is not kept in use.
pub(crate) fn first_manager() -> Result<(Pid, Conn)> {
    let (pid, ours) = serving([cli::IN_WAITING, "--manager"], &" ".repeat(ROOM), Some(b"/"))
        .context("cannot start a manager")?;
    Ok((pid, Conn::new(ours)))
}

/// Starts the fork server.
pub(super) fn fork_server() -> Result<(Pid, UnixStream)> {
    serving([cli::FORK_SERVER, "--fork-server"], &" ".repeat(ROOM), None)
        .context("cannot start the fork server")
}

/// Starts this executable with these name and role, and a connection as descriptor 3.
fn serving(
    [called, role]: [&str; 2],
    name: &str,
    directory: Option<&[u8]>,
) -> Result<(Pid, UnixStream)> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let null = null()?;
    let mut argv: Vec<Vec<u8>> = vec![called.into(), role.into(), "--name".into(), name.into()];
    // It logs to the daemon's log, at the same level.
    let level = log::max_level();
    let louder = [LevelFilter::Debug, LevelFilter::Trace].map(|from| level >= from);
    argv.extend(louder.iter().filter(|louder| **louder).map(|_| b"--verbose".to_vec()));
    argv.extend((level < LevelFilter::Info).then(|| b"--private".to_vec()));
    let mut spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    // A manager begins its session itself, see `manager::run`.
    spawn.in_our_group();
    if let Some(directory) = directory {
        spawn.directory(directory)?;
    }
    let log = std::io::stderr();
    let descriptors = [null.as_fd(), null.as_fd(), log.as_fd(), theirs.as_fd()];
    Ok((spawn.start(&descriptors, Extra::default(), None)?, ours))
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
