//! Waits that block this process: for the terminal at the end of a session, and for a stop.

use std::thread;
use std::time::Duration;

/// Interval between checks.
const STEP: Duration = Duration::from_millis(1);

/// Waits until `is_over` returns true, at most about as long as `patience`.
pub(crate) fn wait_until(patience: Duration, mut is_over: impl FnMut() -> bool) {
    let mut left = patience;
    while !is_over() && left > Duration::ZERO {
        thread::sleep(STEP);
        left = left.saturating_sub(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_condition_or_with_the_patience() {
        let mut checks = 0;
        wait_until(Duration::MAX, || {
            checks += 1;
            checks == 3
        });
        assert_eq!(checks, 3);
        wait_until(STEP * 4, || {
            checks += 1;
            false
        });
        assert_eq!(checks, 3 + 5, "before and after each step");
    }
}
