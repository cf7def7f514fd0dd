//! Waiting for other processes: by polling, because most changes cause no event.

use std::time::{Duration, Instant};

/// The shortest pause between two polls.
const POLL: Duration = Duration::from_millis(3);
/// The longest one for conditions that take long to check.
const LONG_POLL: Duration = Duration::from_millis(60);
/// A pause is this many times as long as the check before it, so that polls take a fifth of a CPU at most.
const REST: u32 = 4;

/// Deadlines of a slow or busy machine: `MPD_TEST_SCALE` times the normal ones.
#[must_use]
pub fn scaled(time: Duration) -> Duration {
    let scale = std::env::var("MPD_TEST_SCALE").ok().and_then(|text| text.parse().ok());
    time.mul_f64(scale.unwrap_or(1.0))
}

/// Polls until the condition is true.
///
/// # Panics
/// After 15 seconds, scaled, with the name of the condition.
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(Duration::from_secs(15), condition), "waited in vain: {what}");
}

/// Polls until the condition is true (true) or the scaled time has passed (false).
pub fn comes_true(limit: Duration, condition: impl FnMut() -> bool) -> bool {
    comes_true_slowly(POLL, limit, condition)
}

/// The same with at least this pause after each poll. Pauses are longer after checks that took long.
pub fn comes_true_slowly(
    pause: Duration,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let end = Instant::now() + scaled(limit);
    loop {
        let began = Instant::now();
        if condition() {
            return true;
        }
        let now = Instant::now();
        if now > end {
            return false;
        }
        let rest = (REST * (now - began)).min(LONG_POLL);
        std::thread::sleep(rest.max(pause));
    }
}
