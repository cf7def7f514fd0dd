//! The request that gets slots next: a pure function of the queue and of the reports of the hosts.
//!
//! A request without a time limit that waits is not overtaken, except on hosts that it cannot use. A request with a time
//! limit that waits may be overtaken if its start is not later for that (EASY backfill). A request that could not run if
//! all slots were free delays no other one.

use crate::data::{AllocRequest, HostState, Part, Why};
use mpd_wire::DaemonName;

use crate::plan::{Room, can_use, count, place};

/// Most requests that wait and are looked at for one decision.
const MAX_LOOKED_AT: usize = 1024;

/// A request that waits.
pub(crate) struct Candidate<'a, K> {
    pub(crate) key: K,
    pub(crate) request: &'a AllocRequest,
    /// Otherwise it waits a little, as a host has just refused.
    pub(crate) may_start: bool,
}

/// The next request with its slots, and why those before it wait.
pub(crate) struct Choice<K> {
    pub(crate) taken: Option<(K, Vec<Part>)>,
    pub(crate) whys: Vec<(K, Why)>,
}

/// A host: its name, whether it is draining, and its report.
pub(crate) type Report<'a> = (&'a DaemonName, bool, &'a HostState);

/// Chooses among the candidates, which are in the order of the queue. `all`: every host of the ring has reported.
pub(crate) fn choose<'a, K>(
    hosts: Vec<Report<'_>>,
    all: bool,
    candidates: impl Iterator<Item = Candidate<'a, K>>,
) -> Choice<K> {
    let rooms = |slots: fn(&HostState) -> u32| -> Vec<Room<'_>> {
        let room = |&(name, draining, state): &(_, _, _)| -> Room<'_> {
            let state: &HostState = state;
            Room { name, arch: &state.arch, slots: slots(state), draining }
        };
        hosts.iter().map(room).collect()
    };
    let (free, existing) = (rooms(|state| state.free), rooms(|state| state.slots));
    let mut usable = free.clone();
    let mut first: Option<Shadow<'_>> = None;
    let mut whys = Vec::new();
    for Candidate { key, request, may_start } in candidates.take(MAX_LOOKED_AT) {
        if may_start && let Some(parts) = allowed(request, &usable, first.as_ref()) {
            return Choice { taken: Some((key, parts)), whys };
        }
        if place(request, &existing).is_none() {
            if !all {
                whys.push((key, Why::Asking));
                continue;
            }
            let (slots, wanted) = (slots(request, &existing), request.slots());
            let has_patterns = !request.hosts.is_empty() || !request.arch.is_empty();
            whys.push((
                key,
                match has_patterns {
                    true => Why::TooFewFit { slots, wanted },
                    false => Why::TooFewExist { slots, wanted },
                },
            ));
            continue;
        }
        let why = match place(request, &free) {
            Some(_) => Why::Behind,
            None => Why::TooFew { free: slots(request, &free) },
        };
        whys.push((key, why));
        match (&first, request.limit_s) {
            (Some(_), Some(_)) => {}
            (None, Some(_)) => match Shadow::of(request, &usable, &hosts) {
                Some(shadow) => first = Some(shadow),
                None => bar(request, &mut usable),
            },
            (_, None) => bar(request, &mut usable),
        }
        if usable.iter().all(|room| room.slots == 0) {
            break;
        }
    }
    Choice { taken: None, whys }
}

/// How many of the slots of a request there are.
fn slots(request: &AllocRequest, hosts: &[Room<'_>]) -> u32 {
    count(request, hosts).saturating_mul(request.width)
}

/// Takes the hosts that a request can use away from those behind it.
fn bar(request: &AllocRequest, usable: &mut [Room<'_>]) {
    for room in usable.iter_mut().filter(|room| can_use(request, room)) {
        room.slots = 0;
    }
}

/// The slots for a request that do not delay the first one that waits.
fn allowed(
    request: &AllocRequest,
    usable: &[Room<'_>],
    first: Option<&Shadow<'_>>,
) -> Option<Vec<Part>> {
    let parts = place(request, usable)?;
    let Some(first) = first else { return Some(parts) };
    if first.allows(request, &parts) {
        return Some(parts);
    }
    let mut beside = usable.to_vec();
    bar(first.request, &mut beside);
    place(request, &beside)
}

/// The time at which a request that waits can start at the latest, by the time limits of those that hold slots.
struct Shadow<'a> {
    request: &'a AllocRequest,
    /// Milliseconds from now.
    starts_ms: u64,
    /// The slots that are free then.
    rooms: Vec<Room<'a>>,
}

impl<'a> Shadow<'a> {
    fn of(request: &'a AllocRequest, usable: &[Room<'a>], hosts: &[Report<'a>]) -> Option<Self> {
        let mut ends: Vec<(u64, usize, u32)> = Vec::new();
        for (number, (_, _, state)) in hosts.iter().enumerate() {
            ends.extend(state.ends.iter().map(|&(left_ms, slots)| (left_ms, number, slots)));
        }
        ends.sort_unstable();
        let after = |ended: usize| {
            let mut rooms = usable.to_vec();
            for &(_, number, slots) in &ends[..ended] {
                let most = hosts[number].2.slots;
                rooms[number].slots = rooms[number].slots.saturating_add(slots).min(most);
            }
            rooms
        };
        let (mut low, mut high) = (0, ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match place(request, &after(middle)) {
                Some(_) => high = middle,
                None => low = middle + 1,
            }
        }
        let rooms = after(low);
        place(request, &rooms)?;
        let starts_ms = ends.get(low.checked_sub(1)?)?.0;
        Some(Self { request, starts_ms, rooms })
    }

    /// Whether the slots of a later request are free again at that time, or are not needed then.
    fn allows(&self, request: &AllocRequest, parts: &[Part]) -> bool {
        if request.limit_s.is_some_and(|limit| u64::from(limit) * 1000 <= self.starts_ms) {
            return true;
        }
        let mut rooms = self.rooms.clone();
        for Part { host, slots } in parts {
            if let Some(room) = rooms.iter_mut().find(|room| room.name == host) {
                room.slots = room.slots.saturating_sub(*slots);
            }
        }
        place(self.request, &rooms).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{name, request};

    fn state(slots: u32, free: u32, ends: &[(u64, u32)]) -> HostState {
        HostState { slots, free, arch: "x86_64".into(), ends: ends.to_vec() }
    }

    fn wants(count: u32, hosts: &str, limit_s: Option<u32>) -> AllocRequest {
        AllocRequest { hosts: vec![hosts.parse().unwrap()], limit_s, ..request(count) }
    }

    /// The number of the chosen request.
    fn chosen(states: &[HostState], requests: &[AllocRequest]) -> (Option<usize>, Vec<Why>) {
        let names: Vec<DaemonName> = (1..=states.len()).map(|n| name(&format!("h{n}"))).collect();
        let hosts = names.iter().zip(states).map(|(name, state)| (name, false, state)).collect();
        let candidate = |(key, request)| Candidate { key, request, may_start: true };
        let choice = choose(hosts, true, requests.iter().enumerate().map(candidate));
        let whys = choice.whys.into_iter().map(|(_, why)| why).collect();
        (choice.taken.map(|(key, _)| key), whys)
    }

    #[test]
    fn the_first_request_that_waits_is_not_overtaken() {
        let requests = [wants(10, "*", None), wants(1, "*", None)];
        let (taken, whys) = chosen(&[state(6, 4, &[]), state(6, 4, &[])], &requests);
        assert_eq!(taken, None);
        assert_eq!(whys, [Why::TooFew { free: 8 }]);
        assert_eq!(chosen(&[state(6, 4, &[]), state(6, 6, &[])], &requests).0, Some(0));
    }

    #[test]
    fn slots_that_no_earlier_request_can_use_are_given_to_later_ones() {
        let requests = [wants(4, "h1", None), wants(1, "*", None), wants(1, "h1", None)];
        let (taken, whys) = chosen(&[state(4, 2, &[]), state(4, 1, &[])], &requests);
        assert_eq!((taken, whys), (Some(1), vec![Why::TooFew { free: 2 }]));
        let (taken, whys) = chosen(&[state(4, 2, &[]), state(4, 0, &[])], &requests);
        assert_eq!(taken, None);
        assert_eq!(whys, [Why::TooFew { free: 2 }], "nothing is left to look at");
    }

    #[test]
    fn a_request_for_more_than_there_is_delays_no_other_one() {
        let requests = [wants(9, "*", None), wants(2, "*", None)];
        let (taken, whys) = chosen(&[state(4, 2, &[]), state(4, 0, &[])], &requests);
        assert_eq!((taken, whys), (Some(1), vec![Why::TooFewFit { slots: 8, wanted: 9 }]));
        let requests = [request(9)];
        let (_, whys) = chosen(&[state(4, 2, &[]), state(4, 0, &[])], &requests);
        assert_eq!(whys, [Why::TooFewExist { slots: 8, wanted: 9 }]);
        assert_eq!(whys[0].to_string(), "the ring has 8 slots, 9 are wanted");
    }

    #[test]
    fn the_slots_of_the_ring_are_unknown_while_a_host_has_not_reported() {
        let host = name("h1");
        let (report, request) = (state(1, 1, &[]), request(2));
        let candidate = Candidate { key: 0, request: &request, may_start: true };
        let hosts = vec![(&host, false, &report)];
        let choice = choose(hosts, false, std::iter::once(candidate));
        assert!(choice.taken.is_none() && choice.whys == [(0, Why::Asking)]);
    }

    #[test]
    fn a_request_with_a_limit_is_overtaken_by_shorter_ones() {
        // The first request can start in 60 s.
        let host = [state(4, 1, &[(60_000, 3)])];
        let first = wants(4, "*", Some(100));
        let with = |limit| chosen(&host, &[first.clone(), wants(1, "*", limit)]).0;
        assert_eq!(with(Some(60)), Some(1));
        assert_eq!(with(Some(61)), None);
        assert_eq!(with(None), None);
    }

    #[test]
    fn a_request_with_a_limit_is_overtaken_on_slots_that_it_will_not_need() {
        let host = [state(6, 2, &[(60_000, 3)])];
        let first = wants(4, "*", Some(100));
        assert_eq!(chosen(&host, &[first.clone(), wants(1, "*", None)]).0, Some(1));
        assert_eq!(chosen(&host, &[first, wants(2, "*", None)]).0, None);
    }

    #[test]
    fn without_a_known_start_no_request_overtakes() {
        let requests = [wants(4, "*", Some(100)), wants(1, "*", Some(1))];
        assert_eq!(chosen(&[state(4, 1, &[])], &requests).0, None);
    }

    #[test]
    fn a_request_without_a_limit_is_not_overtaken_behind_one_with_a_limit() {
        let host = [state(4, 1, &[(60_000, 3)])];
        let requests = [wants(4, "*", Some(9)), wants(2, "*", None), wants(1, "*", Some(1))];
        assert_eq!(chosen(&host, &requests).0, None);
    }
}
