//! A helper process of a manager: finds a rank that uses an MPI library which does not speak PMI.
//!
//! It is this executable again, with `--mpi-users PID…`, the processes of ranks. It writes the process id of the
//! first such rank, a space and the file of the library to standard output.

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

/// Most ranks that the helper examines.
const MAX_RANKS: usize = 4096;

/// Most bytes of a finding. A longer file name is cut.
const MAX_FOUND: usize = 1024;

/// Runs the helper.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let pid = |argument: &OsString| argument.to_str()?.parse().ok().map(Pid::from_raw);
    let ranks: Vec<Pid> =
        arguments.iter().map(pid).collect::<Option<_>>().context("a process id is a number")?;
    if let Some((rank, library)) = mpd_io::process::without_pmi::find(&ranks) {
        let mut found = format!("{rank} ").into_bytes();
        found.extend_from_slice(library.as_os_str().as_bytes());
        found.truncate(MAX_FOUND);
        io::stdout().write_all(&found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The manager's side of a running helper.
#[derive(Debug)]
pub(crate) struct Search {
    ranks: Vec<(Rank, Pid)>,
    lookout: Lookout,
    bytes: Vec<u8>,
}

impl Search {
    /// Starts a helper for these processes of ranks and their descendants. `null`: see [`Lookout::start`].
    pub(crate) fn start(mut ranks: Vec<(Rank, Pid)>, null: BorrowedFd<'_>) -> Result<Self> {
        ranks.truncate(MAX_RANKS);
        let arguments = std::iter::once(crate::cli::MPI_USERS.to_owned());
        let pids = ranks.iter().map(|(_, pid)| pid.to_string());
        let lookout = Lookout::start(arguments.chain(pids), null)?;
        Ok(Self { ranks, lookout, bytes: Vec::new() })
    }

    /// The rank and the file of its library, or `None` for no such rank, once the helper has ended. Does not wait.
    pub(crate) fn receive(&mut self) -> Option<Option<(Rank, String)>> {
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
        Some((rank, mpd_io::files::logging::one_line(library)))
    }
}

impl AsRawFd for Search {
    fn as_raw_fd(&self) -> RawFd {
        self.lookout.as_raw_fd()
    }
}
