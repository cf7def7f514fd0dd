//! The signal that interrupts a program.

use std::fs;

use mpd_io::process::signals;
use nix::unistd::Pid;

/// Most threads that are examined.
const MAX_THREADS: usize = 1024;

/// SIGINT, or SIGSTOP if every thread blocks SIGINT. A debugger gets SIGINT even if the program ignores it, but not
/// if the program blocks it.
pub(super) fn signal_for(pid: u32) -> i32 {
    if blocks_interrupts(pid) { libc::SIGSTOP } else { libc::SIGINT }
}

fn blocks_interrupts(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut masks = threads.take(MAX_THREADS).filter_map(|thread| {
        // A thread that has just ended gets no signal.
        signals::blocked(Pid::from_raw(thread.ok()?.file_name().to_str()?.parse().ok()?))
    });
    let bit = 1_u64 << (libc::SIGINT - 1);
    let blocks = |mask| mask & bit != 0;
    masks.next().is_some_and(blocks) && masks.all(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_blocks_no_interrupts_gets_sigint() {
        assert_eq!(signal_for(std::process::id()), libc::SIGINT);
    }
}
