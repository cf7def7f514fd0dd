//! The monotonic clock as the pure crates' [`Time`], and wall-clock time for people.

use std::time::{Duration, Instant, SystemTime};

use mpd_proto::Time;

/// Times since this process asked for its clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that starts now, one second after the epoch (so that "a while ago" exists).
    pub fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Time {
        let elapsed = self.epoch.elapsed() + Duration::from_secs(1);
        Time::ZERO + elapsed
    }

    /// How long to sleep until `deadline`.
    pub fn until(&self, deadline: Time) -> Duration {
        deadline.since(self.now())
    }
}

/// Now as RFC 3339 in UTC with microseconds: `2026-11-21T02:31:36.123456Z`.
pub fn timestamp() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format_utc(since)
}

/// Days to civil date after Hinnant's public algorithm (proleptic Gregorian calendar).
fn format_utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = since_1970.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |s, us| format_utc(Duration::from_secs(s) + Duration::from_micros(us));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400, 1), "2000-02-29T00:00:00.000001Z");
        assert_eq!(at(1_795_228_296, 123_456), "2026-11-21T02:31:36.123456Z");
    }
}
