//! The times of this manager and its ranks for the timeline of the launch.

use std::collections::BTreeMap;

use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::{Exchange, Phase, Span};

/// Most fences with recorded times. A program may have millions.
const MAX_FENCES: usize = 64;

/// The spans of this manager, and those that have begun.
#[derive(Debug)]
pub struct Trace {
    /// Wall clock in microseconds, and our clock at the same moment. So a change of the wall clock does not stretch
    /// a span.
    wall: u64,
    at: Time,
    /// Whether spans are recorded. Also before the specification, which decides it.
    wanted: bool,
    spans: Vec<Span>,
    begun: BTreeMap<(Phase, Option<Rank>), Time>,
    fences: usize,
    go: Option<Time>,
    /// The clock correction of each child in microseconds, added to its times.
    corrections: BTreeMap<usize, i64>,
}

impl Trace {
    /// The trace of a process that began at `began` and is working now. Both are wall-clock times in microseconds.
    pub fn start(began: u64, wall: u64, now: Time) -> Self {
        let took_us = wall.saturating_sub(began);
        let spans = vec![Span { phase: Phase::Manager, rank: None, began_us: began, took_us }];
        Self {
            wall,
            at: now,
            wanted: true,
            spans,
            begun: BTreeMap::new(),
            fences: 0,
            go: None,
            corrections: BTreeMap::new(),
        }
    }

    /// Decides whether spans are recorded. `daemons` are spans of the daemon.
    pub fn decide(&mut self, wanted: bool, daemons: &[Span]) {
        self.wanted = wanted;
        self.spans.extend_from_slice(daemons);
    }

    /// Begins a span.
    pub fn begin(&mut self, now: Time, phase: Phase, rank: Option<Rank>) {
        if self.wanted {
            self.begun.entry((phase, rank)).or_insert(now);
        }
    }

    /// Ends a span. One that has not begun is ignored.
    pub fn end(&mut self, now: Time, phase: Phase, rank: Option<Rank>) {
        let Some(began) = self.begun.remove(&(phase, rank)) else { return };
        if phase == Phase::Fence {
            self.fences += 1;
            if self.fences > MAX_FENCES {
                return;
            }
        }
        let took_us = micros(now.since(began));
        self.spans.push(Span { phase, rank, began_us: self.wall_at(began), took_us });
    }

    /// Notes that the command to start the ranks is passed to the children or, without children, is carried out.
    /// The span begins at the moment by which clocks are compared. This moment precedes the sending of the command.
    /// A child may start its ranks while this manager still waits for a processor.
    pub(crate) fn go(&mut self, now: Time) {
        if self.begun.contains_key(&(Phase::Go, None)) {
            return;
        }
        self.end(now, Phase::Ready, None);
        self.begin(now, Phase::Go, None);
        self.go = Some(now);
    }

    pub(super) fn wall_at(&self, at: Time) -> u64 {
        self.wall + micros(at.since(self.at))
    }

    /// When the command to start the ranks came; 0 if it did not come.
    pub(super) fn go_us(&self) -> u64 {
        self.go.map_or(0, |go| self.wall_at(go))
    }

    /// Takes all spans. Open spans end now.
    pub(super) fn take(&mut self, now: Time) -> Vec<Span> {
        for (phase, rank) in self.begun.keys().copied().collect::<Vec<_>>() {
            self.end(now, phase, rank);
        }
        std::mem::take(&mut self.spans)
    }

    /// Translates spans of the manager at `child` to our own time. The child got the command to start its ranks at
    /// `arrived_us`, and sent the spans at `reported_us`.
    pub(super) fn translated(
        &mut self,
        now: Time,
        child: usize,
        (arrived_us, reported_us): (u64, u64),
        spans: Vec<Span>,
    ) -> Vec<Span> {
        let (sent, received) = (self.go_us(), self.wall_at(now));
        let correction =
            *self.corrections.entry(child).or_insert_with(|| match (sent, arrived_us) {
                // Without the command there are no times to compare.
                (0, _) | (_, 0) => 0,
                _ => Exchange { sent, arrived: arrived_us, answered: reported_us, received }
                    .correction(),
            });
        spans.into_iter().map(|span| span.shifted(correction)).collect()
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn trace() -> Trace {
        let mut trace = Trace::start(0, 0, Time::ZERO);
        trace.wall = 1_000_000;
        trace.spans.clear();
        trace
    }

    #[test]
    fn a_span_has_its_length_by_our_own_clock_and_open_spans_end_with_the_trace() {
        let mut trace = trace();
        trace.begin(Time::ZERO + MS, Phase::Spawn, Some(Rank(3)));
        trace.begin(Time::ZERO + 2 * MS, Phase::Run, Some(Rank(3)));
        trace.end(Time::ZERO + 4 * MS, Phase::Spawn, Some(Rank(3)));
        trace.end(Time::ZERO + 5 * MS, Phase::Go, None);
        let span =
            |phase, began_us, took_us| Span { phase, rank: Some(Rank(3)), began_us, took_us };
        let expected = [span(Phase::Spawn, 1_001_000, 3000), span(Phase::Run, 1_002_000, 7000)];
        assert_eq!(trace.take(Time::ZERO + 9 * MS), expected);
    }

    #[test]
    fn an_unwanted_trace_records_nothing_and_a_wanted_one_records_a_limited_number_of_fences() {
        let mut trace = trace();
        let fence = |trace: &mut Trace| {
            trace.begin(Time::ZERO, Phase::Fence, None);
            trace.end(Time::ZERO, Phase::Fence, None);
        };
        (0..2 * MAX_FENCES).for_each(|_| fence(&mut trace));
        assert_eq!(trace.spans.len(), MAX_FENCES);
        trace.decide(false, &[]);
        fence(&mut trace);
        trace.begin(Time::ZERO, Phase::Run, Some(Rank(0)));
        assert!(trace.begun.is_empty());
    }

    #[test]
    fn the_correction_of_a_slow_clock_of_a_child_is_computed_once() {
        let mut trace = trace();
        let span = Span { phase: Phase::Go, rank: None, began_us: 900_000, took_us: 5 };
        let reported = |trace: &mut Trace, child, arrived| {
            let now = Time::ZERO + 100 * MS;
            trace.translated(now, child, (arrived, arrived + 10_000), vec![span])[0].began_us
        };
        assert_eq!(reported(&mut trace, 1, 900_000), 900_000, "no command was sent");
        trace.go(Time::ZERO);
        assert_eq!(reported(&mut trace, 2, 900_000), 1_000_000);
        assert_eq!(reported(&mut trace, 2, 950_000), 1_000_000);
    }

    #[test]
    fn the_go_span_of_a_host_begins_at_the_moment_by_which_clocks_are_compared() {
        let mut trace = trace();
        trace.go(Time::ZERO + 3 * MS);
        let go = trace.go_us();
        trace.end(Time::ZERO + 5 * MS, Phase::Go, None);
        assert_eq!(trace.spans[0].began_us, go);
    }

    #[test]
    fn the_go_span_of_a_host_that_starts_late_begins_when_it_passed_the_command_on() {
        let mut trace = trace();
        trace.go(Time::ZERO + 3 * MS);
        let passed_on = trace.go_us();
        trace.go(Time::ZERO + 20 * MS);
        assert_eq!(trace.go_us(), passed_on);
        trace.end(Time::ZERO + 25 * MS, Phase::Go, None);
        assert_eq!((trace.spans[0].began_us, trace.spans.len()), (passed_on, 1));
    }
}
