//! Whether an unfinished line is over although its end did not come.
//!
//! A line is over if its writer is silent: it could write, and does not. On a busy host, a writer may get no CPU for
//! long. So the owner says which threads of the writer would run if they had a CPU ([`Task`]). The line waits until
//! each of them has had a CPU for a moment. A line that has lasted for its hold time is over although bytes keep
//! coming, again unless its writer gets no CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_sansio::Time;

/// An unfinished line is over after this time without a further byte, so that a prompt appears.
pub const SILENCE: Duration = Duration::from_millis(200);

/// A line that does not end is cut after this time, so that it does not keep other ranks out.
pub const HOLD_TIME: Duration = Duration::from_secs(2);

/// A line is cut after this time even if its writer gets no CPU.
pub const MAX_HOLD_TIME: Duration = Duration::from_secs(10);

/// Most threads of one writer that are considered.
pub const MAX_TASKS: usize = 512;

/// A thread that is ready to run counts as silent after this much CPU time without a byte.
const CHANCE: Duration = Duration::from_millis(2);

/// After the hold time, a thread that is ready to run has this much CPU time to finish its line. To write a megabyte
/// to a pipe takes less.
const LAST_CHANCE: Duration = Duration::from_millis(10);

/// The shortest time between two looks at the writer.
const LOOK: Duration = Duration::from_millis(20);

/// A thread of the writer that would run if it had a CPU, or if it were not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number in the system.
    pub id: u32,
    /// Its CPU time so far.
    pub ran: Duration,
}

/// The time of one unfinished line.
#[derive(Debug)]
pub struct Unfinished {
    hold: Duration,
    /// The start of the line; `None` if no line is unfinished. Pauses are not counted.
    since: Option<Time>,
    last: Time,
    looks: Looks,
    /// The hold time is over, and the writer has its last chance.
    is_overdue: bool,
}

impl Unfinished {
    /// No line is unfinished. A line is held for `hold`, at most [`MAX_HOLD_TIME`].
    pub const fn new(hold: Duration) -> Self {
        Self { hold, since: None, last: Time::ZERO, looks: Looks::new(LOOK), is_overdue: false }
    }

    /// Bytes came, and their last line is unfinished.
    pub fn goes_on(&mut self, now: Time) {
        self.since.get_or_insert(now);
        self.last = now;
        if !self.is_overdue {
            self.looks = Looks::new(LOOK);
        }
    }

    /// The line has ended.
    pub fn end(&mut self) {
        self.since = None;
        self.is_overdue = false;
        self.looks = Looks::new(LOOK);
    }

    /// The time until now does not count against the line, if there is one.
    pub fn restart(&mut self, now: Time) {
        if self.since.is_some() {
            self.end();
            self.goes_on(now);
        }
    }

    /// The time at which to ask whether the line [is over](Unfinished::is_over), if no bytes come earlier.
    pub fn deadline(&self) -> Option<Time> {
        let most = if self.is_overdue { MAX_HOLD_TIME } else { self.hold };
        let next = self.looks.next().unwrap_or(self.last + SILENCE);
        self.since.map(|since| next.min(since + most))
    }

    /// The time at which the line is over in any case.
    pub fn longest(&self) -> Option<Time> {
        self.since.map(|since| since + MAX_HOLD_TIME)
    }

    /// Whether the line is over, now that the deadline has passed. If not, there is a new deadline. `writer` has the
    /// threads that are ready to run. It is empty if all of them wait, or if the writer has exited.
    pub fn is_over(&mut self, now: Time, writer: &[Task]) -> bool {
        let Some(since) = self.since else { return true };
        if now >= since + self.hold && !self.is_overdue {
            self.is_overdue = true;
            self.looks = Looks::new(LOOK);
        }
        let chance = if self.is_overdue { LAST_CHANCE } else { CHANCE };
        if now >= since + MAX_HOLD_TIME || !self.looks.find_lack(writer, chance) {
            return true;
        }
        self.looks.repeat(now, if self.is_overdue { since } else { self.last });
        false
    }
}

/// The looks at a writer that gets no CPU: when to look, and what its threads have had since the first look.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    /// The shortest time between two looks.
    shortest: Duration,
    /// The time of the next look, after the first one.
    next: Option<Time>,
    /// The CPU time of each thread when it was first seen.
    first: BTreeMap<u32, Duration>,
}

impl Looks {
    pub(crate) const fn new(shortest: Duration) -> Self {
        Self { shortest, next: None, first: BTreeMap::new() }
    }

    /// The time of the next look, after the first one.
    pub(crate) const fn next(&self) -> Option<Time> {
        self.next
    }

    /// The writer is looked at again. The looks become rarer with the time since `since`: on a busy machine they take CPU
    /// time from other processes.
    pub(crate) fn repeat(&mut self, now: Time, since: Time) {
        self.next = Some(now + self.shortest.max(now.since(since) / 8));
    }

    /// Whether one of these threads has not yet had this much CPU time.
    pub(crate) fn find_lack(&mut self, writer: &[Task], chance: Duration) -> bool {
        let mut lacks = false;
        for task in writer {
            if self.first.len() >= MAX_TASKS && !self.first.contains_key(&task.id) {
                continue;
            }
            let first = self.first.entry(task.id).or_insert(task.ran);
            // The number may have been used again.
            *first = task.ran.min(*first);
            lacks |= task.ran - *first < chance;
        }
        lacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::ZERO;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn task(id: u32, ran: u64) -> Task {
        Task { id, ran: ms(ran) }
    }

    fn begun() -> Unfinished {
        let mut line = Unfinished::new(HOLD_TIME);
        line.goes_on(START);
        line
    }

    #[test]
    fn a_writer_that_gets_no_cpu_is_not_silent_and_one_that_does_not_use_it_is() {
        let mut line = begun();
        let mut now = START + SILENCE;
        for (ran, next) in [(7, 25), (7, 28), (8, 31), (8, 35)] {
            assert!(!line.is_over(now, &[task(1, ran)]), "{ran}");
            let at = line.deadline().unwrap();
            assert_eq!(at.since(now).as_millis(), next);
            now = at;
        }
        line.goes_on(now);
        assert_eq!(line.deadline(), Some(now + SILENCE), "bytes came");
        assert!(!line.is_over(now, &[task(1, 8)]));
        assert!(line.is_over(now, &[task(1, 10)]), "it has run, and written nothing");
        assert!(line.is_over(now, &[]), "it waits");
        assert!(!line.is_over(now, &[task(1, 1)]), "another thread with the same number");
    }

    #[test]
    fn a_thread_that_gets_no_cpu_is_not_silent_while_another_one_of_its_process_runs() {
        let mut line = begun();
        let now = START + SILENCE;
        assert!(!line.is_over(now, &[task(1, 5), task(2, 0)]));
        assert!(!line.is_over(now + ms(25), &[task(1, 30), task(2, 0)]));
        assert!(!line.is_over(now + ms(50), &[task(1, 50), task(2, 1), task(3, 0)]));
        assert!(line.is_over(now + ms(75), &[task(1, 70), task(2, 2)]));
    }

    #[test]
    fn a_line_that_lasts_is_over_after_the_hold_time_if_its_writer_has_a_cpu() {
        let mut line = begun();
        let mut now = START;
        let mut ran = 0;
        loop {
            now = now + ms(50);
            ran += 40;
            line.goes_on(now);
            if line.deadline().unwrap() <= now && line.is_over(now, &[task(1, ran)]) {
                break;
            }
        }
        let age = now.since(START);
        assert!(age > HOLD_TIME && age < HOLD_TIME + ms(400), "{age:?}");
        assert!(line.is_over(now, &[]), "and at once if it waits between its bytes");
    }

    #[test]
    fn a_line_whose_writer_hardly_gets_a_cpu_lasts_longer_but_not_for_ever() {
        let mut line = begun();
        let mut now = START;
        let mut looks = 0;
        loop {
            now = now + ms(100);
            line.goes_on(now);
            if line.deadline().unwrap() <= now {
                looks += 1;
                if line.is_over(now, &[task(1, 0)]) {
                    break;
                }
            }
            assert!(line.deadline().unwrap() > now);
        }
        assert_eq!(now, START + MAX_HOLD_TIME);
        assert!(looks < 40, "{looks} looks");
        line.restart(now);
        assert_eq!(line.deadline(), Some(now + SILENCE), "a pause does not count");
        line.end();
        assert_eq!(line.deadline(), None);
    }

    #[test]
    fn more_threads_than_can_be_remembered_end_a_line() {
        let mut line = begun();
        let many = |from: u32| (0..512).map(|id| task(from + id, 0)).collect::<Vec<_>>();
        assert!(!line.is_over(START + SILENCE, &many(0)));
        assert!(line.is_over(START + SILENCE, &many(1000)));
    }
}
