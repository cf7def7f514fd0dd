//! What a manager notes on what its job may leave, see [`mpd_job::leftovers`].

use std::time::Duration;

use mpd_job::leftovers::{Life, Reading};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::clock::wall;
use crate::stat::Stat;

/// A reading of the clocks that took longer is repeated.
const QUICK_MS: u64 = 5;
const READINGS: usize = 3;

/// What the clocks show.
pub fn clocks() -> Reading {
    let mut readings = (0..READINGS).map(|_| {
        let before = since_boot();
        Reading { before, wall: wall() / 1000, after: since_boot() }
    });
    let took = |reading: &Reading| reading.after - reading.before;
    let first = readings.next().filter(|reading| took(reading) <= QUICK_MS);
    first.or_else(|| readings.min_by_key(took)).unwrap_or_else(|| unreachable!("several readings"))
}

/// Milliseconds since this host was booted.
pub fn since_boot() -> u64 {
    // It cannot fail with a clock that exists.
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The life of a process until now; none if it is gone. It is `over` if its parent is about to reap it.
pub fn life(pid: Pid, over: bool) -> Option<Life> {
    let begin = Stat::of(pid)?.began_ms;
    Some(Life { pid: pid.as_raw().unsigned_abs(), begin, seen: since_boot(), over })
}

/// Whether the process has its number that began then.
pub fn exists(pid: u32, begin: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.began_ms == begin)
}

/// Whether that process can still use anything: a zombie cannot.
pub fn is_active(pid: u32, begin: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.began_ms == begin && !"ZX".contains(stat.state))
}

fn stat(pid: u32) -> Option<Stat> {
    Stat::of(Pid::from_raw(pid.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_life_of_a_process_begins_before_it_is_seen_and_lasts_until_it_is_reaped() {
        let begun = since_boot();
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let known = life(pid, false).unwrap();
        assert!(known.begin + 10 >= begun && known.begin <= known.seen, "{known:?} from {begun}");
        assert_eq!(life(pid, true).unwrap().begin, known.begin);
        while is_active(known.pid, known.begin) {
            std::thread::yield_now();
        }
        assert!(exists(known.pid, known.begin) && !exists(known.pid, known.begin + 10));
        child.wait().unwrap();
        assert!(!exists(known.pid, known.begin) && life(pid, true).is_none());
    }

    #[test]
    fn the_wall_clock_is_read_between_two_readings_of_the_other() {
        let reading = clocks();
        assert!(reading.before > 0 && reading.before <= reading.after && reading.wall > 0);
    }
}
