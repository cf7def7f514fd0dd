//! When this manager and its ranks did what, for the timeline of the launch.

use std::collections::BTreeMap;

use mpd_io::clock::wall;
use mpd_machine::Time;
use mpd_wire::Rank;
use mpd_wire::message::{Exchange, Phase, Span};

/// Fences whose times are kept: a program may have millions.
const MAX_FENCES: usize = 64;

/// Spans, and those that have begun.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The clock on the wall, and ours at the same moment: a span is not stretched when the former is
    /// set.
    wall: u64,
    at: Time,
    /// Until the specification says that nobody wants it.
    wanted: bool,
    spans: Vec<Span>,
    begun: BTreeMap<(Phase, Option<Rank>), Time>,
    fences: usize,
    go: Option<Time>,
    /// What is added to the times of each below us.
    corrections: BTreeMap<usize, i64>,
}

impl Trace {
    /// The trace of a process that began at `began` and is at work now.
    pub(crate) fn start(began: u64, now: Time) -> Self {
        let wall = wall();
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

    /// From here on it is known whether somebody wants it. Some spans are the daemon's.
    pub(crate) fn decide(&mut self, wanted: bool, daemons: &[Span]) {
        self.wanted = wanted;
        self.spans.extend_from_slice(daemons);
    }

    pub(crate) fn begin(&mut self, now: Time, phase: Phase, rank: Option<Rank>) {
        if self.wanted {
            self.begun.entry((phase, rank)).or_insert(now);
        }
    }

    pub(crate) fn end(&mut self, now: Time, phase: Phase, rank: Option<Rank>) {
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

    /// The command to start the ranks is passed to the managers below, or, where none is below, is obeyed.
    /// The span begins at the moment by which clocks are compared. That moment lies before the command
    /// leaves this host: a manager below may obey it while this one still waits for a processor.
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

    /// When the word to go came; 0 if it did not.
    pub(super) fn go_us(&self) -> u64 {
        self.go.map_or(0, |go| self.wall_at(go))
    }

    /// Everything so far. What has no end, ends now.
    pub(super) fn take(&mut self, now: Time) -> Vec<Span> {
        for (phase, rank) in self.begun.keys().copied().collect::<Vec<_>>() {
            self.end(now, phase, rank);
        }
        std::mem::take(&mut self.spans)
    }

    /// Spans that the manager at `child` told at `told_us`, having heard the word to go at `heard_us`,
    /// in our own time.
    pub(super) fn translated(
        &mut self,
        now: Time,
        child: usize,
        (heard_us, told_us): (u64, u64),
        spans: Vec<Span>,
    ) -> Vec<Span> {
        let (sent, received) = (self.go_us(), self.wall_at(now));
        let correction = *self.corrections.entry(child).or_insert_with(|| match (sent, heard_us) {
            // It was not told to go: there is nothing to compare.
            (0, _) | (_, 0) => 0,
            _ => Exchange { sent, heard: heard_us, answered: told_us, received }.correction(),
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
        let mut trace = Trace::start(0, Time::ZERO);
        trace.wall = 1_000_000;
        trace.spans.clear();
        trace
    }

    #[test]
    fn a_span_has_its_length_by_our_own_clock_and_what_has_no_end_ends_with_the_trace() {
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
    fn an_unwanted_trace_grows_no_more_and_a_wanted_one_by_so_many_fences() {
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
    fn one_below_whose_clock_is_behind_is_corrected_once_and_for_all() {
        let mut trace = trace();
        let span = Span { phase: Phase::Go, rank: None, began_us: 900_000, took_us: 5 };
        let told = |trace: &mut Trace, child, heard| {
            let now = Time::ZERO + 100 * MS;
            trace.translated(now, child, (heard, heard + 10_000), vec![span])[0].began_us
        };
        assert_eq!(told(&mut trace, 1, 900_000), 900_000, "nobody was told to go");
        trace.go(Time::ZERO);
        assert_eq!(told(&mut trace, 2, 900_000), 1_000_000);
        assert_eq!(told(&mut trace, 2, 950_000), 1_000_000);
    }

    #[test]
    fn a_host_goes_at_the_very_moment_by_which_its_clock_is_compared() {
        let mut trace = trace();
        trace.go(Time::ZERO + 3 * MS);
        let go = trace.go_us();
        trace.end(Time::ZERO + 5 * MS, Phase::Go, None);
        assert_eq!(trace.spans[0].began_us, go);
    }

    #[test]
    fn a_host_that_obeys_late_went_when_it_passed_the_command_on() {
        let mut trace = trace();
        trace.go(Time::ZERO + 3 * MS);
        let passed_on = trace.go_us();
        trace.go(Time::ZERO + 20 * MS);
        assert_eq!(trace.go_us(), passed_on);
        trace.end(Time::ZERO + 25 * MS, Phase::Go, None);
        assert_eq!((trace.spans[0].began_us, trace.spans.len()), (passed_on, 1));
    }
}
