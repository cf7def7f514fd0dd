//! A process of a private ring that has not reported yet: when to look at it, when to name it, and when not to wait for it
//! any longer. Pure.
//!
//! Such a process has bounds of its own while it runs. So it is waited for, and named if it is stopped. If the job is not
//! wanted any more, a stopped process is not waited for, and after the second request no process.

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::job::exit;

use crate::run::waits;

/// The start of a private ring was ended before the job was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Signal(i32),
    /// By the time limit of the job.
    Limit,
}

impl Cut {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Signal(signal) => 128 + u8::try_from(signal).unwrap_or(0),
            Self::Limit => exit::TIMED_OUT,
        }
    }
}

/// What follows from a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    /// A line for the user.
    Name(String),
    /// A line for the user: the process is not waited for any longer.
    Leave(String, Cut),
}

/// The state of the wait.
#[derive(Debug)]
pub(super) struct Wait {
    /// The process, for people: its name and number.
    name: &'static str,
    pid: i32,
    /// The time limit of the job, and when it is over.
    limit: Option<Duration>,
    over: Option<Time>,
    /// The time of the next look.
    look: Option<Time>,
    /// The first request to end.
    cut: Option<Cut>,
    /// When the process is not waited for any longer.
    leave: Option<Time>,
}

impl Wait {
    /// A wait that begins now, for a ring whose start began at `began`.
    pub(super) fn new(
        (name, pid): (&'static str, i32),
        limit: Option<Duration>,
        (began, now): (Time, Time),
    ) -> Self {
        let over = limit.map(|limit| began + limit);
        let look = Some(now + waits::LOOK_AFTER);
        Self { name, pid, limit, over, look, cut: None, leave: None }
    }

    /// The user requests the end. Whether it is the first request.
    pub(super) fn end_requested(&mut self, now: Time, signal: i32) -> bool {
        self.look = Some(now + waits::PATIENCE);
        if self.cut.is_some() {
            self.leave = self.leave.or(Some(now + waits::PATIENCE));
            return false;
        }
        self.cut = Some(Cut::Signal(signal));
        true
    }

    /// The first request to end.
    pub(super) const fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The time of the next look.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.over, self.look, self.leave].into_iter().flatten().min()
    }

    /// Judges the process, at which this one has looked because it is time.
    pub(super) fn looked(&mut self, now: Time, is_stopped: bool) -> Finding {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if let Some(cut) = self.cut
            && (is_stopped || is_due(self.leave))
        {
            return Finding::Leave(waits::left((self.name, self.pid), is_stopped), cut);
        }
        if let Some(limit) = self.limit
            && is_due(self.over)
        {
            if is_stopped {
                let text = waits::not_begun(limit, (self.name, self.pid), "is stopped");
                return Finding::Leave(text, Cut::Limit);
            }
            self.over = Some(now + waits::LOOK_AGAIN);
        }
        if !is_due(self.look) {
            return Finding::Nothing;
        }
        // One line is enough; the limit and the requests are looked at by themselves.
        self.look = (!is_stopped).then_some(now + waits::LOOK_AFTER);
        match is_stopped {
            true => Finding::Name(waits::stopped_at_start((self.name, self.pid))),
            false => Finding::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    fn wait(limit: Option<u64>) -> Wait {
        Wait::new(("mpdboot", 7), limit.map(Duration::from_secs), (at(0), at(1000)))
    }

    #[test]
    fn a_stopped_process_is_named_once_after_five_seconds_and_a_running_one_is_waited_for() {
        let mut wait = wait(None);
        assert_eq!(wait.poll_timeout(), Some(at(6000)));
        assert_eq!(wait.looked(at(6000), false), Finding::Nothing);
        assert_eq!(wait.poll_timeout(), Some(at(11_000)));
        let Finding::Name(text) = wait.looked(at(11_000), true) else { panic!() };
        assert!(text.contains("the mpdboot (process 7) is stopped"), "{text}");
        assert_eq!(wait.poll_timeout(), None);
    }

    #[test]
    fn after_a_request_a_stopped_process_is_left() {
        let mut wait = wait(None);
        assert!(wait.end_requested(at(2000), 2));
        assert_eq!(wait.poll_timeout(), Some(at(3500)));
        let Finding::Leave(text, cut) = wait.looked(at(3500), true) else { panic!() };
        assert!(text.contains("(process 7) is stopped"), "{text}");
        assert_eq!((cut, cut.code()), (Cut::Signal(2), 130));
    }

    #[test]
    fn after_the_second_request_a_running_process_is_left_with_the_code_of_the_first() {
        let mut wait = wait(None);
        wait.end_requested(at(2000), 2);
        assert_eq!(wait.looked(at(3500), false), Finding::Nothing);
        assert!(!wait.end_requested(at(4000), 15));
        assert!(!wait.end_requested(at(5000), 15), "more requests postpone nothing");
        assert_eq!(wait.poll_timeout(), Some(at(5500)));
        let Finding::Leave(text, cut) = wait.looked(at(5500), false) else { panic!() };
        assert!(text.contains("has not ended"), "{text}");
        assert_eq!(cut, Cut::Signal(2));
    }

    #[test]
    fn after_the_time_limit_only_a_stopped_process_is_left() {
        let mut wait = wait(Some(3));
        assert_eq!(wait.poll_timeout(), Some(at(3000)));
        assert_eq!(wait.looked(at(3000), false), Finding::Nothing);
        assert_eq!(wait.poll_timeout(), Some(at(3500)));
        let Finding::Leave(text, cut) = wait.looked(at(3500), true) else { panic!() };
        assert!(
            text.contains("within its limit of 3 s: the mpdboot (process 7) is stopped"),
            "{text}"
        );
        assert_eq!(cut.code(), 124);
    }
}
