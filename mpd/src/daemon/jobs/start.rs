//! Starts managers and helpers: this executable again with other arguments.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_wire::JobId;
use nix::unistd::Pid;

/// The stand-in for unused descriptors.
pub(super) fn null() -> Result<OwnedFd> {
    let mut options = OpenOptions::new();
    Ok(options.read(true).write(true).open("/dev/null").context("cannot open /dev/null")?.into())
}

/// Starts a manager. Its descriptors are 3 the daemon, 4 the console, 5 and 6 the console's output and error, 7 the
/// record. For an adopted process also 8 its PMI connection and 9 its pidfd.
pub(super) fn manager(
    job: &JobId,
    daemon: &UnixStream,
    (console, adopted): ([BorrowedFd<'_>; 3], &[OwnedFd]),
    record: &File,
) -> Result<Pid> {
    let null = null()?;
    let [console, stdout, stderr] = console;
    let record = record.as_fd();
    let mut argv =
        vec![b"mpdman".to_vec(), b"--manager".to_vec(), b"--name".to_vec(), job.to_string().into()];
    // The manager logs to the daemon's log, at the same level.
    let level = log::max_level();
    let louder = [LevelFilter::Debug, LevelFilter::Trace].map(|from| level >= from);
    argv.extend(louder.iter().filter(|louder| **louder).map(|_| b"--verbose".to_vec()));
    let spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    let log = std::io::stderr();
    let own =
        [null.as_fd(), null.as_fd(), log.as_fd(), daemon.as_fd(), console, stdout, stderr, record];
    let descriptors: Vec<_> = own.into_iter().chain(adopted.iter().map(AsFd::as_fd)).collect();
    spawn.start(&descriptors, Extra::default(), None).context("cannot start a manager")
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
    let spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    let log = std::io::stderr();
    spawn
        .start(&[record.as_fd(), null.as_fd(), log.as_fd()], Extra::default(), None)
        .context("cannot start a helper")
}
