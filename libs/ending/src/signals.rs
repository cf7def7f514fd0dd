//! The kinds of signals, by their numbers on Linux.

pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGTERM: i32 = 15;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGCHLD: i32 = 17;
pub(crate) const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;
const SIGURG: i32 = 23;
const SIGWINCH: i32 = 28;

/// Whether a signal ends programs that do not handle it.
pub(crate) const fn is_terminating(signal: i32) -> bool {
    // Signal 0 sends nothing.
    !matches!(
        signal,
        0 | SIGWINCH | SIGCONT | SIGCHLD | SIGURG | SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU
    )
}

/// Whether a signal asks a program to end.
pub(crate) const fn asks_to_end(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGTERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_do_not_end_processes_are_known() {
        const SIGUSR1: i32 = 10;
        const SIGRTMAX: i32 = 64;
        assert!([SIGTERM, SIGUSR1, SIGRTMAX].into_iter().all(is_terminating));
        assert!(![0, SIGTSTP, SIGCONT].into_iter().any(is_terminating));
    }
}
