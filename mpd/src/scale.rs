//! A divisor of all durations between hosts, for tests.

use anyhow::{Context, Result};

const TIME_SCALE: &str = "MPD_TIME_SCALE";

/// The divisor; 1 unless the environment sets one.
///
/// # Errors
/// The environment sets something else than a number from 1 to 100.
pub(crate) fn divisor() -> Result<u32> {
    let Ok(text) = std::env::var(TIME_SCALE) else { return Ok(1) };
    let divisor = text.parse().ok().filter(|n| (1..=100).contains(n));
    divisor.with_context(|| format!("{TIME_SCALE}={text:?}: 1 to 100"))
}
