//! The rate of a farm, and the time that it still needs.

use std::collections::VecDeque;
use std::time::Duration;

use mpd_sansio::Time;

/// The time over which the rate is taken.
const SPAN: Duration = Duration::from_secs(20);
/// Between two samples.
const INTERVAL: Duration = Duration::from_millis(500);

/// The ends of tasks over time.
#[derive(Debug)]
pub struct Progress {
    /// Time and number of ends, the oldest first.
    samples: VecDeque<(Time, u64)>,
}

impl Progress {
    /// The farm begins.
    pub fn new(now: Time) -> Self {
        Self { samples: VecDeque::from([(now, 0)]) }
    }

    /// So many tasks have ended until now.
    pub fn note(&mut self, now: Time, ended: u64) {
        match self.samples.back() {
            Some((last, _)) if self.samples.len() > 1 && now.since(*last) < INTERVAL => {}
            _ => self.samples.push_back((now, ended)),
        }
        while self.samples.len() > 2 && now.since(self.samples[1].0) > SPAN {
            self.samples.pop_front();
        }
    }

    /// Ends per second in the last time; `None` before the first end.
    pub fn rate(&self, now: Time, ended: u64) -> Option<f64> {
        let (from, before) = self.samples.front()?;
        let seconds = now.since(*from).as_secs_f64();
        let ends = ended.saturating_sub(*before);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        (ends > 0 && seconds > 0.0).then(|| ends as f64 / seconds)
    }

    /// The time that so many further tasks will take.
    pub fn remaining(&self, now: Time, ended: u64, left: u64) -> Option<Duration> {
        let rate = self.rate(now, ended)?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
        Duration::try_from_secs_f64(left as f64 / rate).ok()
    }
}
