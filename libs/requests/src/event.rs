//! Events of a job on their way to a program.
//!
//! The helper sends at most [`AHEAD`] events that the program has not taken. So neither side needs much memory for a program
//! that is slow; the events wait with the ring, which reports a gap if they become too many.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Error, ToHelper};

/// Most events under way.
pub const AHEAD: u32 = 1024;
/// The program reports after so many events that it has taken them.
const REPORTED: u32 = AHEAD / 4;

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counted from 1. All subscribers of the job get the same numbers.
    pub number: u64,
    /// The host concerned; empty if there is none.
    pub host: String,
    /// What happened.
    pub kind: EventKind,
}

/// What happened in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A rank was started.
    Started {
        rank: u32,
        /// Its process; 0 if it ended before it was reported.
        pid: u32,
    },
    /// A rank has ended.
    Exited {
        rank: u32,
        /// Its exit code, as a shell reports it.
        code: u8,
        /// The signal that ended it; 0 if there was none.
        signal: u8,
    },
    /// A host entered the ring, or is back.
    HostAdded,
    /// A host gets no further processes.
    HostDraining,
    /// A host gets processes again.
    HostUndrained,
    /// A host left the ring by command.
    HostLeft,
    /// A host was declared lost.
    HostLost,
    /// The job has ended, with this exit code of `mpirun`. It is the last event.
    JobEnded {
        /// The exit code.
        code: u8,
    },
    /// The events from [`Event::number`] on were not kept. The next one that was kept has this number.
    Gap { next: u64 },
}

impl EventKind {
    /// Its bit in the set of events that a program wants: `MPD_TASK_STARTED` and so on.
    pub const fn bit(self) -> u32 {
        match self {
            Self::Started { .. } => 1,
            Self::Exited { .. } => 2,
            Self::HostAdded => 4,
            Self::HostDraining => 8,
            Self::HostUndrained => 16,
            Self::HostLeft => 32,
            Self::HostLost => 64,
            Self::JobEnded { .. } => 128,
            Self::Gap { .. } => Self::GAP,
        }
    }

    /// The bit of a gap, which is always reported.
    pub const GAP: u32 = 256;
    /// All bits.
    pub const ALL: u32 = 511;
}

/// The events that wait for the program.
#[derive(Debug, Default)]
pub struct Events {
    /// The number of the call whose events are wanted.
    subscription: u64,
    waiting: VecDeque<Result<Event, String>>,
    /// Events that were taken and not reported.
    taken: u32,
}

impl Events {
    /// A new call replaces the one before. Its message has this number.
    ///
    /// # Errors
    /// The set or the name is invalid.
    pub fn subscribe(
        &mut self,
        number: u64,
        job: &str,
        wanted: u32,
        from: u64,
    ) -> Result<ToHelper, Error> {
        let refuse = |text: &str| Err(Error::Argument(text.to_owned()));
        if wanted & !EventKind::ALL != 0 {
            return refuse("the set has a bit that is no event");
        }
        if wanted != 0 && job.is_empty() {
            return refuse("there is no job: none is named, and this process is not a rank");
        }
        *self = Self { subscription: number, ..Self::default() };
        Ok(ToHelper::Notify { number, job: job.to_owned(), wanted, from })
    }

    /// Handles events of the helper.
    pub fn received(&mut self, subscription: u64, events: Vec<Event>) {
        if subscription == self.subscription {
            self.waiting.extend(events.into_iter().map(Ok));
        }
    }

    /// No further event will come, for this reason.
    pub fn failed(&mut self, subscription: u64, why: String) {
        if subscription == self.subscription {
            self.waiting.push_back(Err(why));
        }
    }

    /// The helper is gone.
    pub fn lose(&mut self, why: &str) {
        if std::mem::take(&mut self.subscription) != 0 {
            self.waiting.push_back(Err(why.to_owned()));
        }
    }

    /// Whether an event waits.
    pub fn is_ready(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next event, and a message to the helper if one is due.
    ///
    /// # Errors
    /// No further event will come. The error is returned once.
    pub fn take(&mut self) -> Result<(Option<Event>, Option<ToHelper>), Error> {
        let event = match self.waiting.pop_front() {
            None => return Ok((None, None)),
            Some(Err(why)) => return Err(Error::Refused(why)),
            Some(Ok(event)) => event,
        };
        self.taken += 1;
        let report = (self.taken >= REPORTED).then(|| {
            let count = std::mem::take(&mut self.taken);
            ToHelper::Taken { subscription: self.subscription, count }
        });
        Ok((Some(event), report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event { number, host: String::new(), kind: EventKind::HostLost }
    }

    fn subscribed(number: u64) -> Events {
        let mut events = Events::default();
        events.subscribe(number, "1@h", EventKind::ALL, 1).unwrap();
        events
    }

    #[test]
    fn events_are_taken_in_their_order_and_reported_in_groups() {
        let mut events = subscribed(3);
        events.received(3, (1..=u64::from(AHEAD)).map(event).collect());
        let mut reported = 0;
        for number in 1..=u64::from(AHEAD) {
            let (found, report) = events.take().unwrap();
            assert_eq!(found, Some(event(number)));
            if let Some(ToHelper::Taken { subscription: 3, count }) = report {
                reported += count;
            }
        }
        assert_eq!(reported, AHEAD);
        assert!(!events.is_ready());
        assert_eq!(events.take(), Ok((None, None)));
    }

    #[test]
    fn a_new_call_drops_the_events_of_the_one_before() {
        let mut events = subscribed(1);
        events.received(1, vec![event(1)]);
        events.subscribe(2, "2@h", 1, 1).unwrap();
        events.received(1, vec![event(2)]);
        events.failed(1, "late".to_owned());
        assert!(!events.is_ready());
        events.received(2, vec![event(5)]);
        assert_eq!(events.take().unwrap().0, Some(event(5)));
    }

    #[test]
    fn the_end_of_a_subscription_is_reported_once_and_after_its_events() {
        let mut events = subscribed(1);
        events.received(1, vec![event(1)]);
        events.failed(1, "no such job".to_owned());
        assert_eq!(events.take().unwrap().0, Some(event(1)));
        assert_eq!(events.take(), Err(Error::Refused("no such job".to_owned())));
        assert_eq!(events.take(), Ok((None, None)));
        events.lose("gone");
        assert!(events.take().is_err());
        events.lose("gone");
        assert_eq!(events.take(), Ok((None, None)));
    }

    #[test]
    fn an_unknown_bit_and_a_missing_job_are_refused_and_the_earlier_call_continues() {
        let mut events = subscribed(1);
        assert!(events.subscribe(2, "1@h", 512, 1).is_err());
        assert!(events.subscribe(3, "", 1, 1).is_err());
        events.received(1, vec![event(1)]);
        assert!(events.is_ready());
        assert!(events.subscribe(4, "", 0, 1).is_ok(), "it ends the subscription");
        assert!(!events.is_ready());
    }

    #[test]
    fn each_kind_has_a_bit_of_its_own() {
        let all = [
            EventKind::Started { rank: 0, pid: 0 },
            EventKind::Exited { rank: 0, code: 0, signal: 0 },
            EventKind::HostAdded,
            EventKind::HostDraining,
            EventKind::HostUndrained,
            EventKind::HostLeft,
            EventKind::HostLost,
            EventKind::JobEnded { code: 0 },
            EventKind::Gap { next: 1 },
        ];
        assert_eq!(all.iter().map(|kind| kind.bit()).sum::<u32>(), EventKind::ALL);
        assert_eq!(all.iter().fold(0, |set, kind| set | kind.bit()), EventKind::ALL);
    }
}
