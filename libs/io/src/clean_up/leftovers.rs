//! A manager's notes about objects that its job may leave; [`mpd_leftovers`] defines them.

use std::time::Duration;

use mpd_leftovers::{Lifetime, Reading};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::clock::wall;
use crate::process::stat::{Stat, TICK_MS};

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

/// The clock since boot before a child is started. The kernel gives the start of a process in ticks of that clock.
#[derive(Clone, Copy, Debug)]
pub struct BeforeStart(u64);

impl BeforeStart {
    /// To be called before the start.
    pub fn now() -> Self {
        Self(ticks())
    }

    /// The begin of a child that was started since, in milliseconds since boot. `None` if a tick began meanwhile: then
    /// only `/proc` has it.
    pub fn begin(self) -> Option<u64> {
        (ticks() == self.0).then(|| self.0.saturating_mul(TICK_MS))
    }
}

fn ticks() -> u64 {
    since_boot() / TICK_MS
}

/// The lifetime until now of a process that began at this time and is not reaped. `over`: see [`lifetime`].
pub fn life(pid: Pid, begin: u64, over: bool) -> Lifetime {
    Lifetime { pid: pid.as_raw().unsigned_abs(), begin, seen: since_boot(), over }
}

/// The lifetime of a process until now; `None` if the process is gone. `over` says that its parent is about to reap it.
pub fn lifetime(pid: Pid, over: bool) -> Option<Lifetime> {
    Some(life(pid, Stat::of(pid)?.began_ms, over))
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
    fn the_clock_tells_when_a_child_began_unless_a_tick_has_passed() {
        let (mut known, mut tries) = (0, 0);
        while known < 20 && tries < 2000 {
            tries += 1;
            let before = BeforeStart::now();
            let mut child = Command::new("true").spawn().unwrap();
            let begin = before.begin();
            let pid = Pid::from_raw(child.id().cast_signed());
            let stat = Stat::of(pid).unwrap().began_ms;
            child.wait().unwrap();
            if let Some(begin) = begin {
                assert_eq!(begin, stat);
                known += 1;
            }
        }
        assert_eq!(BeforeStart(ticks() - 1).begin(), None);
        assert_eq!(known, 20);
    }

    #[test]
    fn the_wall_clock_is_read_between_two_readings_of_the_other() {
        let reading = clocks();
        assert!(reading.before > 0 && reading.before <= reading.after && reading.wall > 0);
    }
}
