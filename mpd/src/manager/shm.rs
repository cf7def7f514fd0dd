//! Shared memory of the job: which files are its own is found out by a helper process, since whoever looks may have to
//! wait for a rank.

use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_io::pidfd::Pidfd;
use mpd_io::spawn::{Extra, Spawn};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{FIRST_LOOK, MOST_DOUBLINGS, Process, SHM_USERS, Timer, perform};
use crate::users::{ANYBODY, FAMILY};

/// How long the end of the job waits for it. Files that somebody may still use stay then.
const AT_THE_END: Duration = Duration::from_secs(2);

/// The end of what a helper has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has looked at all processes.
    Complete,
    /// It has not.
    Cut,
}

/// A helper at work. It ends when it has said all, or is dropped, and with its manager.
#[derive(Debug)]
pub(super) struct Helper {
    process: Pidfd,
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// None: it looks at the job's processes.
    in_use: Option<BTreeSet<u64>>,
}

impl Helper {
    fn start(whose: &str, inodes: &[u64], null: &OwnedFd) -> Result<Self> {
        let (pipe, its) = io::pipe().context("no pipe")?;
        let inodes = inodes.iter().map(u64::to_string);
        let words = ["mpdusers", crate::cli::SHM_USERS, whose].map(str::to_owned);
        let argv = words.into_iter().chain(inodes).map(String::into_bytes);
        let mut spawn = Spawn::new(b"/proc/self/exe", argv, Vec::<Vec<u8>>::new())?;
        spawn.die_with_parent();
        let pid =
            spawn.start(&[null.as_fd(), its.as_fd(), null.as_fd()], Extra::default(), None)?;
        let process = Pidfd::open(pid).context("the helper")?;
        let in_use = (whose == ANYBODY).then(BTreeSet::new);
        Ok(Self { process, pipe, bytes: Vec::new(), in_use })
    }

    /// Waits until it says something.
    fn wait(&self, patience: Duration) -> bool {
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, patience), Ok(1..))
    }

    /// What it says next; to be called when there is something. An end of it, or what it found.
    fn read(&mut self) -> (Vec<u64>, Option<End>) {
        let mut buffer = [0; 4096];
        let count = match self.pipe.read(&mut buffer) {
            Ok(count @ 1..) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return (Vec::new(), None),
            Ok(0) | Err(_) => return (Vec::new(), Some(End::Cut)),
        };
        self.bytes.extend_from_slice(&buffer[..count]);
        let (numbers, rest) = self.bytes.as_chunks::<8>();
        let mut found: Vec<u64> =
            numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        self.bytes = rest.to_vec();
        let end = found.iter().position(|&inode| inode == 0).map(|at| {
            found.truncate(at);
            End::Complete
        });
        (found, end)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may be waiting for a process, and would not see that nobody listens.
        let _ = self.process.signal(libc::SIGKILL);
    }
}

impl Process {
    /// It is time for the next look whether the job uses new files.
    pub(super) fn look_at_shm(&mut self, looks: u8) {
        if !self.deadly.is_coming() {
            self.find_new_shm();
        }
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Shm(next), self.now() + FIRST_LOOK * (1 << next));
    }

    /// Begins to look whether new files are used by the job, if there are any and nobody is at it.
    pub(super) fn find_new_shm(&mut self) {
        if self.shm_helper.is_none()
            && let Some(wanted) = self.tidy.shm.begin()
        {
            self.find_shm_users(FAMILY, &wanted);
        }
    }

    /// Removes files of the job that nobody uses any more, and all else that it left.
    pub(super) fn tidy_shm(&mut self) {
        (0..=MOST_DOUBLINGS).for_each(|looks| self.timers.stop(Timer::Shm(looks)));
        let left = self.tidy.shm.left();
        self.shm_helper = None;
        if !left.is_empty() {
            self.find_shm_users(ANYBODY, &left);
        }
        match self.shm_helper {
            Some(_) => self.timers.set(Timer::ShmUsers, self.now() + AT_THE_END),
            None => self.tidied_shm(None),
        }
    }

    /// The helper took too long.
    pub(super) fn shm_users_are_due(&mut self) {
        if self.shm_helper.take().is_some() {
            log::warn!(
                "shared memory of the job is left: whether others use it was not found out in time"
            );
            self.tidied_shm(None);
        }
    }

    fn find_shm_users(&mut self, whose: &str, inodes: &[u64]) {
        self.shm_helper = Helper::start(whose, inodes, &self.null)
            .and_then(|helper| {
                let fd = helper.pipe.as_raw_fd();
                let registry = self.poll.registry();
                registry.register(&mut SourceFd(&fd), Token(SHM_USERS), Interest::READABLE)?;
                Ok(helper)
            })
            .inspect_err(|e| log::warn!("cannot find out who uses shared memory: {e:#}"))
            .ok();
    }

    /// Hears what the helper has to say, if there is something.
    pub(super) fn hear_shm_helper(&mut self) {
        while let Some(helper) = &mut self.shm_helper
            && helper.wait(Duration::ZERO)
        {
            let (found, end) = helper.read();
            match &mut helper.in_use {
                Some(in_use) => in_use.extend(found),
                None => found.into_iter().for_each(|inode| self.tidy.shm.found(inode)),
            }
            let Some(end) = end else { continue };
            let in_use = self.shm_helper.take().and_then(|mut helper| helper.in_use.take());
            match (in_use, end) {
                (None, End::Complete) => {
                    self.tidy.shm.conclude();
                    self.go_on_ending();
                }
                (None, End::Cut) => self.go_on_ending(),
                (Some(in_use), End::Complete) => self.tidied_shm(Some(&in_use)),
                (Some(_), End::Cut) => self.tidied_shm(None),
            }
        }
    }

    fn tidied_shm(&mut self, in_use: Option<&BTreeSet<u64>>) {
        self.timers.stop(Timer::ShmUsers);
        self.tidy.remove(in_use);
        perform::forget(&self.order, self.cgroup.take());
        self.tidied();
    }
}
