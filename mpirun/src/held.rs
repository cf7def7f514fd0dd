//! Ranks that crashed and are held as they were: who they are, and when the debugger opens at them. Those that
//! crash together belong to one session; those that crash while it is open, to the next one.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::{Rank, RankSet};

use crate::crashes::signal_name;
use crate::processes::Processes;

/// From one crash to the next of those that crash together, and from the first to the session at most.
pub const GATHER: Duration = Duration::from_millis(300);
const GATHER_MOST: Duration = Duration::from_secs(1);

/// Most ranks that are looked at in one session, each with a debugger. Further ones that crashed with them go with them.
const MAX_RANKS: usize = 64;

/// Most hosts that are named in one line.
const MAX_HOSTS: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Held {
    /// Those that no session was about, and of which signal they are about to die.
    waiting: BTreeMap<Rank, u8>,
    due: Option<Time>,
    /// When it is due at the latest.
    latest: Option<Time>,
    /// A session is going on.
    open: bool,
    /// The job is about to end: there is no further session.
    ends: bool,
}

/// A session of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// With whom.
    pub ranks: RankSet,
    /// What the user is told, without what comes of it.
    pub who: String,
}

impl Held {
    /// A process of the rank is held. Whether it is to be let go at once.
    #[must_use]
    pub fn add(&mut self, now: Time, rank: Rank, signal: u8) -> bool {
        if self.ends {
            // With what is looked at, when that is over.
            return !self.open;
        }
        self.waiting.entry(rank).or_insert(signal);
        if !self.open {
            let latest = *self.latest.get_or_insert(now + GATHER_MOST);
            self.due = Some(latest.min(now + GATHER));
        }
        false
    }

    /// Whether what is held is the debugger's now, or about to be.
    pub fn is_any(&self) -> bool {
        self.open || !self.waiting.is_empty()
    }

    /// When [`Held::open`] has something to say.
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// The session that is due, if one is.
    pub fn open(&mut self, now: Time, processes: &Processes) -> Option<Opening> {
        self.due.take_if(|due| *due <= now)?;
        (self.open, self.latest) = (true, None);
        let crashed = std::mem::take(&mut self.waiting);
        let mut who = told(&crashed, processes);
        if crashed.len() > MAX_RANKS {
            who = format!("{who}; of these {} the first {MAX_RANKS} are looked at", crashed.len());
        }
        Some(Opening { ranks: crashed.keys().copied().take(MAX_RANKS).collect(), who })
    }

    /// The session is over; `more` if there may be another one now. Whether all that is held is to be let go.
    #[must_use]
    pub fn close(&mut self, now: Time, more: bool, goes_on: bool) -> bool {
        self.open = false;
        if more && !self.waiting.is_empty() {
            self.due = Some(now);
            return false;
        }
        self.waiting.clear();
        self.ends |= !goes_on;
        true
    }

    /// The job is about to end. Whether all that is held is to be let go now; what a session is about is, when that
    /// is over.
    #[must_use]
    pub fn forget(&mut self) -> bool {
        self.due = None;
        self.ends = true;
        !std::mem::take(&mut self.waiting).is_empty() && !self.open
    }
}

/// `rank 1 of host h1: SIGSEGV, ranks 3,5 of host h2: SIGABRT`
fn told(held: &BTreeMap<Rank, u8>, processes: &Processes) -> String {
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
        format!("rank{plural} {ranks}{host}: {}", signal_name(signal))
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

    fn opened(held: &mut Held, now: Time) -> Option<(String, String)> {
        held.open(now, &processes()).map(|opening| (opening.ranks.to_string(), opening.who))
    }

    #[test]
    fn those_that_crash_together_are_one_session_and_later_ones_the_next() {
        let mut held = Held::default();
        for (rank, signal) in [(3, 11), (1, 6), (5, 11), (3, 6)] {
            assert!(!held.add(NOW, Rank(rank), signal));
        }
        assert_eq!(opened(&mut held, NOW), None);
        let who = "rank 1 of host h1: SIGABRT, ranks 3,5 of host h2: SIGSEGV";
        assert_eq!(opened(&mut held, NOW + GATHER), Some(("1,3,5".into(), who.into())));
        assert!(!held.add(NOW, Rank(4), 8) && held.due().is_none());
        assert!(!held.close(NOW, true, false) && held.is_any());
        let next = Some(("4".into(), "rank 4 of host h2: SIGFPE".into()));
        assert_eq!(opened(&mut held, NOW), next);
        assert!(held.close(NOW, true, false) && !held.is_any());
        assert!(held.add(NOW, Rank(2), 11), "the job ends");
    }

    #[test]
    fn a_session_waits_while_ranks_go_on_crashing_but_not_for_long() {
        let mut held = Held::default();
        for tenths in 0..20 {
            let now = NOW + Duration::from_millis(100) * tenths;
            assert!(!held.add(now, Rank(tenths), 11));
            let latest = NOW + GATHER_MOST;
            assert_eq!(held.due(), Some(latest.min(now + GATHER)));
        }
    }

    #[test]
    fn a_job_that_goes_on_has_its_next_session_when_the_next_ranks_crash() {
        let mut held = Held::default();
        for _ in 0..2 {
            assert!(!held.add(NOW, Rank(0), 11));
            assert!(opened(&mut held, NOW + GATHER).is_some());
            assert!(held.close(NOW, true, true));
        }
    }

    #[test]
    fn a_job_that_is_about_to_end_has_no_further_session() {
        let mut held = Held::default();
        assert!(!held.add(NOW, Rank(0), 11));
        assert!(held.forget() && held.add(NOW, Rank(1), 11));
        assert_eq!((held.due(), opened(&mut held, NOW + GATHER)), (None, None));
        let mut held = Held::default();
        assert!(!held.add(NOW, Rank(0), 11));
        assert!(opened(&mut held, NOW + GATHER).is_some());
        assert!(!held.add(NOW, Rank(1), 11) && !held.forget() && !held.add(NOW, Rank(2), 11));
        assert!(held.close(NOW, true, false), "only what is looked at was still held");
    }

    #[test]
    fn a_session_is_of_a_bounded_number_of_ranks_and_few_hosts_are_named() {
        let mut held = Held::default();
        (0..100).for_each(|rank| assert!(!held.add(NOW, Rank(rank), 4 + (rank % 3) as u8)));
        let (ranks, who) = opened(&mut held, NOW + GATHER).unwrap();
        assert_eq!(ranks, "0-63");
        assert!(who.starts_with("ranks 0,3,6,") && !who.contains("host"), "{who}");
        assert!(who.ends_with("; of these 100 the first 64 are looked at"), "{who}");
        assert!(held.close(NOW, true, false), "the others go with them");
    }
}
