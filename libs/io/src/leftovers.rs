//! A manager's notes about objects that its job may leave; [`mpd_job::leftovers`] defines them.

use std::time::Duration;

use mpd_job::leftovers::{Lifetime, Reading};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::clock::wall;
use crate::stat::Stat;

/// A reading of the clocks that takes longer than this is repeated.
const QUICK_MS: u64 = 5;
const READINGS: usize = 3;

/// One reading of the wall clock and of the time since boot.
pub fn clocks() -> Reading {
    let mut readings = (0..READINGS).map(|_| {
        let before = since_boot();
        Reading { before, wall: wall() / 1000, after: since_boot() }
    });
    let took = |reading: &Reading| reading.after - reading.before;
    let first = readings.next().filter(|reading| took(reading) <= QUICK_MS);
    first.or_else(|| readings.min_by_key(took)).unwrap_or_else(|| unreachable!("several readings"))
}

/// Milliseconds since this host booted.
pub fn since_boot() -> u64 {
    // The call cannot fail for a clock that exists.
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The lifetime of a process until now; `None` if the process is gone. `over` says that its parent is about to reap it.
pub fn lifetime(pid: Pid, over: bool) -> Option<Lifetime> {
    let begin = Stat::of(pid)?.began_ms;
    Some(Lifetime { pid: pid.as_raw().unsigned_abs(), begin, seen: since_boot(), over })
}

/// Whether a process with this number exists that began at this time.
pub fn exists(pid: u32, begin: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.began_ms == begin)
}

/// Whether that process can still use an object: a zombie cannot.
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
    fn the_lifetime_of_a_process_lasts_from_before_its_first_sight_until_it_is_reaped() {
        let begun = since_boot();
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let known = lifetime(pid, false).unwrap();
        assert!(known.begin + 10 >= begun && known.begin <= known.seen, "{known:?} from {begun}");
        assert_eq!(lifetime(pid, true).unwrap().begin, known.begin);
        while is_active(known.pid, known.begin) {
            std::thread::yield_now();
        }
        assert!(exists(known.pid, known.begin) && !exists(known.pid, known.begin + 10));
        child.wait().unwrap();
        assert!(!exists(known.pid, known.begin) && lifetime(pid, true).is_none());
    }

    #[test]
    fn the_wall_clock_is_read_between_two_readings_of_the_other() {
        let reading = clocks();
        assert!(reading.before > 0 && reading.before <= reading.after && reading.wall > 0);
    }
}
