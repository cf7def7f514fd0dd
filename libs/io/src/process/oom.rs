//! What happens when memory runs out: which processes the kernel kills first, and how many it has killed.

use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::process::procfile;
use crate::process::spawn::Fate;

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

/// Lowers the value for this process and for processes that it starts from now on, if it is higher.
///
/// # Errors
/// `PermissionDenied` if the process may not lower it.
pub fn lower_readiness(readiness: i16) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open("/proc/self/oom_score_adj")?;
    let mut text = [0; 8];
    let length = file.read(&mut text)?;
    let own = str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
    if own.is_some_and(|own: i16| own > readiness) {
        file.write_all(readiness.to_string().as_bytes())?;
    }
    Ok(())
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
    procfile::row("/proc/vmstat", |line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The time on the clock of the kernel's log.
pub fn log_time() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

/// A process that the kernel has killed for lack of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub pid: i32,
    /// The name of its program, as the kernel knows it.
    pub name: String,
}

/// The victims that the kernel's log names since that time. `None`: this process may not read the log, or the log has
/// numbers of another process namespace.
pub fn victims(since: Duration) -> Option<Vec<Victim>> {
    /// The first process namespace of a system has this number (`PROC_PID_INIT_INO`).
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    if fs::read_link("/proc/self/ns/pid").ok()?.to_str() != Some(FIRST_NAMESPACE) {
        return None;
    }
    let log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    victims_in(log.ok()?, since)
}

/// Whether the kernel's log says that it has killed a child, which has just been reaped, for lack of memory.
pub fn is_victim(pid: Pid, fate: Option<Fate>) -> bool {
    /// The record is this old at most. Numbers of processes are reused later.
    const RECENT: Duration = Duration::from_secs(10);
    let is_killed = matches!(fate, Some(Fate::Killed { signal: libc::SIGKILL, .. }));
    let recent = || victims(log_time().saturating_sub(RECENT)).into_iter().flatten();
    is_killed && recent().any(|victim| victim.pid == pid.as_raw())
}

/// Each read returns one record. Records that were overwritten meanwhile are left out.
fn victims_in(mut log: File, since: Duration) -> Option<Vec<Victim>> {
    /// Most records that are read. The log of a usual system has fewer.
    const MAX_RECORDS: usize = 50_000;
    let mut record = [0; 8 << 10];
    let mut found = Vec::new();
    for _ in 0..MAX_RECORDS {
        match log.read(&mut record) {
            Ok(0) => return Some(found),
            Ok(read) => found.extend(victim_in(&record[..read], since)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => return Some(found),
                Some(libc::EPIPE | libc::EINTR | libc::EINVAL) => {}
                _ => return None,
            },
        }
    }
    None
}

/// The victim that a record of the log names, like
/// `3,1184,52718263,-;Out of memory: Killed process 512 (solver) total-vm:…`. The third number is the time in
/// microseconds.
fn victim_in(record: &[u8], since: Duration) -> Option<Victim> {
    let text = String::from_utf8_lossy(record);
    let (head, text) = text.split_once(';')?;
    let time = Duration::from_micros(head.split(',').nth(2)?.parse().ok()?);
    let (_, killed) = text.split_once("Killed process ")?;
    let (pid, name) = killed.split_once(" (")?;
    // The name may contain brackets.
    let (name, _) = name.split_once(") total-vm:")?;
    let pid = pid.parse().ok()?;
    (time >= since).then(|| Victim { pid, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_victims_of_the_time_that_is_asked_for() {
        let since = Duration::from_secs(50);
        let victim = |pid, name: &str| Some(Victim { pid, name: name.to_owned() });
        for (record, expected) in [
            (
                "3,1,52000000,-;Out of memory: Killed process 512 (a b) total-vm:8kB",
                victim(512, "a b"),
            ),
            (
                "3,1,50000000,-;Memory cgroup out of memory: Killed process 7 (a) (b) c) total-vm:8kB",
                victim(7, "a) (b) c"),
            ),
            ("3,1,49999999,-;Out of memory: Killed process 512 (a) total-vm:8kB", None),
            ("6,1,52000000,-;oom_reaper: reaped process 512 (a), now anon-rss:0kB", None),
            ("6,1,52000000,-;eth0: link up", None),
            ("6,1", None),
        ] {
            assert_eq!(victim_in(record.as_bytes(), since), expected, "{record}");
        }
    }

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
        lower_readiness(before).unwrap();
        assert_eq!(readiness().unwrap(), before);
        assert_eq!(set_readiness_of(pid, 1000).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(kills().is_some());
    }
}
