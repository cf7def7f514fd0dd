//! Crashed ranks whose processes are held for the debugger. Ranks that crash together belong to one
//! session of the debugger. Ranks that crash during a session belong to the next session.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_io::process::signals;
use mpd_sansio::Time;
use mpd_wire::{Rank, RankSet};

use crate::processes::Processes;

/// Longest time between two crashes of one session; `GATHER_MOST` bounds the time from the first
/// crash to the session.
pub const GATHER: Duration = Duration::from_millis(300);
const GATHER_MOST: Duration = Duration::from_secs(1);

/// Most ranks in one session, each with a debugger. Further ranks that crashed with them are
/// released with them.
const MAX_RANKS: usize = 64;

/// Most hosts that are named in one line.
const MAX_HOSTS: usize = 4;

/// The crashed ranks of a job.
#[derive(Debug, Default)]
pub struct CrashedRanks {
    /// Crashed ranks without a session yet, with their signals.
    waiting: BTreeMap<Rank, u8>,
    due: Option<Time>,
    /// Latest time for the next session.
    latest: Option<Time>,
    /// Whether a session is open.
    open: bool,
    /// Whether the job is about to end, so that no further session follows.
    ends: bool,
}

/// A session of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The ranks of the session.
    pub ranks: RankSet,
    /// The crashes, as text for people.
    pub text: String,
}

impl CrashedRanks {
    /// Handles the crash of a rank whose process is held. Returns whether to release all held
    /// processes at once.
    #[must_use]
    pub fn add(&mut self, now: Time, rank: Rank, signal: u8) -> bool {
        if self.ends {
            // During a session, the process is released after the session.
            return !self.open;
        }
        self.waiting.entry(rank).or_insert(signal);
        if !self.open {
            let latest = *self.latest.get_or_insert(now + GATHER_MOST);
            self.due = Some(latest.min(now + GATHER));
        }
        false
    }

    /// Whether processes are held for the debugger.
    pub fn is_any(&self) -> bool {
        self.open || !self.waiting.is_empty()
    }

    /// The time for [`CrashedRanks::open`].
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// The next session, if its time has come.
    pub fn open(&mut self, now: Time, processes: &Processes) -> Option<Opening> {
        self.due.take_if(|due| *due <= now)?;
        (self.open, self.latest) = (true, None);
        let crashed = std::mem::take(&mut self.waiting);
        let mut text = reported(&crashed, processes);
        if crashed.len() > MAX_RANKS {
            text = format!(
                "{text}; of these {} the debugger opens at the first {MAX_RANKS}",
                crashed.len()
            );
        }
        Some(Opening { ranks: crashed.keys().copied().take(MAX_RANKS).collect(), text })
    }

    /// Handles the end of a session; `more` allows a further session. Returns whether to release
    /// all held processes.
    #[must_use]
    pub fn close(&mut self, now: Time, more: bool, continues_on_failure: bool) -> bool {
        self.open = false;
        if more && !self.waiting.is_empty() {
            self.due = Some(now);
            return false;
        }
        self.waiting.clear();
        self.ends |= !continues_on_failure;
        true
    }

    /// Handles the coming end of the job. Returns whether to release all held processes now; those
    /// of an open session are released after the session.
    #[must_use]
    pub fn forget(&mut self) -> bool {
        self.due = None;
        self.ends = true;
        !std::mem::take(&mut self.waiting).is_empty() && !self.open
    }
}

/// `rank 1 of host h1: SIGSEGV, ranks 3,5 of host h2: SIGABRT`
fn reported(held: &BTreeMap<Rank, u8>, processes: &Processes) -> String {
    let mut places: BTreeMap<(u8, Option<&str>), RankSet> = BTreeMap::new();
    for (&rank, &signal) in held {
        let set = places.entry((signal, processes.host_of(rank)));
        set.or_insert_with(RankSet::none).insert(rank);
    }
    if places.len() > MAX_HOSTS {
        let places_of_all = std::mem::take(&mut places);
        for ((signal, _), ranks) in places_of_all {
            places.entry((signal, None)).or_insert_with(RankSet::none).join(&ranks);
        }
    }
    let texts = places.into_iter().map(|((signal, host), ranks)| {
        let plural = if ranks.count() == 1 { "" } else { "s" };
        let host = host.map(|host| format!(" of host {host}")).unwrap_or_default();
        format!("rank{plural} {ranks}{host}: {}", signals::name(signal.into()))
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn processes() -> Processes {
        let mut processes = Processes::of(200);
        processes.add("h1", &RankSet::below(2), &[7, 8]);
        processes.add("h2", &RankSet::from_ranges(vec![(2, 5)]), &[1, 2, 3, 4]);
        processes
    }

    fn opened(held: &mut CrashedRanks, now: Time) -> Option<(String, String)> {
        held.open(now, &processes()).map(|opening| (opening.ranks.to_string(), opening.text))
    }

    #[test]
    fn ranks_that_crash_together_are_one_session_and_later_ranks_the_next() {
        let mut held = CrashedRanks::default();
        for (rank, signal) in [(3, 11), (1, 6), (5, 11), (3, 6)] {
            assert!(!held.add(NOW, Rank(rank), signal));
        }
        assert_eq!(opened(&mut held, NOW), None);
        let text = "rank 1 of host h1: SIGABRT, ranks 3,5 of host h2: SIGSEGV";
        assert_eq!(opened(&mut held, NOW + GATHER), Some(("1,3,5".into(), text.into())));
        assert!(!held.add(NOW, Rank(4), 8) && held.due().is_none());
        assert!(!held.close(NOW, true, false) && held.is_any());
        let next = Some(("4".into(), "rank 4 of host h2: SIGFPE".into()));
        assert_eq!(opened(&mut held, NOW), next);
        assert!(held.close(NOW, true, false) && !held.is_any());
        assert!(held.add(NOW, Rank(2), 11), "the job ends");
    }

    #[test]
    fn a_session_waits_a_bounded_time_for_further_crashes() {
        let mut held = CrashedRanks::default();
        for tenths in 0..20 {
            let now = NOW + Duration::from_millis(100) * tenths;
            assert!(!held.add(now, Rank(tenths), 11));
            let latest = NOW + GATHER_MOST;
            assert_eq!(held.due(), Some(latest.min(now + GATHER)));
        }
    }

    #[test]
    fn a_continuing_job_has_its_next_session_at_the_next_crash() {
        let mut held = CrashedRanks::default();
        for _ in 0..2 {
            assert!(!held.add(NOW, Rank(0), 11));
            assert!(opened(&mut held, NOW + GATHER).is_some());
            assert!(held.close(NOW, true, true));
        }
    }

    #[test]
    fn a_job_that_is_about_to_end_has_no_further_session() {
        let mut held = CrashedRanks::default();
        assert!(!held.add(NOW, Rank(0), 11));
        assert!(held.forget() && held.add(NOW, Rank(1), 11));
        assert_eq!((held.due(), opened(&mut held, NOW + GATHER)), (None, None));
        let mut held = CrashedRanks::default();
        assert!(!held.add(NOW, Rank(0), 11));
        assert!(opened(&mut held, NOW + GATHER).is_some());
        assert!(!held.add(NOW, Rank(1), 11) && !held.forget() && !held.add(NOW, Rank(2), 11));
        assert!(held.close(NOW, true, false), "only the ranks of the session were still held");
    }

    #[test]
    fn a_session_has_a_bounded_number_of_ranks_and_names_few_hosts() {
        let mut held = CrashedRanks::default();
        (0..100).for_each(|rank| assert!(!held.add(NOW, Rank(rank), 4 + (rank % 3) as u8)));
        let (ranks, text) = opened(&mut held, NOW + GATHER).unwrap();
        assert_eq!(ranks, "0-63");
        assert!(text.starts_with("ranks 0,3,6,") && !text.contains("host"), "{text}");
        assert!(text.ends_with("; of these 100 the debugger opens at the first 64"), "{text}");
        assert!(held.close(NOW, true, false), "the others go with them");
    }
}
