//! The line of progress.

use std::time::Duration;

use mpd_farm::{Farm, Progress};
use mpd_sansio::Time;

/// Between two lines on a terminal, and in a file.
const ON_TERMINAL: Duration = Duration::from_millis(500);
const IN_FILE: Duration = Duration::from_secs(10);

/// Counts ends, and says when a line is due.
#[derive(Debug)]
pub(crate) struct Status {
    progress: Progress,
    interval: Duration,
    next: Time,
}

/// The numbers of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Tasks with a result.
    pub(crate) ended: u64,
    /// Tasks that were read and have no result yet.
    pub(crate) left: u64,
    /// Whether all tasks were read.
    pub(crate) all_read: bool,
}

impl Status {
    /// The farm begins now.
    pub(crate) fn new(now: Time, on_terminal: bool) -> Self {
        let interval = if on_terminal { ON_TERMINAL } else { IN_FILE };
        Self { progress: Progress::new(now), interval, next: now + interval }
    }

    /// When the next line is due.
    pub(crate) const fn due(&self) -> Time {
        self.next
    }

    /// A line, if one is due.
    pub(crate) fn line(&mut self, now: Time, counts: Counts, farm: &Farm) -> Option<String> {
        if now < self.next {
            return None;
        }
        self.next = now + self.interval;
        self.progress.note(now, counts.ended);
        Some(self.text(now, counts, farm))
    }

    fn text(&self, now: Time, counts: Counts, farm: &Farm) -> String {
        let Counts { ended, left, all_read } = counts;
        let more = if all_read { "" } else { "+" };
        let mut text = format!("{ended} of {}{more} tasks", ended + left);
        let failed = farm.failed();
        if failed > 0 {
            text += &format!(", {failed} failed");
        }
        let (slots, hosts) = farm.capacity();
        let running = farm.given().min(slots);
        let host = if hosts == 1 { "host" } else { "hosts" };
        text += &format!(", {running} running on {hosts} {host}");
        if let Some(rate) = self.progress.rate(now, ended) {
            text += &if rate >= 10.0 { format!(", {rate:.0}/s") } else { format!(", {rate:.2}/s") };
        }
        if let Some(remaining) = self.progress.remaining(now, ended, left).filter(|_| all_read) {
            text += &format!(", {} left", duration(remaining));
        }
        text
    }
}

/// A duration as `1:02:03`, `2:03` or `3 s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use mpd_farm::Options;

    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_remaining_time() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut status = Status::new(at(0), true);
        let farm = Farm::new(Options::default());
        let counts = Counts { ended: 100, left: 900, all_read: true };
        assert_eq!(status.line(Time::from_micros(1), counts, &farm), None);
        let line = status.line(at(10), counts, &farm).unwrap();
        assert_eq!(line, "100 of 1000 tasks, 0 running on 0 hosts, 10/s, 1:30 left");
        let counts = Counts { all_read: false, ..counts };
        let line = status.line(at(20), counts, &farm).unwrap();
        assert_eq!(line, "100 of 1000+ tasks, 0 running on 0 hosts, 5.00/s");
        assert_eq!(duration(Duration::from_secs(3723)), "1:02:03");
    }
}
