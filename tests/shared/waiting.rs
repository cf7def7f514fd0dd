//! Waiting for what other processes do: by asking again and again, since most of it makes no event.

use std::time::{Duration, Instant};

/// From one question to the next.
const POLL: Duration = Duration::from_millis(3);

/// Deadlines of a slow or busy machine: `MPD_TEST_SCALE` times the ordinary ones.
#[must_use]
pub fn scaled(time: Duration) -> Duration {
    let scale = std::env::var("MPD_TEST_SCALE").ok().and_then(|text| text.parse().ok());
    time.mul_f64(scale.unwrap_or(1.0))
}

/// Asks until the answer is yes.
///
/// # Panics
/// After 15 seconds, scaled, naming what was waited for.
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(Duration::from_secs(15), condition), "waited in vain: {what}");
}

/// Asks until the answer is yes (true) or the scaled time is over (false).
pub fn comes_true(limit: Duration, condition: impl FnMut() -> bool) -> bool {
    comes_true_slowly(POLL, limit, condition)
}

/// The same for questions that cost those who are asked: with a pause after each.
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
