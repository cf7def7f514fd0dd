//! The signals that the state machine distinguishes, by Linux's numbers.

pub(super) const SIGHUP: i32 = 1;
pub(super) const SIGINT: i32 = 2;
pub(super) const SIGQUIT: i32 = 3;
pub(super) const SIGTERM: i32 = 15;
pub(super) const SIGCONT: i32 = 18;
pub(super) const SIGTSTP: i32 = 20;
pub(super) const SIGWINCH: i32 = 28;

/// Whether the signal is a request of the user to end the job.
pub(super) const fn ends(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT)
}
