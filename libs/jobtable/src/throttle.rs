//! Lines of the log that other parties can cause without limit. [`MOST`] of them each minute are written. The
//! others are counted, and the count is written at the end of the minute.

use std::fmt;
use std::time::Duration;

use mpd_sansio::Time;

use crate::line::{Level, Line};

const MINUTE: Duration = Duration::from_secs(60);

/// Most lines of one kind each minute.
const MOST: u32 = 20;

/// Limits one kind of log line.
#[derive(Debug, Default)]
pub struct Throttle {
    began: Option<Time>,
    count: u32,
}

impl Throttle {
    /// The lines to write for a warning; see [`Throttle::lines`].
    #[must_use = "the caller writes the lines"]
    pub fn warn(&mut self, now: Time, warning: fmt::Arguments<'_>) -> Vec<Line> {
        self.lines(now, Level::Warn, warning)
    }

    /// The lines to write for `text`: at level debug if there were too many of them this minute.
    #[must_use = "the caller writes the lines"]
    pub fn lines(&mut self, now: Time, level: Level, text: fmt::Arguments<'_>) -> Vec<Line> {
        let mut lines: Vec<Line> = self.turn(now).into_iter().collect();
        let level = if self.count(now) { level } else { Level::Debug };
        lines.push(Line { level, text: text.to_string() });
        lines
    }

    /// When [`Throttle::turn`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.began.filter(|_| self.count > MOST).map(|began| began + MINUTE)
    }

    /// The line about lines that were left out, if the minute is over.
    #[must_use = "the caller writes the line"]
    pub fn turn(&mut self, now: Time) -> Option<Line> {
        let left_out = self.left_out(now);
        let text = || format!("{left_out} more lines of this kind were left out within a minute");
        (left_out > 0).then(|| Line::warn(text()))
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
