//! The lifetimes of a job's processes.
//!
//! The kernel gives the start of a process by the clock since boot. It gives the times of a System V
//! object in whole seconds of the wall clock. The difference of the two clocks is constant until the
//! wall clock is set, since both are slewed together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::objects::{Reason, Use};

/// Most processes that are remembered. Objects of further processes are kept.
const MAX_LIFETIMES: usize = 1 << 17;

/// The kernel takes the time of an object from a clock that each timer interrupt sets; it may be
/// late by this time.
const LATE_MS: i64 = 20;

/// A wider range of differences means that the wall clock was set.
const MAX_RANGE_MS: i64 = 1_000;

/// A smaller change of that range leads to no note.
const NOTABLE_MS: i64 = 100;

/// A reading of the wall clock between two readings of the clock since boot, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clock since boot, read before.
    pub before: u64,
    /// The wall clock: since 1970.
    pub wall: u64,
    /// The clock since boot, read after.
    pub after: u64,
}

/// The least and the greatest observed difference of wall clock and clock since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    least: i64,
    most: i64,
}

impl From<Reading> for Offset {
    fn from(reading: Reading) -> Self {
        let ahead = |boot: u64| reading.wall.cast_signed().saturating_sub(boot.cast_signed());
        // Each reading was rounded down to milliseconds.
        Self { least: ahead(reading.after) - 1, most: ahead(reading.before) + 1 }
    }
}

impl Offset {
    pub(super) fn widen(&mut self, other: Self) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    pub(super) const fn is_much_wider_than(self, other: Self) -> bool {
        other.least.saturating_sub(self.least) > NOTABLE_MS
            || self.most.saturating_sub(other.most) > NOTABLE_MS
    }

    /// Whether the wall clock was set between two readings.
    const fn was_set(self) -> bool {
        self.most.saturating_sub(self.least) > MAX_RANGE_MS
    }

    /// The earliest and the latest time since boot that the kernel can have recorded as this second
    /// since 1970.
    fn range(self, second: u64) -> (i64, i64) {
        let begin = i64::try_from(second).unwrap_or(i64::MAX).saturating_mul(1000);
        let end = begin.saturating_add(1000 + LATE_MS);
        (begin.saturating_sub(self.most), end.saturating_sub(self.least))
    }
}

/// The known life of a process. Times are milliseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    pub pid: u32,
    /// The time of its start.
    pub begin: u64,
    /// The last time at which it is known to have had its number.
    pub seen: u64,
    /// Whether it is reaped at that time, so that its number becomes free.
    pub over: bool,
}

/// For each number and start: the last known time, and whether the process is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lifetimes(BTreeMap<(u32, u64), (u64, bool)>);

impl Lifetimes {
    /// Adds a life. Returns whether it needs a note: a new process, or the end of one.
    pub(super) fn add(&mut self, lifetime: Lifetime) -> bool {
        let key = (lifetime.pid, lifetime.begin);
        if let Some((seen, over)) = self.0.get_mut(&key) {
            *seen = lifetime.seen.max(*seen);
            let ends = lifetime.over && !*over;
            *over |= lifetime.over;
            return ends;
        }
        let has_room = self.0.len() < MAX_LIFETIMES;
        if has_room {
            self.0.insert(key, (lifetime.seen, lifetime.over));
        }
        has_room
    }

    pub(super) fn prolong(&mut self, now: u64, lived: impl Fn(u32, u64) -> bool) {
        for (&(pid, begin), (seen, over)) in &mut self.0 {
            if !*over && lived(pid, begin) {
                *seen = now.max(*seen);
            }
        }
    }

    pub(super) fn unreaped(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().filter(|(_, (_, over))| !over).map(|(&key, _)| key)
    }

    /// Whether a process of the job ever had this number.
    pub(super) fn have(&self, pid: u32) -> bool {
        self.of(pid).next().is_some()
    }

    /// Whether a process of the job had that number at that time.
    pub(super) fn cover(&self, used: Use, clock: Option<Offset>) -> Result<(), Reason> {
        if !self.have(used.pid) {
            return Err(Reason::Stranger(used.pid));
        }
        let Some(clock) = clock.filter(|clock| !clock.was_set()) else {
            return Err(Reason::ClockWasSet);
        };
        let (earliest, latest) = clock.range(used.at);
        let is_then = |(begin, seen): (u64, u64)| {
            begin.cast_signed() <= latest && earliest <= seen.cast_signed()
        };
        if self.of(used.pid).any(is_then) { Ok(()) } else { Err(Reason::AnotherTime(used.pid)) }
    }

    /// The lives of all processes that had this number.
    fn of(&self, pid: u32) -> impl Iterator<Item = (u64, u64)> {
        self.0.range((pid, 0)..=(pid, u64::MAX)).map(|(&(_, begin), &(seen, _))| (begin, seen))
    }
}
