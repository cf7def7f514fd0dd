//! Killing what is left of a job that has no manager any more, by the cookie in its environment.
//!
//! Used only when the kernel's parent-child relation is lost: a daemon and its manager both died and
//! orphans went to init. A process is recognised by `MPD_JOB_COOKIE=` in `/proc/PID/environ`, held by
//! a pidfd while it is looked at, and killed through that pidfd: never by a number that may have been
//! reused.

use std::fs;
use std::os::fd::AsRawFd;

use nix::libc::SIGKILL;
use nix::unistd::Pid;

use crate::raw::{pidfd_open, pidfd_signal};
use crate::tree::everybody;

/// Variable that every process of a job carries.
pub const COOKIE: &str = "MPD_JOB_COOKIE";

/// Rounds of looking after which the sweep gives up.
const MAX_ROUNDS: usize = 200;

/// Kills every process whose environment has this cookie, until a round over all processes finds
/// none. Returns how many were killed, and whether the last round was clean.
///
/// Processes are visited in order of their number and new ones are looked for behind the last, so
/// that a process that keeps forking (new numbers grow) is overtaken.
pub fn kill_by_cookie(cookie: &str) -> (usize, bool) {
    let wanted = format!("{COOKIE}={cookie}");
    let mut killed = 0;
    let mut clean = 0;
    for _ in 0..MAX_ROUNDS {
        let found = sweep_once(wanted.as_bytes());
        killed += found;
        clean = if found == 0 { clean + 1 } else { 0 };
        // A process may have forked behind the first clean round's back.
        if clean == 2 {
            return (killed, true);
        }
    }
    (killed, false)
}

fn sweep_once(wanted: &[u8]) -> usize {
    let others = everybody().filter(|&pid| pid != Pid::this());
    others.filter(|pid| kill_if_carries(pid.as_raw().unsigned_abs(), wanted)).count()
}

fn kill_if_carries(pid: u32, wanted: &[u8]) -> bool {
    let Ok(pidfd) = pidfd_open(pid) else { return false };
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|&b| b == 0).any(|variable| variable == wanted)
        && pidfd_signal(pidfd.as_raw_fd(), SIGKILL).is_ok()
}
