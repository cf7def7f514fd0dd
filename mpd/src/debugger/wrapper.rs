//! What a debugged program is executed by: gives it its terminal's settings and its PMI connection.

use std::ffi::{OsStr, OsString};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use mpd_io::passing::{self, Passed};
use mpd_io::{adopt_inherited, place_for_exec, plain_terminal};

/// The number of the socket over which the driver passes PMI connections.
pub(super) const SOCKET_VARIABLE: &str = "MPD_DEBUGGEE_FD";

/// The number at which the program expects its connection.
const PMI_VARIABLE: &str = "PMI_FD";

/// Becomes the program.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let Some((program, arguments)) = words.split_first() else { bail!("no program to execute") };
    // One whose input is redirected has other settings to care for.
    let _ = plain_terminal::make_plain(std::io::stdin());
    let mut command = Command::new(program);
    command.args(arguments).env_remove(SOCKET_VARIABLE);
    match newest_connection() {
        Some(connection) => {
            let number = number_in(PMI_VARIABLE).context("no PMI_FD")?;
            place_for_exec(connection, number).context("cannot place the PMI connection")?;
        }
        // Without one it may still run alone.
        None => {
            command.env_remove(PMI_VARIABLE);
        }
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

/// The last one that was passed; the others are of runs that never came to this.
fn newest_connection() -> Option<OwnedFd> {
    let socket = adopt_inherited(number_in(SOCKET_VARIABLE)?).ok()?;
    let mut newest = None;
    while let Ok(Passed::Message(_, Some(connection))) = passing::receive(&socket) {
        newest = Some(connection);
    }
    newest
}

fn number_in(variable: impl AsRef<OsStr>) -> Option<RawFd> {
    std::env::var(variable).ok()?.parse().ok()
}
