//! What a debugged program is executed by: gives it its terminal's settings and its PMI connection.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use mpd_io::passing::{self, Passed};
use mpd_io::{adopt_inherited, place_for_exec, plain_terminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The number of the socket over which the driver passes PMI connections.
pub(crate) const SOCKET_VARIABLE: &str = "MPD_DEBUGGEE_FD";

/// The number at which the program expects its connection.
const PMI_VARIABLE: &str = "PMI_FD";

/// Becomes the program when its connection comes.
pub(crate) fn run_when_told(words: &[OsString]) -> Result<ExitCode> {
    let number = number_in(SOCKET_VARIABLE).context("nobody would say when to begin")?;
    let socket = adopt_inherited(number).context("nobody says when to begin")?;
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    while poll(&mut fds, PollTimeout::NONE) == Err(nix::Error::EINTR) {}
    become_program(words, newest_connection(&socket))
}

/// Becomes the program.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let socket = number_in(SOCKET_VARIABLE).and_then(|number| adopt_inherited(number).ok());
    become_program(words, socket.as_ref().and_then(newest_connection))
}

fn become_program(words: &[OsString], connection: Option<OwnedFd>) -> Result<ExitCode> {
    let Some((program, arguments)) = words.split_first() else { bail!("no program to execute") };
    // One whose input is redirected has other settings to care for.
    let _ = plain_terminal::make_plain(std::io::stdin());
    let mut command = Command::new(program);
    command.args(arguments).env_remove(SOCKET_VARIABLE);
    match connection {
        Some(connection) => {
            let number = number_in(PMI_VARIABLE).context("no PMI_FD")?;
            place_for_exec(connection, number).context("cannot place the PMI connection")?;
        }
        // Without one it may still run alone.
        None => {
            command.env_remove(PMI_VARIABLE);
        }
    }
    // The program is to find closed what we found so.
    mpd_io::close_standard(mpd_io::closed_at_start());
    let error = command.exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

/// The last one that was passed; the others are of runs that never came to this.
fn newest_connection(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut newest = None;
    while let Ok(Passed::Message(_, Some(connection))) = passing::receive(socket) {
        newest = Some(connection);
    }
    newest
}

fn number_in(variable: impl AsRef<OsStr>) -> Option<RawFd> {
    std::env::var(variable).ok()?.parse().ok()
}
