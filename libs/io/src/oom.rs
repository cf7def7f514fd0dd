//! What happens when memory runs out: whom the kernel ends first, and whether it has ended somebody.

use std::fs;
use std::io;

use nix::unistd::Pid;

/// A rank goes before what manages it: the manager tells why, and cleans up.
pub const OF_RANKS: i16 = 500;

/// A root's daemon stays until nothing else is left; nobody else may ask for that.
pub const OF_ROOTS_DAEMON: i16 = -500;

/// How readily this process is ended, from -1000 (never) to 1000: `oom_score_adj` of `proc(5)`.
///
/// # Errors
/// Of `/proc`.
pub fn readiness() -> io::Result<i16> {
    let text = fs::read_to_string("/proc/self/oom_score_adj")?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets it, for this process and those that it starts from now on. Anybody may raise it.
///
/// # Errors
/// `PermissionDenied` for who lowers it and may not.
pub fn set_readiness(readiness: i16) -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", readiness.to_string())
}

/// Sets it for a process of the same user.
///
/// # Errors
/// As [`set_readiness`], and `NotFound` if the process has ended.
pub fn set_readiness_of(pid: Pid, readiness: i16) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/oom_score_adj"), readiness.to_string())
}

/// How many processes the kernel has ended for want of memory since the system started, in control groups or
/// not: `oom_kill` of `/proc/vmstat`, since Linux 4.13.
pub fn kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_be_made_to_go_earlier_and_the_system_counts_whom_it_ended() {
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
