//! Which slots of which hosts are held, by the reports of all daemons. It is a hint for the placement of jobs without an
//! allocation, and decides nothing about holds.
//!
//! Each daemon reports to all members which slots its consoles hold: at a change, at a change of the members, and from time
//! to time. A report is forgotten after a while, as its daemon may be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_alloc::SavedOwn;
use mpd_alloc::data::Part;
use mpd_sansio::Time;
use mpd_wire::DaemonName;

/// How often held slots are reported again.
const AGAIN: Duration = Duration::from_secs(20);
/// How long they are believed.
const MEMORY: Duration = Duration::from_secs(65);
/// Between two reports: changes in between are in one.
const PAUSE: Duration = Duration::from_millis(50);

type Slots = BTreeMap<DaemonName, u32>;

#[derive(Debug)]
struct Report {
    number: u64,
    until: Time,
    slots: Slots,
}

#[derive(Debug, Default)]
pub(crate) struct HeldSlots {
    own: Slots,
    others: BTreeMap<DaemonName, Report>,
    /// When to report our own.
    due: Option<Time>,
    last: Option<Time>,
    /// The number of the last report; the next run of this daemon continues with greater ones.
    number: u64,
}

impl HeldSlots {
    /// The slots of our consoles have changed, or may have.
    pub(crate) fn set_own(&mut self, now: Time, own: &[SavedOwn]) {
        let mut slots = Slots::new();
        for Part { host, slots: more } in own.iter().flat_map(|own| &own.parts) {
            let sum = slots.entry(host.clone()).or_default();
            *sum = sum.saturating_add(*more);
        }
        if slots != self.own {
            self.own = slots;
            let earliest = self.last.map_or(now, |last| now.max(last + PAUSE));
            self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
        }
    }

    /// The members have changed. `is_live`: whether a daemon of this name is one of them.
    pub(crate) fn members_changed(&mut self, now: Time, is_live: impl Fn(&DaemonName) -> bool) {
        self.others.retain(|name, _| is_live(name));
        if !self.own.is_empty() {
            self.due = Some(self.due.map_or(now + PAUSE, |due| due.min(now + PAUSE)));
        }
    }

    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// The number and the slots to report to all members, if it is time. `wall_us`: the time of day.
    pub(crate) fn take_due(&mut self, now: Time, wall_us: u64) -> Option<(u64, Vec<Part>)> {
        self.due.filter(|due| *due <= now)?;
        self.last = Some(now);
        self.due = (!self.own.is_empty()).then(|| now + AGAIN);
        self.number = wall_us.max(self.number + 1);
        let part = |(host, slots): (&DaemonName, &u32)| Part { host: host.clone(), slots: *slots };
        Some((self.number, self.own.iter().map(part).collect()))
    }

    /// Another member has reported its slots.
    pub(crate) fn reported(&mut self, now: Time, from: &DaemonName, number: u64, parts: Vec<Part>) {
        if self.others.get(from).is_some_and(|report| report.number >= number) {
            return;
        }
        if parts.is_empty() {
            self.others.remove(from);
            return;
        }
        let slots = parts.into_iter().map(|Part { host, slots }| (host, slots)).collect();
        self.others.insert(from.clone(), Report { number, until: now + MEMORY, slots });
    }

    /// The held slots of each host.
    pub(crate) fn all(&self, now: Time) -> Slots {
        let mut all = self.own.clone();
        let others = self.others.values().filter(|report| report.until > now);
        for (host, slots) in others.flat_map(|report| &report.slots) {
            let sum = all.entry(host.clone()).or_default();
            *sum = sum.saturating_add(*slots);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn part(host: &str, slots: u32) -> Part {
        Part { host: name(host), slots }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn slots_that_others_reported_are_added_and_forgotten_after_a_while() {
        let mut held = HeldSlots::default();
        held.reported(at(1), &name("h1"), 5, vec![part("h1", 2), part("h2", 1)]);
        held.reported(at(1), &name("h2"), 5, vec![part("h2", 3)]);
        assert_eq!(held.all(at(2)), [(name("h1"), 2), (name("h2"), 4)].into());
        // A late report changes nothing.
        held.reported(at(2), &name("h1"), 4, vec![part("h1", 7)]);
        held.reported(at(3), &name("h2"), 6, Vec::new());
        assert_eq!(held.all(at(4)), [(name("h1"), 2), (name("h2"), 1)].into());
        assert!(held.all(at(70)).is_empty());
        held.members_changed(at(5), |name| name.as_str() != "h1");
        assert!(held.all(at(5)).is_empty());
    }

    #[test]
    fn own_slots_are_reported_at_a_change_and_again_until_there_are_none() {
        let mut held = HeldSlots::default();
        let own = |slots| SavedOwn {
            id: "a1@h1".parse().unwrap(),
            request: mpd_alloc::data::AllocRequest {
                count: 2,
                hardness: mpd_alloc::data::Hardness::Hard,
                hosts: Vec::new(),
                arch: Vec::new(),
                width: 1,
                limit_s: None,
                uid: 0,
                since_us: 0,
            },
            ticket: None,
            parts: vec![part("h2", slots)],
            ends_us: None,
        };
        held.set_own(at(1), &[own(2)]);
        assert_eq!(held.take_due(at(1), 9), Some((9, vec![part("h2", 2)])));
        held.set_own(at(1), &[own(2)]);
        assert_eq!(held.take_due(at(2), 9), None);
        assert_eq!(held.take_due(at(21), 9), Some((10, vec![part("h2", 2)])));
        held.set_own(at(22), &[]);
        assert_eq!(held.take_due(at(22), 20), Some((20, Vec::new())));
        assert_eq!(held.next_deadline(), None);
    }
}
