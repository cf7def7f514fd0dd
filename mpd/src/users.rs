//! A helper process of a manager: finds who uses files of shared memory. It may have to wait for each process that it
//! looks at (see [`mpd_io::shm`]), which the manager must not.
//!
//! It is this executable again: `--shm-users family|anybody INODE…`. What it finds goes to standard output, each inode
//! as 8 bytes, the least significant first; 0 says that all processes were looked at.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::shm::{Users, tell_users};
use nix::unistd::Pid;

/// Of the processes of the manager's job.
pub(crate) const FAMILY: &str = "family";
/// Of all processes of this host.
pub(crate) const ANYBODY: &str = "anybody";

pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let _ = nix::sys::prctl::set_name(c"mpdusers");
    let [whose, inodes @ ..] = words else { bail!("whose files?") };
    let users = match whose.to_str() {
        Some(FAMILY) => Users::Family(Pid::parent()),
        Some(ANYBODY) => Users::Anybody,
        _ => bail!("neither {FAMILY} nor {ANYBODY}: {}", whose.display()),
    };
    let number = |word: &OsString| word.to_str().and_then(|word| word.parse().ok());
    let wanted =
        inodes.iter().map(number).collect::<Option<_>>().context("an inode is a number")?;
    let mut output = std::io::stdout();
    let mut tell = |inode: u64| {
        output.write_all(&inode.to_le_bytes())?;
        output.flush()
    };
    // A manager that listens no longer has no use for more.
    let told = tell_users(users, wanted, &mut tell).and_then(|()| tell(0));
    Ok(if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
