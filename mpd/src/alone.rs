//! A helper process of a manager: finds a rank that uses an MPI library which does not speak PMI.
//!
//! It is this executable again: `--mpi-users PID…`, the processes of ranks. Of the first that is found it writes the
//! process id, a space and the library's file to standard output.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_wire::Rank;
use nix::unistd::Pid;

use crate::lookout::Lookout;

/// Most ranks that are looked at.
const MAX_RANKS: usize = 4096;

/// Most bytes that a helper has to say: longer names of files are cut.
const MAX_FOUND: usize = 1024;

/// The helper itself.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let pid = |word: &OsString| word.to_str()?.parse().ok().map(Pid::from_raw);
    let ranks: Vec<Pid> =
        words.iter().map(pid).collect::<Option<_>>().context("a process id is a number")?;
    if let Some((rank, library)) = mpd_io::alone::find(&ranks) {
        let mut found = format!("{rank} ").into_bytes();
        found.extend_from_slice(library.as_os_str().as_bytes());
        found.truncate(MAX_FOUND);
        io::stdout().write_all(&found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A helper at work.
#[derive(Debug)]
pub(crate) struct Search {
    ranks: Vec<(Rank, Pid)>,
    lookout: Lookout,
    bytes: Vec<u8>,
}

impl Search {
    /// Among these processes of ranks and their descendants.
    pub(crate) fn start(mut ranks: Vec<(Rank, Pid)>, null: BorrowedFd<'_>) -> Result<Self> {
        ranks.truncate(MAX_RANKS);
        let words = std::iter::once(crate::cli::MPI_USERS.to_owned());
        let pids = ranks.iter().map(|(_, pid)| pid.to_string());
        let lookout = Lookout::start(words.chain(pids), null)?;
        Ok(Self { ranks, lookout, bytes: Vec::new() })
    }

    /// The rank that it has found and the file of its library, once it has ended. Does not wait.
    pub(crate) fn hear(&mut self) -> Option<Option<(Rank, String)>> {
        let mut buffer = [0; MAX_FOUND];
        while self.lookout.wait(Duration::ZERO) {
            match self.lookout.read(&mut buffer) {
                Ok(count @ 1..) if self.bytes.len() < MAX_FOUND => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return Some(self.found()),
            }
        }
        None
    }

    fn found(&self) -> Option<(Rank, String)> {
        let text = String::from_utf8_lossy(&self.bytes);
        let (pid, library) = text.split_once(' ')?;
        let pid = Pid::from_raw(pid.parse().ok()?);
        let &(rank, _) = self.ranks.iter().find(|(_, of)| *of == pid)?;
        Some((rank, mpd_io::logging::one_line(library)))
    }
}

impl AsRawFd for Search {
    fn as_raw_fd(&self) -> RawFd {
        self.lookout.as_raw_fd()
    }
}
