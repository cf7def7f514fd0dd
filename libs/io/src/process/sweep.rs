//! Kills the remaining processes of a job without a manager, by the cookie in their environment.
//!
//! This is used only if the kernel's parent-child relation is lost: a daemon and its manager both died, and init
//! adopted the orphans. A process of the job has `MPD_JOB_COOKIE=` in `/proc/PID/environ`. A pidfd holds the process
//! during this check, and the kill goes through that pidfd, never to a number that may have been reused. Only where the
//! system has no pidfds, it goes to the number, right after the check.

use std::fs;
use std::os::fd::AsRawFd;

use mpd_wire::job::same_secret;
use nix::libc::{self, SIGKILL};
use nix::unistd::Pid;

use crate::process::tree::all_processes;
use crate::raw::{self, pidfd_open, pidfd_signal};

/// Variable in the environment of every process of a job.
pub const COOKIE: &str = "MPD_JOB_COOKIE";

/// Most rounds over all processes; then the sweep gives up.
const MAX_ROUNDS: usize = 200;

/// Kills every process whose environment has this cookie, until a round over all processes finds no further one.
/// Returns how many were killed, and whether the last round was clean.
///
/// Processes are visited in order of their number, and new numbers beyond the last one are visited, too. So a process
/// that keeps forking, whose numbers grow, is overtaken.
pub fn kill_by_cookie(cookie: &str) -> (usize, bool) {
    let mut killed = 0;
    let mut clean = 0;
    for _ in 0..MAX_ROUNDS {
        let found = sweep_once(cookie.as_bytes());
        killed += found;
        clean = if found == 0 { clean + 1 } else { 0 };
        // A process may have forked during the first clean round.
        if clean == 2 {
            return (killed, true);
        }
    }
    (killed, false)
}

/// Whether this process has that cookie in its environment. It must be a child of the caller, so that its number is not
/// reused meanwhile.
pub fn carries(pid: Pid, cookie: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    has(&environment, cookie.as_bytes())
}

fn has(environment: &[u8], cookie: &[u8]) -> bool {
    let value = |variable: &[u8]| {
        let rest = variable.strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"=")?;
        Some(same_secret(rest, cookie))
    };
    environment.split(|&byte| byte == 0).filter_map(value).any(|is_same| is_same)
}

fn sweep_once(cookie: &[u8]) -> usize {
    let others = all_processes().filter(|&pid| pid != Pid::this());
    others.filter(|pid| kill_if_carries(pid.as_raw().unsigned_abs(), cookie)).count()
}

fn kill_if_carries(pid: u32, cookie: &[u8]) -> bool {
    let pidfd = match pidfd_open(pid) {
        Ok(pidfd) => Some(pidfd),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return false,
        // A filter of system calls refuses pidfds, or no descriptor is left. Processes of the job must end nevertheless.
        Err(_) => None,
    };
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    has(&environment, cookie)
        && match pidfd {
            Some(pidfd) => pidfd_signal(pidfd.as_raw_fd(), SIGKILL).is_ok(),
            None => raw::kill(pid.cast_signed(), SIGKILL).is_ok(),
        }
}
