//! `mpdfork`, the fork server of a daemon: each manager in waiting is a copy of it.
//!
//! The start of a program takes many times as long as a copy of a running one. The C library asks for the features of the
//! processor then, which is slow on virtual machines. The fork server was started once. It has no job, and no secret
//! of the ring or of a job was ever in its memory. For each request it makes a copy that is a child of the daemon.
//!
//! It also guards the control groups of jobs. If the daemon and the manager of a job die together, no other process of MPD
//! ends processes that have left their sessions.

use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use log::LevelFilter;
use mpd_io::network::passing::{self, Passed};
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::priority;
use mpd_io::{Copied, adopt_inherited, copy_beside};

use super::begin;
use super::means::Prepared;

/// A message with a connection for a manager. The answer is the manager's process, or a negated errno, as four bytes in
/// the order of this machine.
pub(crate) const COPY: u8 = 0;
/// A message with the directory of a job's control group. That of its manager follows.
pub(crate) const GROUP: u8 = 1;
/// A message with a pidfd of the manager of the last group.
pub(crate) const MANAGER: u8 = 2;

/// How long the manager of a group may live after the daemon to be one that died with it.
const TOGETHER: Duration = Duration::from_secs(1);

/// Serves the daemon on descriptor 3 until that closes the connection. In a copy, this is a manager.
pub(crate) fn run(level: LevelFilter) -> Result<ExitCode> {
    let prepared = Prepared::new(level)?;
    mpd_channel::prepare();
    priority::of_a_server();
    let daemon = adopt_inherited(3).context("a fork server is started by its daemon only")?;
    let mut daemon = UnixStream::from(daemon);
    let mut guarded = Guarded::default();
    loop {
        let connection = match passing::wait(&daemon).context("cannot read requests")? {
            Passed::Message(COPY, Some(connection)) => connection,
            Passed::Message(GROUP, Some(directory)) => {
                guarded.group = Some(directory);
                continue;
            }
            Passed::Message(MANAGER, Some(manager)) => {
                guarded.add(manager);
                continue;
            }
            Passed::Message(..) | Passed::Nothing => continue,
            Passed::Closed => {
                guarded.end_abandoned();
                return Ok(ExitCode::SUCCESS);
            }
        };
        let answer = match copy_beside() {
            Ok(Copied::Copy) => {
                drop((daemon, guarded));
                return begin::run_copy(connection, prepared);
            }
            Ok(Copied::Original(copy)) => copy.as_raw(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
        };
        // The end of the manager closes its connection only if no one else has it.
        drop(connection);
        if daemon.write_all(&answer.to_ne_bytes()).is_err() {
            guarded.end_abandoned();
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The control groups of jobs, each with the manager of the job.
#[derive(Default)]
struct Guarded {
    groups: Vec<(Cgroup, Pidfd)>,
    /// A group whose manager follows.
    group: Option<OwnedFd>,
}

impl Guarded {
    fn add(&mut self, manager: OwnedFd) {
        // A manager removes its group, and the daemon does if its manager dies.
        self.groups.retain(|(_, manager)| !manager.is_over());
        if let (Some(directory), Ok(manager)) = (self.group.take(), Pidfd::received(manager)) {
            let path = format!("/proc/self/fd/{}", directory.as_raw_fd()).into();
            self.groups.push((Cgroup::adopt(path, directory), manager));
        }
    }

    /// The daemon is dead. Kills the groups whose managers died with it. The others wait for the next daemon.
    fn end_abandoned(&self) {
        let until = Instant::now() + TOGETHER;
        for (group, manager) in &self.groups {
            if manager.wait(until.saturating_duration_since(Instant::now())) {
                group.kill();
            }
        }
    }
}
