//! Prints events of the ring until the daemon ends or standard output has no reader.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_io::console::{Console, ConsoleError};
use mpd_wire::message::{ConsoleReply, Happening};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::ask::AskError;
use crate::tool::OutputError;

/// Calls `show` with each event. Returns only with an error: of the daemon's connection or of
/// `show`.
///
/// # Errors
/// When the daemon ends; [`OutputError`] with `BrokenPipe` when standard output has no reader.
pub fn follow(
    watch: &mut Console,
    mut show: impl FnMut(&Happening) -> Result<(), OutputError>,
) -> Result<()> {
    loop {
        match watch.answer(Some(Duration::ZERO)) {
            Ok(ConsoleReply::Event(happening)) => show(&happening)?,
            Ok(_) => return Err(AskError::UNFIT.into()),
            Err(ConsoleError::Silent(_)) => await_either(watch)?,
            Err(ConsoleError::Closed) => bail!("the daemon ended"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for a message of the daemon or for the end of standard output's reader.
fn await_either(watch: &Console) -> Result<()> {
    let out = io::stdout();
    let mut fds = [
        PollFd::new(watch.as_fd(), PollFlags::POLLIN),
        PollFd::new(out.as_fd(), PollFlags::empty()),
    ];
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("cannot wait for events"),
    }
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    if fds[1].revents().is_some_and(|events| events.intersects(gone)) {
        return Err(OutputError::from(io::Error::from(io::ErrorKind::BrokenPipe)).into());
    }
    Ok(())
}
