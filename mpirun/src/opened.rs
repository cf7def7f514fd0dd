//! The debugger that opens at ranks which crashed: this executable as `mpigdb -p JOB -r RANKS`, on our terminal and
//! in our process group, so that the terminal's keys reach both; we take no notice then.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};

use anyhow::{Context as _, Result};
use mpd_io::pidfd::Pidfd;
use mpd_io::spawn::{Extra, Fate, Spawn, fate_of, own_environment};
use mpd_wire::{JobId, RankSet};
use nix::unistd::Pid;

use crate::debug::NAME;
use crate::place::Place;

/// A debugger that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    process: Pid,
    pidfd: Pidfd,
}

impl Opened {
    /// Opens it at ranks of our job.
    ///
    /// # Errors
    /// There can be no process.
    pub(crate) fn at(place: &Place, job: &JobId, ranks: &RankSet, gdb: &[u8]) -> Result<Self> {
        let words = [NAME, "-p", &job.to_string(), "-r", &ranks.to_string(), "-gdb-path"];
        let words = words.map(|word| word.as_bytes().to_vec()).into_iter();
        let words = words.chain([gdb.to_vec()]).chain(place.words());
        let mut spawn = Spawn::new(b"/proc/self/exe", words, own_environment())?;
        // It puts the terminal in order before it ends.
        spawn.in_our_group().end_with_parent();
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let descriptors = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let process = spawn.start(&descriptors, Extra::default(), None)?;
        let pidfd = Pidfd::open(process).context("the debugger that was opened")?;
        Ok(Self { process, pidfd })
    }

    /// Whether it has ended, and then whether it was a session.
    pub(crate) fn has_ended(&self) -> Option<bool> {
        match fate_of(self.process) {
            Ok(None | Some(Fate::Stopped)) => None,
            Ok(Some(fate)) => Some(fate == Fate::Exited(0)),
            Err(_) => Some(false),
        }
    }

    /// It is to end.
    pub(crate) fn end(&self) {
        let _ = self.pidfd.signal(libc::SIGTERM);
    }
}

impl AsRawFd for Opened {
    /// Readable when it has ended.
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}
