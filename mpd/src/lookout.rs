//! A helper process of this executable that examines other processes and writes its findings to a pipe. Examining a
//! process may block (see [`mpd_io::clean_up::shm`]); the owner of the helper must not block.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::spawn::{Extra, Spawn};
use mpd_io::wait::until_ready;
use nix::poll::PollFlags;

/// The process name of a helper.
const NAME: &str = "mpdusers";

/// A running helper. It ends with its task, when this value is dropped, and when its parent ends.
#[derive(Debug)]
pub(crate) struct Lookout {
    /// `None`: a filter of system calls refuses pidfds. Then the helper ends at its next write, or with its parent.
    process: Option<Pidfd>,
    pipe: PipeReader,
}

impl Lookout {
    /// Starts a helper with these arguments. `null` becomes its standard input and error.
    pub(crate) fn start(
        arguments: impl Iterator<Item = String>,
        null: BorrowedFd<'_>,
    ) -> Result<Self> {
        let (pipe, output) = io::pipe().context("no pipe")?;
        let argv = std::iter::once(NAME.to_owned()).chain(arguments).map(String::into_bytes);
        let mut spawn = Spawn::new(b"/proc/self/exe", argv, Vec::<Vec<u8>>::new())?;
        // A new session may wait for seconds on a busy host, and its parent with it (decision 23).
        spawn.die_with_parent().in_our_session();
        let pid = spawn.start(&[null, output.as_fd(), null], Extra::default(), None)?;
        Ok(Self { process: Pidfd::open(pid).ok(), pipe })
    }

    /// Waits until the helper has written something or has ended; `false` after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        matches!(until_ready(&self.pipe, PollFlags::POLLIN, Some(patience)), Ok(true))
    }

    /// The next bytes of the helper; 0 bytes mean its end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(buffer)
    }
}

impl AsRawFd for Lookout {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        // A helper that is blocked by a process would not notice the closed pipe.
        if let Some(process) = &self.process {
            let _ = process.signal(libc::SIGKILL);
        }
    }
}
