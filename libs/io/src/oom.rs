//! What happens when memory runs out: which processes the kernel kills first, and how many it has killed.

use std::fs;
use std::io;

use nix::unistd::Pid;

use crate::procfile;

/// The kernel kills a rank before its manager: the manager reports the reason and cleans up.
pub const OF_RANKS: i16 = 500;

/// The kernel kills root's daemon last. Only root may lower the value.
pub const OF_ROOTS_DAEMON: i16 = -500;

/// How readily the kernel kills this process, from -1000 (never) to 1000: `oom_score_adj` of `proc(5)`.
///
/// # Errors
/// Those of `/proc`.
pub fn readiness() -> io::Result<i16> {
    let text = procfile::record("/proc/self/oom_score_adj")?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets the value for this process and for processes that it starts from now on. Every user may raise it.
///
/// # Errors
/// `PermissionDenied` if the value is lower and the process may not lower it.
pub fn set_readiness(readiness: i16) -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", readiness.to_string())
}

/// Sets the value for a process of the same user.
///
/// # Errors
/// As for [`set_readiness`], and `NotFound` if the process has ended.
pub fn set_readiness_of(pid: Pid, readiness: i16) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/oom_score_adj"), readiness.to_string())
}

/// How many processes the kernel has killed for lack of memory since the system started, in control groups or not:
/// `oom_kill` of `/proc/vmstat`, since Linux 4.13.
pub fn kills() -> Option<u64> {
    let text = procfile::table("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_raise_its_readiness_and_the_system_counts_kills() {
        let before = readiness().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        set_readiness_of(pid, before.max(OF_RANKS)).unwrap();
        let path = format!("/proc/{pid}/oom_score_adj");
        let set: i16 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(set, before.max(OF_RANKS));
        assert_eq!(readiness().unwrap(), before);
        assert_eq!(set_readiness_of(pid, 1000).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(kills().is_some());
    }
}
