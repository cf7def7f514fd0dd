//! The events of a job in their order. They are kept for processes that register for them late.

use std::collections::VecDeque;

use crate::limits::MAX_KEPT_EVENTS;
use crate::session::Event;
use crate::status::Status;

/// The last events of a job. Beyond a limit the oldest events are dropped.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: VecDeque<Event>,
    /// The codes of dropped events without repetition, up to a limit.
    dropped: Vec<Status>,
    has_dropped_others: bool,
}

/// The events for a late registration.
#[derive(Debug, PartialEq, Eq)]
pub struct Late<'a> {
    /// The kept events of the registered codes, in their order.
    pub events: Vec<&'a Event>,
    /// Whether earlier events of these codes may be missing.
    pub is_incomplete: bool,
}

impl EventLog {
    /// Keeps an event. The caller delivers it to the registered processes.
    pub fn record(&mut self, event: Event) {
        self.kept.push_back(event);
        if self.kept.len() <= MAX_KEPT_EVENTS {
            return;
        }
        let Some(Event { status, .. }) = self.kept.pop_front() else { return };
        if self.dropped.contains(&status) {
            return;
        }
        match self.dropped.len() < MAX_DROPPED_CODES {
            true => self.dropped.push(status),
            false => self.has_dropped_others = true,
        }
    }

    /// The events for a process that registers these codes for the first time.
    pub fn late(&self, codes: &[Status]) -> Late<'_> {
        Late {
            events: self.kept.iter().filter(|event| codes.contains(&event.status)).collect(),
            is_incomplete: self.has_dropped_others
                || codes.iter().any(|code| self.dropped.contains(code)),
        }
    }
}

/// Most codes that are remembered for dropped events.
const MAX_DROPPED_CODES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Range;
    use crate::view::Proc;

    fn event(status: Status, rank: u32) -> Event {
        let source = Proc::new("job", rank);
        Event { status, source, range: Range::Namespace, targets: vec![], info: vec![] }
    }

    #[test]
    fn a_late_registration_gets_the_events_of_its_codes_in_their_order() {
        let mut log = EventLog::default();
        for rank in 0..4 {
            let status = if rank % 2 == 0 { Status::PROC_ABORTED } else { Status::TERM_WO_SYNC };
            log.record(event(status, rank));
        }
        let late = log.late(&[Status::PROC_ABORTED]);
        let ranks: Vec<_> = late.events.iter().map(|event| event.source.rank).collect();
        assert_eq!((ranks, late.is_incomplete), (vec![0, 2], false));
        assert_eq!(log.late(&[Status::ERROR]), Late { events: vec![], is_incomplete: false });
    }

    #[test]
    fn a_gap_is_reported_for_the_codes_of_dropped_events() {
        let mut log = EventLog::default();
        log.record(event(Status::PROC_ABORTED, 0));
        for rank in 0..MAX_KEPT_EVENTS {
            log.record(event(Status::TERM_WO_SYNC, u32::try_from(rank).unwrap()));
        }
        assert!(log.late(&[Status::PROC_ABORTED]).is_incomplete);
        let late = log.late(&[Status::TERM_WO_SYNC]);
        assert_eq!((late.events.len(), late.is_incomplete), (MAX_KEPT_EVENTS, false));
        for code in 0..100 {
            for _ in 0..MAX_KEPT_EVENTS {
                log.record(event(Status(-1000 - code), 0));
            }
        }
        assert!(log.late(&[Status(-5)]).is_incomplete);
        assert!(log.dropped.len() <= MAX_DROPPED_CODES);
    }
}
