//! A helper process of a manager or a sweeper: finds the users of files of shared memory. Examining a process may
//! block (see [`mpd_io::clean_up::shm`]); a manager must not block.
//!
//! It is this executable again: `--shm-users family|all INODE…`. It writes findings of 9 bytes to standard
//! output: the inode, least significant byte first, and the kind of the user. The inode 0 means that all processes
//! were examined.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_ending::{Completeness, FileKind, HELPER_PATIENCE, User};
use mpd_io::clean_up::shm::{Users, report_users};
use nix::unistd::Pid;

use crate::lookout::Lookout;

/// The argument for users among the processes of the manager's job and others.
const FAMILY: &str = "family";
/// The argument for users among all processes of this host.
const ALL: &str = "all";

/// Bytes of one finding.
const FINDING: usize = 9;

/// Runs the helper.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let [kind, inodes @ ..] = arguments else { bail!("'family' or 'all' is missing") };
    let users = match kind.to_str() {
        Some(FAMILY) => Users::Family(Pid::parent()),
        Some(ALL) => Users::All,
        _ => bail!("neither {FAMILY} nor {ALL}: {}", kind.display()),
    };
    let number = |argument: &OsString| argument.to_str().and_then(|argument| argument.parse().ok());
    let wanted: BTreeSet<u64> =
        inodes.iter().map(number).collect::<Option<_>>().context("an inode is a number")?;
    let mut output = io::stdout();
    let mut report = |inode: u64, user: User| {
        let mut finding = inode.to_le_bytes().to_vec();
        finding.push(u8::from(user == User::Job));
        output.write_all(&finding)?;
        output.flush()
    };
    // Findings are useless once the manager has closed the pipe.
    let reported =
        report_users(users, &wanted, &mut report).and_then(|()| report(0, User::Stranger));
    Ok(if reported.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The owner's side of a running helper. The helper ends with its task, when this value is dropped, and with its
/// parent.
#[derive(Debug)]
pub(crate) struct Helper {
    lookout: Lookout,
    bytes: Vec<u8>,
}

impl Helper {
    /// Starts a helper. `null` becomes its standard input and error.
    pub(crate) fn start(kind: FileKind, inodes: &[u64], null: BorrowedFd<'_>) -> Result<Self> {
        let inodes = inodes.iter().map(u64::to_string);
        let users = if kind == FileKind::New { FAMILY } else { ALL };
        let arguments = [crate::cli::SHM_USERS, users].map(str::to_owned);
        let lookout = Lookout::start(arguments.into_iter().chain(inodes), null)?;
        Ok(Self { lookout, bytes: Vec::new() })
    }

    /// Waits until the helper has written something or has ended; `false` after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        self.lookout.wait(patience)
    }

    /// The next findings, and at the end their completeness. Blocks unless the helper has written something or has
    /// ended.
    pub(crate) fn read(&mut self) -> (Vec<(u64, User)>, Option<Completeness>) {
        let mut buffer = [0; 4096];
        let count = match self.lookout.read(&mut buffer) {
            Ok(count @ 1..) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return (Vec::new(), None),
            Ok(0) | Err(_) => return (Vec::new(), Some(Completeness::Cut)),
        };
        self.bytes.extend_from_slice(&buffer[..count]);
        let (findings, rest) = self.bytes.as_chunks::<FINDING>();
        let mut found: Vec<(u64, User)> = findings.iter().map(read_finding).collect();
        self.bytes = rest.to_vec();
        let end = found.iter().position(|&(inode, _)| inode == 0).map(|at| {
            found.truncate(at);
            Completeness::Complete
        });
        (found, end)
    }

    /// Which of these files any process uses; `None` if the helper needs longer than [`HELPER_PATIENCE`]. Blocks.
    pub(crate) fn ask(inodes: &[u64], null: BorrowedFd<'_>) -> Result<Option<BTreeSet<u64>>> {
        let mut helper = Self::start(FileKind::Left, inodes, null)?;
        let until = Instant::now() + HELPER_PATIENCE;
        let mut in_use = BTreeSet::new();
        while helper.wait(until.saturating_duration_since(Instant::now())) {
            let (found, end) = helper.read();
            in_use.extend(found.into_iter().map(|(inode, _)| inode));
            if let Some(end) = end {
                return Ok((end == Completeness::Complete).then_some(in_use));
            }
        }
        Ok(None)
    }
}

fn read_finding([inode @ .., user]: &[u8; FINDING]) -> (u64, User) {
    (u64::from_le_bytes(*inode), if *user == 1 { User::Job } else { User::Stranger })
}

impl AsRawFd for Helper {
    fn as_raw_fd(&self) -> RawFd {
        self.lookout.as_raw_fd()
    }
}
