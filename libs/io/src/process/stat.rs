//! `/proc/PID/stat`, see proc_pid_stat(5).

use nix::unistd::Pid;

use crate::process::procfile;

/// Milliseconds per clock tick: the kernel reports times in hundredths of a second on all supported machines.
pub(crate) const TICK_MS: u64 = 10;

/// The kernel's data about a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    /// CPU time in ticks: its own, and that of children that it has reaped.
    pub(crate) ticks: u64,
    /// How many threads it has.
    pub(crate) threads: u32,
    /// The time of its start in milliseconds since boot.
    pub(crate) began_ms: u64,
}

impl Stat {
    /// `None` if there is no such process.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::read(&procfile::record(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The data of a thread of a process; `None` if there is no such thread.
    pub(crate) fn of_thread(pid: Pid, thread: u32) -> Option<Self> {
        Self::read(&procfile::record(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        // The name may contain any byte; the rest of the line contains no bracket.
        let rest = text.rsplit_once(") ")?.1;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let times = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>());
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: times.sum::<Result<u64, _>>().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            began_ms: fields.get(19)?.parse::<u64>().ok()?.checked_mul(TICK_MS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_numbers() {
        let text = "7 (a) R (b c) S 3 7 7 0 -1 0 0 0 0 0 10 20 3 4 20 0 1 0 99 0 0 0";
        let stat = Stat { state: 'S', parent: 3, ticks: 37, threads: 1, began_ms: 990 };
        assert_eq!(Stat::read(text), Some(stat));
        assert_eq!(Stat::read("7 (a) S 3"), None);
    }
}
