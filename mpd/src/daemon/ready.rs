//! The pipe to the process that started this daemon and waits until it serves.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The pipe; `None` after the first message.
#[derive(Debug)]
pub(super) struct Ready(Option<File>);

impl Ready {
    /// The write end of the pipe, if a process waits.
    pub(super) const fn new(pipe: Option<File>) -> Self {
        Self(pipe)
    }

    /// Writes the first message and closes the pipe. Later messages are dropped.
    pub(super) fn report(&mut self, text: &str) {
        if let Some(mut pipe) = self.0.take()
            && let Err(e) = pipe.write_all(text.as_bytes())
        {
            log::warn!("cannot report readiness: {e}");
        }
    }

    /// Whether the waiting process has ended before the first message.
    pub(super) fn is_deserted(&self) -> bool {
        let Some(pipe) = &self.0 else { return false };
        let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}
