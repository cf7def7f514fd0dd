//! Lines of the log that other parties can cause without limit. [`MOST`] of them each minute are written. The
//! others are counted, and the count is written at the end of the minute.

use std::fmt;
use std::time::Duration;

use log::Level;
use mpd_machine::Time;

const MINUTE: Duration = Duration::from_secs(60);

/// Most lines of one kind each minute.
const MOST: u32 = 20;

/// Limits one kind of log line.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    began: Option<Time>,
    count: u32,
}

impl Throttle {
    /// Logs `warning`; at level debug if there were too many of them this minute.
    pub(crate) fn warn(&mut self, now: Time, warning: fmt::Arguments<'_>) {
        self.log(now, Level::Warn, warning);
    }

    /// Logs `line`; at level debug if there were too many of them this minute.
    pub(crate) fn log(&mut self, now: Time, level: Level, line: fmt::Arguments<'_>) {
        self.turn(now);
        let level = if self.count(now) { level } else { Level::Debug };
        log::log!(level, "{line}");
    }

    /// When [`Throttle::turn`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.began.filter(|_| self.count > MOST).map(|began| began + MINUTE)
    }

    /// Logs how many lines were left out, if the minute is over.
    pub(crate) fn turn(&mut self, now: Time) {
        let left_out = self.left_out(now);
        if left_out > 0 {
            log::warn!("{left_out} more lines of this kind were left out within a minute");
        }
    }

    /// The number of lines that were left out in the minute that is over; a new minute begins. 0 before its end.
    fn left_out(&mut self, now: Time) -> u32 {
        if self.began.is_none_or(|began| now.since(began) < MINUTE) {
            return 0;
        }
        self.began = None;
        std::mem::take(&mut self.count).saturating_sub(MOST)
    }

    /// Counts a line. Whether it is to be written.
    fn count(&mut self, now: Time) -> bool {
        self.began.get_or_insert(now);
        self.count = self.count.saturating_add(1);
        self.count <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_warnings_twenty_each_minute_are_logged_and_the_others_are_counted() {
        let mut throttle = Throttle::default();
        let begin = Time::ZERO + MINUTE;
        let logged =
            |throttle: &mut Throttle, now| (0..1_000).filter(|_| throttle.count(now)).count();
        assert_eq!(throttle.next_deadline(), None);
        assert_eq!(logged(&mut throttle, begin), 20);
        let over = begin + MINUTE;
        assert_eq!(throttle.next_deadline(), Some(over));
        assert_eq!(throttle.left_out(begin), 0, "the minute is not over");
        assert_eq!(throttle.left_out(over), 980);
        assert_eq!((throttle.left_out(over), throttle.next_deadline()), (0, None), "reported once");
        assert_eq!(logged(&mut throttle, over), 20);
    }
}
