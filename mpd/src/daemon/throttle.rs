//! Warnings that others can cause as often as they like: some each minute are logged, the rest counted.

use std::fmt;
use std::time::Duration;

use mpd_proto::Time;

const MINUTE: Duration = Duration::from_secs(60);

/// Lines each minute at most.
const MOST: u32 = 20;

/// One kind of warning.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    began: Option<Time>,
    count: u32,
}

impl Throttle {
    /// Logs `warning` if there were not too many of them this minute.
    pub(crate) fn warn(&mut self, now: Time, warning: fmt::Arguments<'_>) {
        let (is_logged, left_out) = self.count(now);
        if left_out > 0 {
            log::warn!("{left_out} more warnings like the following were left out");
        }
        if is_logged {
            log::warn!("{warning}");
        } else {
            log::debug!("{warning}");
        }
    }

    /// Whether this one is to be logged, and how many were not since the last that was.
    fn count(&mut self, now: Time) -> (bool, u32) {
        let mut left_out = 0;
        if self.began.is_none_or(|began| now.since(began) >= MINUTE) {
            left_out = self.count.saturating_sub(MOST);
            self.began = Some(now);
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        (self.count <= MOST, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_warnings_some_each_minute_are_logged_and_the_rest_counted() {
        let mut throttle = Throttle::default();
        let begin = Time::ZERO + MINUTE;
        let logged =
            |throttle: &mut Throttle, now| (0..1_000).filter(|_| throttle.count(now).0).count();
        assert_eq!(logged(&mut throttle, begin), 20);
        assert_eq!(throttle.count(begin + MINUTE), (true, 980));
        assert_eq!(logged(&mut throttle, begin + MINUTE), 19);
    }
}
