//! The monotonic clock as the pure crates' [`Time`], and wall-clock time for people.

use std::time::{Duration, SystemTime};

use mpd_sansio::Time;
use mpd_stdio::format::utc;
use nix::time::{ClockId, clock_gettime};

/// Times since the start of this clock. The loops read it hundreds of times in a job, so it counts microseconds and nothing
/// else.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// On the clock of the kernel, in microseconds.
    epoch: u64,
}

impl Clock {
    /// A clock that starts now, at one second after the epoch, so that earlier times can be represented.
    pub fn start() -> Self {
        Self { epoch: monotonic() }
    }

    pub fn now(&self) -> Time {
        Time::from_micros(monotonic() - self.epoch + 1_000_000)
    }

    /// The time left until `deadline`.
    pub fn until(&self, deadline: Time) -> Duration {
        deadline.since(self.now())
    }
}

/// `CLOCK_MONOTONIC` in microseconds.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("each Linux has this clock");
    now.tv_sec().unsigned_abs() * 1_000_000 + now.tv_nsec().unsigned_abs() / 1000
}

/// Microseconds since 1970, by the wall clock.
pub fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970, by the clock with which the kernel stamps files. It advances by some milliseconds at a time. So
/// a file that is made later has no earlier time.
pub fn of_files() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// This time, in microseconds since 1970, as RFC 3339 in UTC with microseconds.
pub fn utc_of(wall_us: u64) -> String {
    utc(wall_us)
}

/// The time now as RFC 3339 in UTC with microseconds.
pub fn timestamp() -> String {
    utc(wall())
}
