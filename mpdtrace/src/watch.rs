//! Prints events of the ring until the daemon ends or standard output has no reader.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_wire::message::{ConsoleReply, Happening};
use nix::poll::{PollFd, PollFlags};

use crate::ask::AskError;
use crate::tool::OutputError;
use mpd_io::wait;

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
            Err(ConsoleError::Silent(_)) => wait(Some(watch.as_fd()), None)?,
            Err(ConsoleError::Closed) => bail!("the daemon ended"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until `daemon` is readable, at most for `patience`, or until standard output has no reader.
///
/// # Errors
/// [`OutputError`] with `BrokenPipe` when standard output has no reader; those of the system.
pub(crate) fn wait(daemon: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> Result<()> {
    let out = io::stdout();
    let mut fds = vec![PollFd::new(out.as_fd(), PollFlags::empty())];
    fds.extend(daemon.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    wait::wait(&mut fds, patience).context("cannot wait for events")?;
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    if fds[0].revents().is_some_and(|events| events.intersects(gone)) {
        return Err(OutputError::from(io::Error::from(io::ErrorKind::BrokenPipe)).into());
    }
    Ok(())
}
