//! Events of jobs whose root managers are here, as long as subscribers may ask for them.
//!
//! The first subscriber makes the root manager report its events. They are kept for some time after the end of the job.
//! A daemon asks for events from a number on. Its order is answered as soon as there is such an event, or without events
//! after [`LONGEST_WAIT`], so there is no state of a subscriber here.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_events::{History, MAX_HISTORY};
use mpd_jobtable::{JobTable, Line, ManagerMessage};
use mpd_ring::{Input, MAX_ANSWER};
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::message::{
    EventPage, JobChange, JobEvent, JobRef, MAX_EVENTS, ManagerOrder, OrderAnswer, ScatterId,
};

use crate::effect::Effect;
use crate::request::payload_of;

/// How long an order waits for the next event. It is far below the time for which a scatter waits for answers.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long the events of a job are kept after its end.
const KEPT: Duration = Duration::from_secs(60);
/// Most jobs whose events are kept.
const MAX_KEPT: usize = 64;
/// Most orders that wait for events.
const MAX_POLLS: usize = 1024;
/// Bytes of events in an answer, beside the other fields.
const ROOM: usize = MAX_ANSWER - 640;

/// The events of a job.
#[derive(Debug)]
struct Kept {
    history: History<JobEvent>,
    /// Whether its manager reports its events.
    is_reported: bool,
    /// Whether its last event has come.
    is_over: bool,
    /// When the events are dropped, once the job is gone.
    until: Option<Time>,
}

/// An order that waits for events.
#[derive(Debug)]
struct Poll {
    order: ScatterId,
    job: JobId,
    from: Option<u64>,
    deadline: Time,
}

/// The events of the jobs here, and the orders that wait for them.
#[derive(Debug, Default)]
pub(crate) struct KeptEvents {
    kept: BTreeMap<JobId, Kept>,
    polls: Vec<Poll>,
}

impl KeptEvents {
    /// Carries out the order of a member that asks for events. `None`: the answer follows.
    pub(crate) fn ordered(
        &mut self,
        now: Time,
        jobs: &JobTable,
        order: ScatterId,
        job: &JobRef,
        from: Option<u64>,
    ) -> Option<OrderAnswer> {
        let mut meant: Vec<JobId> = jobs.roots(job).into_iter().map(|root| root.job).collect();
        if let JobRef::Id(id) = job
            && let Some(kept) = self.kept.keys().find(|kept| id.means(kept))
        {
            meant = vec![kept.clone()];
        }
        let id = match &meant[..] {
            [] => return Some(OrderAnswer::NoSuchJob),
            [id] => id.clone(),
            [_, _, ..] => {
                let problem = format!("{job} means several jobs; name one by its id");
                return Some(OrderAnswer::Failed { problem });
            }
        };
        if !self.kept.contains_key(&id) && !self.make_room() {
            let problem = format!(
                "job {id}: the events of {MAX_KEPT} jobs of its host are followed already; \
                 try again when some of them have ended"
            );
            return Some(OrderAnswer::Failed { problem });
        }
        self.kept.entry(id.clone()).or_insert_with(Kept::new);
        let poll = Poll { order, job: id, from, deadline: now + LONGEST_WAIT };
        let answer = self.answer_to(&poll, self.polls.len() >= MAX_POLLS);
        if answer.is_none() {
            self.polls.push(poll);
        }
        answer
    }

    /// Whether there is room for one more job. The job that ended first makes room.
    fn make_room(&mut self) -> bool {
        if self.kept.len() < MAX_KEPT {
            return true;
        }
        let gone = self.kept.iter().filter_map(|(id, kept)| Some((kept.until?, id.clone())));
        let Some((_, first)) = gone.min() else { return false };
        self.kept.remove(&first);
        true
    }

    /// Takes events that the root manager of a job here reports. A new daemon gets all events again.
    pub(crate) fn reported(&mut self, jobs: &JobTable, job: &JobId, events: Vec<JobEvent>) {
        if jobs.root(job).is_none() || (!self.kept.contains_key(job) && !self.make_room()) {
            return;
        }
        let kept = self.kept.entry(job.clone()).or_insert_with(Kept::new);
        kept.is_reported = true;
        for event in events {
            kept.is_over |= matches!(event.change, JobChange::JobEnded { .. });
            kept.history.put(event.number, event);
        }
    }

    /// Asks managers for their events, answers orders, and drops old events.
    pub(crate) fn serve(&mut self, now: Time, jobs: &JobTable) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (id, kept) in &mut self.kept {
            let root = jobs.root(id);
            if root == Some(true) && !kept.is_reported {
                kept.is_reported = true;
                let text = format!("job {id}: its events are reported, by request");
                effects.push(Effect::Log(Line::info(text)));
                let order = ManagerOrder::ReportEvents;
                effects.push(Effect::Report(ManagerMessage::new(id.clone(), order)));
            }
            if root.is_none() || kept.is_over {
                kept.until.get_or_insert(now + KEPT);
            }
        }
        for poll in std::mem::take(&mut self.polls) {
            match self.answer_to(&poll, poll.deadline <= now) {
                Some(answer) => {
                    effects.push(Effect::Post(Input::Answered(poll.order, payload_of(&answer))));
                }
                None => self.polls.push(poll),
            }
        }
        self.kept.retain(|_, kept| kept.until.is_none_or(|until| until > now));
        effects
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let dropped = self.kept.values().filter_map(|kept| kept.until);
        self.polls.iter().map(|poll| poll.deadline).chain(dropped).min()
    }

    /// The answer to an order; `None`: it waits, unless it is `due`.
    fn answer_to(&self, poll: &Poll, is_due: bool) -> Option<OrderAnswer> {
        let Some(kept) = self.kept.get(&poll.job) else { return Some(OrderAnswer::NoSuchJob) };
        let (gap, events) = kept.history.from(poll.from);
        let events = fitting(events.map(|(_, event)| event));
        let last = events.last().map(|event| event.number);
        let is_last = last.is_none_or(|last| last + 1 == kept.history.next());
        let is_over = kept.is_over && is_last;
        if events.is_empty() && !is_over {
            // Its manager has died, and will report no end.
            if kept.until.is_some() {
                let problem = format!(
                    "job {} is lost: its manager died; it has no events from {} on",
                    poll.job,
                    kept.history.next()
                );
                return Some(OrderAnswer::Failed { problem });
            }
            if !is_due {
                return None;
            }
        }
        Some(OrderAnswer::Events(EventPage { job: poll.job.clone(), gap, events, is_over }))
    }
}

impl Kept {
    fn new() -> Self {
        let history = History::new(MAX_HISTORY);
        Self { history, is_reported: false, is_over: false, until: None }
    }
}

/// As many of the events as an answer holds.
fn fitting<'a>(events: impl Iterator<Item = &'a JobEvent>) -> Vec<JobEvent> {
    let mut room = ROOM;
    let fits = |event: &&JobEvent| {
        // Our own structs serialise; see frame::encode_message.
        let size = serde_json::to_vec(event).expect("an event serialises").len() + 1;
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    events.take(MAX_EVENTS).take_while(fits).cloned().collect()
}

#[cfg(test)]
mod tests {
    use mpd_wire::job::RankEnd;
    use mpd_wire::message::EventGap;
    use mpd_wire::{DaemonName, Instance, MAX_DAEMON_NAME, Rank};

    use super::*;
    use crate::tests::SomeJobs;

    fn order(sequence: u64) -> ScatterId {
        ScatterId { origin: Instance::from_bytes([1; 16]), sequence }
    }

    fn event(number: u64, change: JobChange) -> JobEvent {
        JobEvent { number, at_us: u64::MAX, change }
    }

    fn exited(number: u64, host: &str) -> JobEvent {
        let host = DaemonName::new(host).unwrap();
        let end = RankEnd::Signaled { signal: 255, core: false };
        event(number, JobChange::Exited { rank: Rank(u32::MAX), host, end })
    }

    fn poll(from: u64) -> Poll {
        let job = "1@h1".parse().unwrap();
        Poll { order: order(1), job, from: Some(from), deadline: Time::ZERO }
    }

    fn with(events: &[JobEvent]) -> KeptEvents {
        let mut kept = Kept::new();
        for event in events {
            kept.is_over |= matches!(event.change, JobChange::JobEnded { .. });
            kept.history.put(event.number, event.clone());
        }
        KeptEvents { kept: BTreeMap::from([("1@h1".parse().unwrap(), kept)]), polls: Vec::new() }
    }

    fn page(answer: Option<OrderAnswer>) -> EventPage {
        match answer {
            Some(OrderAnswer::Events(page)) => page,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_order_waits_until_there_is_an_event_or_its_time_is_over() {
        let kept = with(&[exited(1, "h1"), exited(2, "h1")]);
        assert_eq!(kept.answer_to(&poll(3), false), None);
        assert_eq!(page(kept.answer_to(&poll(3), true)).events, []);
        let some = page(kept.answer_to(&poll(2), false));
        assert_eq!((some.events, some.is_over), (vec![exited(2, "h1")], false));
    }

    #[test]
    fn the_last_page_of_a_job_says_so_and_pages_before_it_do_not() {
        let host = "h".repeat(MAX_DAEMON_NAME);
        let mut events: Vec<JobEvent> = (1..40).map(|number| exited(number, &host)).collect();
        events.push(event(40, JobChange::JobEnded { code: 0 }));
        let kept = with(&events);
        let (mut next, mut seen) = (1, Vec::new());
        loop {
            let answer = kept.answer_to(&poll(next), false).unwrap();
            assert!(payload_of(&answer).as_bytes().len() <= MAX_ANSWER);
            let page = page(Some(answer));
            next += page.events.len() as u64;
            seen.extend(page.events);
            assert_eq!(page.is_over, seen.len() == events.len());
            if page.is_over {
                break;
            }
        }
        assert_eq!(seen, events);
        assert!(page(kept.answer_to(&poll(41), false)).is_over, "a subscriber that has all");
    }

    #[test]
    fn a_subscriber_that_asks_for_events_that_are_gone_gets_a_gap() {
        let kept = with(&[exited(9, "h1")]);
        let some = page(kept.answer_to(&poll(2), false));
        assert_eq!(some.gap, Some(EventGap { from: 2, next: 9 }));
        assert_eq!(some.events, [exited(9, "h1")]);
    }

    #[test]
    fn an_unknown_job_has_no_events_and_a_job_that_died_fails_until_it_is_forgotten() {
        let SomeJobs { table: jobs, .. } = SomeJobs::default();
        let id = JobRef::Id("1@h1".parse().unwrap());
        let mut kept = KeptEvents::default();
        let now = Time::ZERO;
        let answer = kept.ordered(now, &jobs, order(1), &id, None);
        assert_eq!(answer, Some(OrderAnswer::NoSuchJob));
        // Its manager reported an event and died.
        let mut kept = with(&[exited(1, "h1")]);
        assert!(kept.serve(now, &jobs).is_empty());
        assert_eq!(kept.next_deadline(), Some(now + KEPT));
        let answer = kept.ordered(now, &jobs, order(2), &id, Some(2));
        assert!(matches!(answer, Some(OrderAnswer::Failed { .. })), "{answer:?}");
        assert!(kept.serve(now + KEPT, &jobs).is_empty());
        let answer = kept.ordered(now, &jobs, order(3), &id, Some(2));
        assert_eq!(answer, Some(OrderAnswer::NoSuchJob));
    }
}
