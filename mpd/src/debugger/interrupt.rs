//! What a program is interrupted by.

use std::fs;

/// Threads that are looked at.
const MAX_THREADS: usize = 1024;

/// SIGINT, which its debugger sees even if the program ignores it, but not while every thread blocks it:
/// then SIGSTOP.
pub(super) fn signal_for(pid: u32) -> i32 {
    if blocks_interrupts(pid) { libc::SIGSTOP } else { libc::SIGINT }
}

fn blocks_interrupts(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut masks = threads.take(MAX_THREADS).filter_map(|thread| {
        // One that has just ended takes no signal.
        let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        blocked(&status)
    });
    let bit = 1_u64 << (libc::SIGINT - 1);
    let blocks = |mask| mask & bit != 0;
    masks.next().is_some_and(blocks) && masks.all(blocks)
}

/// The blocked signals in a `status` file, see proc_pid_status(5).
fn blocked(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_blocked_signals_is_found() {
        let status = "Name:\tx\nSigPnd:\t0000000000000002\nSigBlk:\t0000000000000202\n";
        assert_eq!(blocked(status), Some(0x202));
        assert_eq!(blocked("Name:\tx\n"), None);
        assert_eq!(signal_for(std::process::id()), libc::SIGINT);
    }
}
