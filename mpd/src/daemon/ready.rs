//! The pipe to the process that started this daemon and waits until it serves.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// See the module.
#[derive(Debug)]
pub(super) struct Ready(Option<File>);

impl Ready {
    /// The write end of that pipe, if a process waits.
    pub(super) const fn new(told: Option<File>) -> Self {
        Self(told)
    }

    /// Writes the first message and closes the pipe. Later messages are dropped.
    pub(super) fn tell(&mut self, word: &str) {
        if let Some(mut told) = self.0.take()
            && let Err(e) = told.write_all(word.as_bytes())
        {
            log::warn!("nobody waits for the daemon: {e}");
        }
    }

    /// Whether the waiting process has ended before the first message.
    pub(super) fn is_deserted(&self) -> bool {
        let Some(told) = &self.0 else { return false };
        let mut fds = [PollFd::new(told.as_fd(), PollFlags::empty())];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}
