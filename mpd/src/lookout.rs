//! A process of this executable that looks at other processes and writes what it finds to a pipe. It may have to wait
//! for a process that it looks at (see [`mpd_io::shm`]), which its owner must not.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_io::pidfd::Pidfd;
use mpd_io::spawn::{Extra, Spawn};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What such a process is called among processes.
const NAME: &str = "mpdusers";

/// It ends when it has said all, or is dropped, and with the process that started it.
#[derive(Debug)]
pub(crate) struct Lookout {
    process: Pidfd,
    pipe: PipeReader,
}

impl Lookout {
    /// With these words on its command line; `null` stands in for standard input and error.
    pub(crate) fn start(words: impl Iterator<Item = String>, null: BorrowedFd<'_>) -> Result<Self> {
        let (pipe, its) = io::pipe().context("no pipe")?;
        let argv = std::iter::once(NAME.to_owned()).chain(words).map(String::into_bytes);
        let mut spawn = Spawn::new(b"/proc/self/exe", argv, Vec::<Vec<u8>>::new())?;
        spawn.die_with_parent();
        let pid = spawn.start(&[null, its.as_fd(), null], Extra::default(), None)?;
        let process = Pidfd::open(pid).context("the helper")?;
        Ok(Self { process, pipe })
    }

    /// Waits until it says something.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, patience), Ok(1..))
    }

    /// What it says next; 0 bytes are the end.
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
        // It may be waiting for a process, and would not see that nobody listens.
        let _ = self.process.signal(libc::SIGKILL);
    }
}
