//! Lost members that are to be started again: their left neighbour at that time runs the helper `mpdboot --revive`, which
//! uses ssh. So no single daemon is responsible for all members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::DaemonName;

/// How long a member must be dead before it is started again. A short interruption ends within this time, and so
/// does a start by other means.
const GRACE: Duration = Duration::from_secs(2);

/// The time from one attempt to the next. It doubles with each attempt up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// How long the attempts for a member are remembered after its return.
const MEMORY: Duration = Duration::from_secs(60);

/// Most helpers at one time.
const MAX_HELPERS: usize = 4;

/// How often the dead members are counted.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct WatchedDeadPeer {
    next: Time,
    pause: Duration,
    tried: Option<Time>,
}

/// Which lost members to start again, and when.
#[derive(Debug)]
pub(crate) struct Keep {
    /// Members in the plan.
    known: BTreeSet<String>,
    watched_dead: BTreeMap<DaemonName, WatchedDeadPeer>,
    next_look: Time,
    /// The members that are being started.
    helpers: BTreeSet<DaemonName>,
}

impl Keep {
    /// Members with these names are started again.
    pub(crate) fn new(known: BTreeSet<String>, now: Time) -> Self {
        let (watched_dead, helpers) = (BTreeMap::new(), BTreeSet::new());
        Self { known, watched_dead, next_look: now + INTERVAL, helpers }
    }

    pub(crate) const fn next_deadline(&self) -> Time {
        self.next_look
    }

    /// The helper of this member has ended, or cannot start.
    pub(crate) fn helper_ended(&mut self, member: &DaemonName) {
        self.helpers.remove(member);
    }

    /// The members of `lost` that are to be started now.
    pub(crate) fn turn(&mut self, now: Time, lost: Vec<DaemonName>) -> Vec<DaemonName> {
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + INTERVAL;
        // A member that returns only for a moment keeps its pause.
        let recent = |peer: &WatchedDeadPeer| peer.tried.is_some_and(|at| now.since(at) < MEMORY);
        self.watched_dead.retain(|name, peer| lost.contains(name) || recent(peer));
        let mut started = Vec::new();
        for name in lost {
            if !self.known.contains(name.as_str()) {
                continue;
            }
            let first = WatchedDeadPeer { next: now + GRACE, pause: PAUSE, tried: None };
            let peer = self.watched_dead.entry(name.clone()).or_insert(first);
            let is_busy = self.helpers.contains(&name) || self.helpers.len() >= MAX_HELPERS;
            if peer.next > now || is_busy {
                continue;
            }
            peer.tried = Some(now);
            peer.next = now + peer.pause;
            peer.pause = (peer.pause * 2).min(LONGEST_PAUSE);
            self.helpers.insert(name.clone());
            started.push(name);
        }
        started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn keep() -> Keep {
        Keep::new(["h1", "h2", "h3", "h4", "h5", "h6"].map(str::to_owned).into(), Time::ZERO)
    }

    /// The seconds at which a helper for h2 starts, if each ends at once.
    fn starts(keep: &mut Keep, is_lost: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut seconds = Vec::new();
        for second in 0..120 {
            let lost = if is_lost(second) { vec![name("h2")] } else { Vec::new() };
            for member in keep.turn(Time::from_micros(second * 1_000_000), lost) {
                keep.helper_ended(&member);
                seconds.push(second);
            }
        }
        seconds
    }

    #[test]
    fn a_lost_member_is_started_after_a_grace_and_again_with_doubled_pauses() {
        assert_eq!(starts(&mut keep(), |_| true), [3, 7, 15, 31, 63, 95]);
        assert_eq!(starts(&mut keep(), |second| second < 3), [0; 0], "a short interruption");
    }

    #[test]
    fn a_member_that_returns_for_a_moment_keeps_its_pause() {
        assert_eq!(starts(&mut keep(), |second| second != 9)[..3], [3, 7, 15]);
    }

    #[test]
    fn few_helpers_run_at_a_time_one_for_a_member_and_none_for_a_stranger() {
        let mut keep = keep();
        let lost = || ["h2", "h3", "h4", "h5", "h6", "x"].map(name).to_vec();
        let at = |second: u64| Time::from_micros(second * 1_000_000);
        assert!(keep.turn(at(1), lost()).is_empty(), "the grace");
        assert_eq!(keep.turn(at(3), lost()), ["h2", "h3", "h4", "h5"].map(name));
        assert!(keep.turn(at(90), lost()).is_empty(), "all are busy");
        keep.helper_ended(&name("h3"));
        assert_eq!(keep.turn(at(91), lost()), [name("h3")]);
    }
}
