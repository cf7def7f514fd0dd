//! A helper process of a manager or a sweeper: finds who uses files of shared memory. It may have to wait for each
//! process that it looks at (see [`mpd_io::shm`]), which the manager must not.
//!
//! It is this executable again: `--shm-users family|anybody INODE…`. What it finds goes to standard output, each in 9
//! bytes: the inode, the least significant byte first, and who uses it. The inode 0 says that all processes were
//! looked at.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_io::shm::{User, Users, tell_users};
use nix::unistd::Pid;

use crate::lookout::Lookout;

/// Of the processes of the manager's job, and others.
const FAMILY: &str = "family";
/// Of all processes of this host.
const ANYBODY: &str = "anybody";

/// How long the end of a job waits for the helper. Files that somebody may still use stay then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of one finding.
const FINDING: usize = 9;

/// The helper itself.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let [whose, inodes @ ..] = words else { bail!("whose files?") };
    let users = match whose.to_str() {
        Some(FAMILY) => Users::Family(Pid::parent()),
        Some(ANYBODY) => Users::Anybody,
        _ => bail!("neither {FAMILY} nor {ANYBODY}: {}", whose.display()),
    };
    let number = |word: &OsString| word.to_str().and_then(|word| word.parse().ok());
    let wanted: BTreeSet<u64> =
        inodes.iter().map(number).collect::<Option<_>>().context("an inode is a number")?;
    let mut output = io::stdout();
    let mut tell = |inode: u64, user: User| {
        let mut finding = inode.to_le_bytes().to_vec();
        finding.push(u8::from(user == User::Job));
        output.write_all(&finding)?;
        output.flush()
    };
    // A manager that listens no longer has no use for more.
    let told = tell_users(users, &wanted, &mut tell).and_then(|()| tell(0, User::Stranger));
    Ok(if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Of whom users are to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// New files: users among the processes of the job, which descend from this process, and others.
    New,
    /// Files that the job left: any users.
    Left,
}

/// The end of what a helper has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has looked at all processes.
    Complete,
    /// It has not.
    Cut,
}

/// A helper at work. It ends when it has said all, or is dropped, and with the process that started it.
#[derive(Debug)]
pub(crate) struct Helper {
    lookout: Lookout,
    bytes: Vec<u8>,
    whose: Whose,
}

impl Helper {
    /// `null` stands in for standard input and error.
    pub(crate) fn start(whose: Whose, inodes: &[u64], null: BorrowedFd<'_>) -> Result<Self> {
        let inodes = inodes.iter().map(u64::to_string);
        let users = if whose == Whose::New { FAMILY } else { ANYBODY };
        let words = [crate::cli::SHM_USERS, users].map(str::to_owned);
        let lookout = Lookout::start(words.into_iter().chain(inodes), null)?;
        Ok(Self { lookout, bytes: Vec::new(), whose })
    }

    pub(crate) const fn whose(&self) -> Whose {
        self.whose
    }

    /// Waits until it says something.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        self.lookout.wait(patience)
    }

    /// What it says next; to be called when there is something. What it found, and perhaps the end.
    pub(crate) fn read(&mut self) -> (Vec<(u64, User)>, Option<End>) {
        let mut buffer = [0; 4096];
        let count = match self.lookout.read(&mut buffer) {
            Ok(count @ 1..) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return (Vec::new(), None),
            Ok(0) | Err(_) => return (Vec::new(), Some(End::Cut)),
        };
        self.bytes.extend_from_slice(&buffer[..count]);
        let (findings, rest) = self.bytes.as_chunks::<FINDING>();
        let mut found: Vec<(u64, User)> = findings.iter().map(read_finding).collect();
        self.bytes = rest.to_vec();
        let end = found.iter().position(|&(inode, _)| inode == 0).map(|at| {
            found.truncate(at);
            End::Complete
        });
        (found, end)
    }

    /// Which of these files any process uses; none if it is not found out in time. Waits.
    pub(crate) fn ask(inodes: &[u64], null: BorrowedFd<'_>) -> Result<Option<BTreeSet<u64>>> {
        let mut helper = Self::start(Whose::Left, inodes, null)?;
        let until = Instant::now() + PATIENCE;
        let mut in_use = BTreeSet::new();
        while helper.wait(until.saturating_duration_since(Instant::now())) {
            let (found, end) = helper.read();
            in_use.extend(found.into_iter().map(|(inode, _)| inode));
            if let Some(end) = end {
                return Ok((end == End::Complete).then_some(in_use));
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
