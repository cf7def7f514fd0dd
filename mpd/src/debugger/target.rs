//! What there is to attach to in the place of a rank whose crashes are caught: its process is a watcher, which
//! traces the program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use mpd_io::tracer::caught_by;
use nix::unistd::Pid;

use crate::cli::{HOLDER, WATCHER_NAME};

/// The process to attach to for that of a rank: itself, or what its watcher holds.
///
/// # Errors
/// It is traced by its watcher, and by nobody else.
pub(super) fn of(process: u32) -> Result<u32> {
    let path = PathBuf::from(format!("/proc/{process}/cmdline"));
    let words = std::fs::read(path).unwrap_or_default();
    let mut words = words.split(|&byte| byte == 0).map(OsStr::from_bytes);
    if words.next() != Some(OsStr::new(WATCHER_NAME)) {
        return Ok(process);
    }
    let watcher = Pid::from_raw(i32::try_from(process)?);
    let holds = words.next() == Some(OsStr::new(HOLDER));
    match caught_by(watcher).first() {
        Some(pid) if holds => Ok(pid.as_raw().unsigned_abs()),
        _ if holds => {
            bail!(
                "cannot attach: this rank runs with -on-crash and has not crashed; -r names ranks"
            )
        }
        _ => bail!("cannot attach: this rank runs with -on-crash, and its watcher traces it"),
    }
}
