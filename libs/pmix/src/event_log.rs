//! The events of a job in their order. They are kept for processes that register for them late.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::limits::{MAX_KEPT_EVENT_BYTES, MAX_KEPT_EVENTS};
use crate::session::Event;
use crate::status::Status;

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedEvent {
    /// The number in the order of the job. A later event has a greater number.
    pub number: u64,
    /// Whether handlers get it that are registered for no code of their own. Those of Open MPI end the program.
    pub has_default: bool,
    pub event: Event,
}

/// The last events of a job. Beyond a limit the oldest events are dropped.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: VecDeque<(Rc<OrderedEvent>, usize)>,
    bytes: usize,
    /// The codes of dropped events without repetition, up to a limit.
    dropped: Vec<Status>,
    has_dropped_others: bool,
    /// Whether an event for default handlers was dropped.
    has_dropped_default: bool,
}

impl EventLog {
    /// Keeps an event with an encoding of `bytes` bytes. The caller delivers it to the registered processes.
    pub fn record(&mut self, event: Rc<OrderedEvent>, bytes: usize) {
        self.kept.push_back((event, bytes));
        self.bytes += bytes;
        while self.kept.len() > MAX_KEPT_EVENTS || self.bytes > MAX_KEPT_EVENT_BYTES {
            let Some((event, bytes)) = self.kept.pop_front() else { return };
            self.bytes -= bytes;
            self.note_dropped(&event);
        }
    }

    fn note_dropped(&mut self, event: &OrderedEvent) {
        self.has_dropped_default |= event.has_default;
        let status = event.event.status;
        if self.dropped.contains(&status) {
            return;
        }
        match self.dropped.len() < MAX_DROPPED_CODES {
            true => self.dropped.push(status),
            false => self.has_dropped_others = true,
        }
    }

    /// The kept events, in their order. A session sends those that its client wants and has not got.
    pub fn kept(&self) -> impl Iterator<Item = &OrderedEvent> {
        self.kept.iter().map(|(event, _)| &**event)
    }

    /// Whether events are missing for a process that registers these codes for the first time.
    pub fn has_gap(&self, codes: &[Status]) -> bool {
        codes.iter().any(|code| match *code {
            Status::DEFAULT_HANDLER => self.has_dropped_default,
            code => self.has_dropped_others || self.dropped.contains(&code),
        })
    }
}

/// Most codes that are remembered for dropped events.
const MAX_DROPPED_CODES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Range;
    use crate::view::Proc;

    fn event(number: u64, status: Status) -> Rc<OrderedEvent> {
        let source = Proc::new("job", 0);
        let event =
            Event { status, source, range: Range::Namespace, targets: vec![], info: vec![] };
        Rc::new(OrderedEvent { number, has_default: false, event })
    }

    fn numbers(log: &EventLog) -> Vec<u64> {
        log.kept().map(|event| event.number).collect()
    }

    #[test]
    fn events_are_kept_in_their_order() {
        let mut log = EventLog::default();
        for number in 0..4 {
            log.record(event(number, Status::PROC_ABORTED), 10);
        }
        assert_eq!(numbers(&log), [0, 1, 2, 3]);
        assert!(!log.has_gap(&[Status::PROC_ABORTED, Status::DEFAULT_HANDLER]));
    }

    #[test]
    fn a_gap_is_reported_for_the_codes_of_dropped_events() {
        let mut log = EventLog::default();
        log.record(event(0, Status::PROC_ABORTED), 10);
        for number in 1..=MAX_KEPT_EVENTS as u64 {
            log.record(event(number, Status::TERM_WO_SYNC), 10);
        }
        assert!(log.has_gap(&[Status::ERROR, Status::PROC_ABORTED]));
        assert!(!log.has_gap(&[Status::TERM_WO_SYNC, Status::DEFAULT_HANDLER]));
        assert_eq!((log.kept().count(), log.kept().next().unwrap().number), (MAX_KEPT_EVENTS, 1));
        for code in 0..100 {
            log.record(event(5000, Status(-1000 - code)), MAX_KEPT_EVENT_BYTES);
        }
        assert!(log.has_gap(&[Status(-5)]));
        assert!(log.dropped.len() <= MAX_DROPPED_CODES);
    }

    #[test]
    fn default_handlers_miss_only_events_that_they_would_have_got() {
        let mut log = EventLog::default();
        let mut for_all = OrderedEvent::clone(&event(0, Status::ERROR));
        for_all.has_default = true;
        log.record(for_all.into(), 1);
        log.record(event(1, Status::ERROR), MAX_KEPT_EVENT_BYTES);
        assert!(log.has_gap(&[Status::DEFAULT_HANDLER]));
    }

    #[test]
    fn the_bytes_of_kept_events_are_bounded() {
        let mut log = EventLog::default();
        for number in 0..10 {
            log.record(event(number, Status::ERROR), MAX_KEPT_EVENT_BYTES / 4);
        }
        assert_eq!((numbers(&log), log.bytes), (vec![6, 7, 8, 9], MAX_KEPT_EVENT_BYTES));
        log.record(event(10, Status::ERROR), MAX_KEPT_EVENT_BYTES + 1);
        assert_eq!((numbers(&log), log.bytes), (vec![], 0));
    }
}
