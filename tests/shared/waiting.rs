//! Waiting for other processes: by polling, because most changes cause no event.

use std::time::{Duration, Instant};

/// Pause between two polls.
const POLL: Duration = Duration::from_millis(3);

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

/// The same for conditions that cost CPU time: with a pause after each poll.
pub fn comes_true_slowly(
    pause: Duration,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let end = Instant::now() + scaled(limit);
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(pause);
    }
}
