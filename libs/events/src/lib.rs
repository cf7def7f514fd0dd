//! The events of one job in their order: a bounded history, and the recorder at the job's root.
//!
//! **Purpose.** The root of a job numbers the events from 1. It keeps the newest [`MAX_HISTORY`] of them, also without
//! subscribers. Daemons keep the events of jobs with subscribers in a history of the same kind.
//!
//! **Users.** The machine of a job (`mpd-job`), and the daemon.
//!
//! **Must not know.** Managers, processes and the ring.
#![forbid(unsafe_code)]

mod refused_names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use mpd_sansio::Time;
use mpd_wire::job::RankEnd;
use mpd_wire::message::{EventGap, HostChange, HostTurn, JobChange, MAX_EVENTS};
use mpd_wire::{DaemonName, Rank};

pub use refused_names::RefusedNames;

/// Most events of a job that are kept.
pub const MAX_HISTORY: usize = 16_384;

/// The newest events of a job.
#[derive(Clone)]
pub struct History<T> {
    /// The number of the oldest one that is kept, or of the next one.
    first: u64,
    events: VecDeque<T>,
    limit: usize,
}

impl<T> History<T> {
    /// Without events. It keeps at most `limit` of them.
    pub const fn new(limit: usize) -> Self {
        Self { first: 1, events: VecDeque::new(), limit }
    }

    /// The number of the next event.
    pub fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Adds an event, and returns its number. The oldest one makes room if there is none.
    pub fn push(&mut self, event: T) -> u64 {
        let number = self.next();
        if self.limit == 0 {
            self.first += 1;
            return number;
        }
        if self.events.len() >= self.limit {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
        number
    }

    /// Adds the event of this number. Returns `false` for an event that was added before. The events before a gap are
    /// dropped.
    pub fn put(&mut self, number: u64, event: T) -> bool {
        if number < self.next() {
            return false;
        }
        if number > self.next() {
            self.events.clear();
            self.first = number;
        }
        self.push(event);
        true
    }

    /// The events from this number on, and the gap before them; `None`: from the oldest one that is kept. A number from
    /// [`Self::next`] on has no events.
    pub fn from(&self, number: Option<u64>) -> (Option<EventGap>, impl Iterator<Item = (u64, &T)>) {
        let wanted = number.unwrap_or(self.first).max(1);
        let gap = (wanted < self.first).then_some(EventGap { from: wanted, next: self.first });
        let skipped = usize::try_from(wanted.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(self.events.len());
        let events = self.events.range(skipped..);
        (gap, (self.first + skipped as u64..).zip(events))
    }
}

/// The state of a machine has the numbers alone.
impl<T> fmt::Debug for History<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, next) = (self.first, self.next());
        f.debug_struct("History").field("first", &first).field("next", &next).finish()
    }
}

/// An event, as the root of its job has recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub number: u64,
    /// When.
    pub at: Time,
    /// What happened.
    pub change: JobChange,
}

/// The recorder at the root of a job.
///
/// A rank gets `started` first and `exited` second, each once. The end of a rank may become known before its process
/// id; it is held until then.
#[derive(Debug)]
pub struct Recorder {
    history: History<(Time, JobChange)>,
    /// Ends of ranks whose process ids are not known yet, and their hosts.
    held: BTreeMap<Rank, (DaemonName, RankEnd)>,
    /// Hosts that are lost or left, and not back.
    gone: BTreeSet<DaemonName>,
    /// The number of the next event to be reported; `None`: there is no subscriber.
    unreported: Option<u64>,
    is_over: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            history: History::new(MAX_HISTORY),
            held: BTreeMap::new(),
            gone: BTreeSet::new(),
            unreported: None,
            is_over: false,
        }
    }
}

impl Recorder {
    /// A rank was started, for the first time.
    pub fn started(&mut self, now: Time, rank: Rank, pid: u32, host: DaemonName) {
        self.push(now, JobChange::Started { rank, pid, host });
    }

    /// The process id of a rank has come after its end. Returns `false` if the rank has no end that is held.
    pub fn started_late(&mut self, now: Time, rank: Rank, pid: u32) -> bool {
        let Some((host, end)) = self.held.remove(&rank) else { return false };
        self.started(now, rank, pid, host.clone());
        self.push(now, JobChange::Exited { rank, host, end });
        true
    }

    /// A rank has ended, and it was started or not.
    pub fn ended(
        &mut self,
        now: Time,
        rank: Rank,
        is_started: bool,
        host: DaemonName,
        end: RankEnd,
    ) {
        match (is_started, end) {
            (true, _) => self.push(now, JobChange::Exited { rank, host, end }),
            // It never ran, or that is not known.
            (false, RankEnd::NotStarted | RankEnd::Lost) => {}
            (false, RankEnd::Exited(_) | RankEnd::Signaled { .. }) => {
                self.held.insert(rank, (host, end));
            }
        }
    }

    /// A host of the ring has changed. The loss of a host that is gone already is no change.
    pub fn host_changed(&mut self, now: Time, change: HostChange) {
        let is_new = match change.to {
            HostTurn::Lost | HostTurn::Left => self.gone.insert(change.host.clone()),
            HostTurn::Added => {
                self.gone.remove(&change.host);
                true
            }
            HostTurn::Draining | HostTurn::Undrained => true,
        };
        if is_new {
            self.push(now, JobChange::Host(change));
        }
    }

    /// A new daemon has found a host. It was there before, unless the job has lost it.
    pub fn host_found(&mut self, now: Time, host: DaemonName) {
        if self.gone.contains(&host) {
            self.host_changed(now, HostChange { host, to: HostTurn::Added });
        }
    }

    /// The job is over. Ends that are held still become events.
    pub fn over(&mut self, now: Time, code: u8) {
        for rank in self.held.keys().copied().collect::<Vec<_>>() {
            self.started_late(now, rank, 0);
        }
        self.push(now, JobChange::JobEnded { code });
        self.is_over = true;
    }

    /// There is a subscriber, or a new daemon has come: all events are reported from the oldest one on.
    pub const fn report_all(&mut self) {
        self.unreported = Some(1);
    }

    /// A new daemon has come.
    pub const fn repeat(&mut self) {
        if self.unreported.is_some() {
            self.report_all();
        }
    }

    /// The next events to be reported, at most [`MAX_EVENTS`]; none without a subscriber.
    pub fn take_unreported(&mut self) -> Vec<Recorded> {
        let Some(from) = self.unreported.filter(|&from| from < self.history.next()) else {
            return Vec::new();
        };
        let (_, events) = self.history.from(Some(from));
        let recorded = |(number, (at, change)): (u64, &(Time, JobChange))| Recorded {
            number,
            at: *at,
            change: change.clone(),
        };
        let events: Vec<Recorded> = events.take(MAX_EVENTS).map(recorded).collect();
        if let Some(last) = events.last() {
            self.unreported = Some(last.number + 1);
        }
        events
    }

    fn push(&mut self, now: Time, change: JobChange) {
        if !self.is_over {
            self.history.push((now, change));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(name: &str) -> DaemonName {
        DaemonName::new(name).unwrap()
    }

    fn numbers(history: &History<u64>, from: Option<u64>) -> (Option<(u64, u64)>, Vec<u64>) {
        let (gap, events) = history.from(from);
        let numbers = events.map(|(number, event)| {
            assert_eq!(number, *event);
            number
        });
        (gap.map(|gap| (gap.from, gap.next)), numbers.collect())
    }

    fn all(recorder: &mut Recorder) -> Vec<JobChange> {
        recorder.report_all();
        let mut all = Vec::new();
        loop {
            let some = recorder.take_unreported();
            if some.is_empty() {
                return all;
            }
            assert!(some.len() <= MAX_EVENTS);
            all.extend(some.into_iter().map(|event| event.change));
        }
    }

    #[test]
    fn a_subscriber_that_asks_for_dropped_events_gets_a_gap_and_the_oldest_kept_one() {
        let mut history = History::new(3);
        assert_eq!(numbers(&history, None), (None, vec![]));
        (1..=5).for_each(|number| assert_eq!(history.push(number), number));
        assert_eq!(numbers(&history, None), (None, vec![3, 4, 5]));
        assert_eq!(numbers(&history, Some(1)), (Some((1, 3)), vec![3, 4, 5]));
        assert_eq!(numbers(&history, Some(0)), (Some((1, 3)), vec![3, 4, 5]));
        assert_eq!(numbers(&history, Some(4)), (None, vec![4, 5]));
        for late in [6, 7, u64::MAX] {
            assert_eq!(numbers(&history, Some(late)), (None, vec![]), "{late}");
        }
    }

    #[test]
    fn an_event_is_put_once_and_events_before_a_gap_are_dropped() {
        let mut history = History::new(9);
        assert!(history.put(1, 1) && history.put(2, 2));
        assert!(!history.put(1, 1) && !history.put(2, 2));
        assert!(history.put(7, 7));
        assert_eq!(numbers(&history, Some(2)), (Some((2, 7)), vec![7]));
    }

    #[test]
    fn a_rank_that_ends_before_its_process_id_is_known_is_started_first() {
        let mut recorder = Recorder::default();
        let (now, h1) = (Time::ZERO, host("h1"));
        recorder.ended(now, Rank(0), false, h1.clone(), RankEnd::Exited(3));
        recorder.ended(now, Rank(1), false, h1.clone(), RankEnd::Exited(4));
        recorder.ended(now, Rank(2), false, h1.clone(), RankEnd::NotStarted);
        recorder.ended(now, Rank(3), false, h1.clone(), RankEnd::Lost);
        assert!(recorder.started_late(now, Rank(1), 77));
        assert!(!recorder.started_late(now, Rank(1), 77));
        recorder.over(now, 4);
        recorder.over(now, 4);
        let started = |rank, pid| JobChange::Started { rank: Rank(rank), pid, host: h1.clone() };
        let exited = |rank, code| JobChange::Exited {
            rank: Rank(rank),
            host: h1.clone(),
            end: RankEnd::Exited(code),
        };
        let over = JobChange::JobEnded { code: 4 };
        let expected = [started(1, 77), exited(1, 4), started(0, 0), exited(0, 3), over];
        assert_eq!(all(&mut recorder), expected);
    }

    #[test]
    fn a_host_is_lost_once_until_it_is_back() {
        let mut recorder = Recorder::default();
        let lost = HostChange { host: host("h2"), to: HostTurn::Lost };
        let added = HostChange { host: host("h2"), to: HostTurn::Added };
        for change in [&lost, &lost, &added, &lost, &lost] {
            recorder.host_changed(Time::ZERO, change.clone());
        }
        // A new daemon finds a host that was lost, and one that never was.
        recorder.host_found(Time::ZERO, host("h2"));
        recorder.host_found(Time::ZERO, host("h3"));
        let expected = [&lost, &added, &lost, &added].map(|c| JobChange::Host(c.clone()));
        assert_eq!(all(&mut recorder), expected);
    }

    #[test]
    fn events_are_reported_only_with_a_subscriber_and_to_each_new_daemon_again() {
        let mut recorder = Recorder::default();
        recorder.started(Time::ZERO, Rank(0), 7, host("h1"));
        recorder.repeat();
        assert!(recorder.take_unreported().is_empty());
        recorder.report_all();
        assert_eq!(recorder.take_unreported().len(), 1);
        // A subscriber may come before the first event.
        let mut recorder = Recorder::default();
        recorder.report_all();
        assert!(recorder.take_unreported().is_empty());
        recorder.started(Time::ZERO, Rank(0), 7, host("h1"));
        assert_eq!(recorder.take_unreported().len(), 1);
        assert!(recorder.take_unreported().is_empty());
        recorder.over(Time::ZERO, 0);
        let [over] = &recorder.take_unreported()[..] else { panic!("one event") };
        assert_eq!(over.number, 2);
        recorder.repeat();
        let again: Vec<u64> = recorder.take_unreported().iter().map(|event| event.number).collect();
        assert_eq!(again, [1, 2]);
    }

    proptest! {
        /// Two readers of one history, each with its own pace, read the same events without repetition; numbers that
        /// are missing are those of the gaps.
        #[test]
        fn readers_see_each_kept_event_once_and_gaps_cover_the_rest(
            limit in 1_usize..20,
            steps in proptest::collection::vec((0_usize..6, 0_usize..4), 0..60),
        ) {
            let mut history = History::new(limit);
            let (mut next, mut seen, mut pushed) = (1, Vec::new(), 0);
            for (pushes, reads) in steps {
                for _ in 0..pushes {
                    pushed += 1;
                    prop_assert_eq!(history.push(pushed), pushed);
                }
                let (gap, events) = history.from(Some(next));
                if let Some(gap) = gap {
                    prop_assert_eq!(gap.from, next);
                    seen.extend(gap.from..gap.next);
                    next = gap.next;
                }
                for (number, event) in events.take(reads) {
                    prop_assert_eq!(number, *event);
                    seen.push(number);
                    next = number + 1;
                }
            }
            prop_assert_eq!(seen, (1..next).collect::<Vec<_>>());
        }
    }
}
