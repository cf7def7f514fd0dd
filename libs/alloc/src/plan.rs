//! The slots for a request: a pure function of the request and of the free slots of each host.
//!
//! The slots of one process are on one host, and count as one slot here. Slots with the same patterns are a class. The classes are matched with the hosts by augmenting paths, so a request
//! gets its slots whenever they exist, in any order of its patterns.

use std::collections::{BTreeMap, VecDeque};

use crate::data::{AllocRequest, Hardness, Part, Pattern};
use mpd_placement::soft::Soft;
use mpd_wire::DaemonName;

/// A host and the slots that a request may use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room<'a> {
    pub(crate) name: &'a DaemonName,
    pub(crate) arch: &'a str,
    pub(crate) slots: u32,
    /// Only requests that name the host may use it.
    pub(crate) draining: bool,
}

/// The slots that a request gets if `hosts` are free, in the order of its slots; `None` if it must wait.
pub(crate) fn place(request: &AllocRequest, hosts: &[Room<'_>]) -> Option<Vec<Part>> {
    let most = match &request.hardness {
        Hardness::Hard => request.count,
        Hardness::Soft => count(request, hosts),
        Hardness::Values(values) => {
            let values: Soft = values.parse().ok()?;
            values.largest_up_to(count(request, hosts))?
        }
    };
    if most == 0 { None } else { Matching::new(request, most, hosts).parts() }
}

/// The largest number of processes, beginning with the first of the request, for which `hosts` have slots.
pub(crate) fn count(request: &AllocRequest, hosts: &[Room<'_>]) -> u32 {
    let has = |most: u32| most == 0 || Matching::new(request, most, hosts).is_complete();
    let (mut low, mut high) = (0, request.count);
    while low < high {
        let middle = high - (high - low) / 2;
        if has(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Whether the request could use slots of this host.
pub(crate) fn can_use(request: &AllocRequest, host: &Room<'_>) -> bool {
    (0..period(request)).any(|slot| fits(request, slot, host))
}

/// After this number of slots the patterns repeat.
fn period(request: &AllocRequest) -> usize {
    request.hosts.len().max(request.arch.len()).max(1)
}

/// Whether the slot with this number may be on this host.
fn fits(request: &AllocRequest, slot: usize, host: &Room<'_>) -> bool {
    let of = |patterns: &[Pattern]| match patterns.len() {
        0 => None,
        many => Some(patterns[slot % many].clone()),
    };
    let name = host.name.as_str();
    match of(&request.hosts) {
        Some(pattern) if !pattern.fits(name) => return false,
        Some(pattern) if host.draining && !pattern.names(name) => return false,
        None if host.draining => return false,
        Some(_) | None => {}
    }
    of(&request.arch).is_none_or(|pattern| pattern.fits(host.arch))
}

/// Slots with the same patterns.
struct Class {
    /// Slots that still lack a host.
    wanting: u32,
    /// The hosts that fit, by number.
    fitting: Vec<usize>,
    /// The slots on each host.
    placed: BTreeMap<usize, u32>,
}

struct Matching<'a> {
    hosts: &'a [Room<'a>],
    /// Slots that are left on each host.
    left: Vec<u32>,
    classes: Vec<Class>,
    /// The class of each slot of one period.
    class_of: Vec<usize>,
    count: u32,
    /// The slots that each of them stands for.
    width: u32,
}

impl<'a> Matching<'a> {
    /// Finds hosts for the first `count` slots, as far as possible.
    fn new(request: &AllocRequest, count: u32, hosts: &'a [Room<'a>]) -> Self {
        let width = request.width.max(1);
        let mut all = Self {
            hosts,
            left: hosts.iter().map(|host| host.slots / width).collect(),
            classes: Vec::new(),
            class_of: Vec::new(),
            count,
            width,
        };
        all.classify(request);
        let mut order: Vec<usize> = (0..all.classes.len()).collect();
        order.sort_by_key(|&class| all.classes[class].fitting.len());
        for class in order {
            all.fill(class);
            while all.classes[class].wanting > 0 && all.augment(class) {}
        }
        all
    }

    fn classify(&mut self, request: &AllocRequest) {
        let period = period(request);
        let many = u32::try_from(period).unwrap_or(u32::MAX);
        let mut known = BTreeMap::new();
        for (slot, number) in (0..period).zip(0u32..) {
            let pick = |patterns: &[Pattern]| patterns.get(slot % patterns.len().max(1)).cloned();
            let key = (pick(&request.hosts), pick(&request.arch));
            let class = *known.entry(key).or_insert_with(|| {
                let fitting = self.hosts.iter().enumerate();
                let fitting = fitting.filter(|(_, host)| fits(request, slot, host));
                let fitting = fitting.map(|(number, _)| number).collect();
                self.classes.push(Class { wanting: 0, fitting, placed: BTreeMap::new() });
                self.classes.len() - 1
            });
            self.classes[class].wanting +=
                self.count / many + u32::from(number < self.count % many);
            self.class_of.push(class);
        }
    }

    /// Takes free slots in the order of the hosts.
    fn fill(&mut self, class: usize) {
        let Class { wanting, fitting, placed } = &mut self.classes[class];
        for &host in &*fitting {
            let taken = (*wanting).min(self.left[host]);
            if taken > 0 {
                *placed.entry(host).or_default() += taken;
                self.left[host] -= taken;
                *wanting -= taken;
            }
        }
    }

    /// Moves slots of other classes to other hosts, so that one more slot or several fit. `false`: there is no way.
    fn augment(&mut self, class: usize) -> bool {
        // For each reached host: the class that takes slots there, and the host from which it moves them.
        let mut reached: BTreeMap<usize, (usize, Option<usize>)> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for &host in &self.classes[class].fitting {
            reached.insert(host, (class, None));
            queue.push_back(host);
        }
        while let Some(host) = queue.pop_front() {
            if self.left[host] > 0 {
                self.shift(class, host, &reached);
                return true;
            }
            for (other, of) in self.classes.iter().enumerate() {
                if of.placed.get(&host).is_none_or(|&slots| slots == 0) {
                    continue;
                }
                for &next in &of.fitting {
                    reached.entry(next).or_insert_with(|| {
                        queue.push_back(next);
                        (other, Some(host))
                    });
                }
            }
        }
        false
    }

    /// Moves slots along the way that ends at `last`.
    fn shift(
        &mut self,
        class: usize,
        last: usize,
        reached: &BTreeMap<usize, (usize, Option<usize>)>,
    ) {
        let mut way = vec![(last, reached[&last])];
        while let Some((_, (_, Some(before)))) = way.last() {
            let before = *before;
            way.push((before, reached[&before]));
        }
        let movable = way.iter().filter_map(|(_, (mover, from))| {
            from.map(|from| self.classes[*mover].placed.get(&from).copied().unwrap_or(0))
        });
        let room = self.left[last].min(self.classes[class].wanting);
        let slots = movable.fold(room, u32::min);
        self.left[last] -= slots;
        self.classes[class].wanting -= slots;
        for (host, (mover, from)) in way {
            *self.classes[mover].placed.entry(host).or_default() += slots;
            if let Some(placed) = from.and_then(|from| self.classes[mover].placed.get_mut(&from)) {
                *placed -= slots;
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.classes.iter().all(|class| class.wanting == 0)
    }

    /// The slots in order, if there are enough.
    fn parts(mut self) -> Option<Vec<Part>> {
        if !self.is_complete() {
            return None;
        }
        let mut parts: Vec<Part> = Vec::new();
        for slot in 0..self.count as usize {
            let class = self.class_of[slot % self.class_of.len()];
            let placed = &mut self.classes[class].placed;
            placed.retain(|_, slots| *slots > 0);
            let mut first = placed.first_entry()?;
            *first.get_mut() -= 1;
            let host = self.hosts[*first.key()].name;
            match parts.last_mut() {
                Some(part) if part.host == *host => part.slots += self.width,
                _ => parts.push(Part { host: host.clone(), slots: self.width }),
            }
        }
        Some(parts)
    }
}

/// The slots of each host of an allocation.
pub(crate) fn by_host(parts: &[Part]) -> BTreeMap<DaemonName, u32> {
    let mut hosts = BTreeMap::new();
    for Part { host, slots } in parts {
        let sum: &mut u32 = hosts.entry(host.clone()).or_default();
        *sum = sum.saturating_add(*slots);
    }
    hosts
}

/// The slots of `parts` that are also in `kept`, in the order of `kept`.
pub(crate) fn common(parts: &[Part], kept: &[Part]) -> Vec<Part> {
    let mut left = by_host(parts);
    let mut common: Vec<Part> = Vec::new();
    for Part { host, slots } in kept {
        let Some(rest) = left.get_mut(host) else { continue };
        let slots = (*slots).min(*rest);
        *rest -= slots;
        match common.last_mut() {
            _ if slots == 0 => {}
            Some(part) if part.host == *host => part.slots += slots,
            _ => common.push(Part { host: host.clone(), slots }),
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::{name, request};

    fn with(count: u32, hardness: Hardness, hosts: &[&str]) -> AllocRequest {
        let hosts = hosts.iter().map(|text| text.parse().unwrap()).collect();
        AllocRequest { hardness, hosts, ..request(count) }
    }

    fn hard(count: u32, hosts: &[&str]) -> AllocRequest {
        with(count, Hardness::Hard, hosts)
    }

    /// The slots by the given numbers of free slots on h1, h2 ..., as text.
    fn placed(request: &AllocRequest, free: &[u32]) -> Option<String> {
        let names: Vec<DaemonName> = (1..=free.len()).map(|n| name(&format!("h{n}"))).collect();
        let room = |(name, &slots)| Room { name, arch: "x86_64", slots, draining: false };
        let rooms: Vec<Room<'_>> = names.iter().zip(free).map(room).collect();
        let parts = place(request, &rooms)?;
        let text = |part: &Part| format!("{}:{}", part.host, part.slots);
        Some(parts.iter().map(text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_slots_of_a_process_are_on_one_host() {
        let three = |width| AllocRequest { width, ..hard(3, &[]) };
        assert_eq!(placed(&three(2), &[3, 5]).as_deref(), Some("h1:2 h2:4"));
        assert_eq!(placed(&three(2), &[3, 3]), None, "two free slots are on different hosts");
        assert_eq!(placed(&three(4), &[4, 9]).as_deref(), Some("h1:4 h2:8"));
        let soft = AllocRequest { width: 3, ..with(9, Hardness::Soft, &["h2", "*"]) };
        let expected = Some("h2:3 h1:3");
        assert_eq!(placed(&soft, &[7, 4]).as_deref(), expected, "the third one must be on h2");
    }

    #[test]
    fn a_hard_request_gets_all_its_slots_in_the_order_of_the_hosts_or_none() {
        assert_eq!(placed(&hard(5, &[]), &[2, 0, 4]).unwrap(), "h1:2 h3:3");
        assert_eq!(placed(&hard(10, &[]), &[4, 4]), None);
    }

    #[test]
    fn a_soft_request_gets_what_is_free_or_the_largest_allowed_number() {
        assert_eq!(placed(&with(10, Hardness::Soft, &[]), &[4, 4]).unwrap(), "h1:4 h2:4");
        assert_eq!(placed(&with(10, Hardness::Soft, &[]), &[0, 0]), None);
        let values = |text: &str| with(10, Hardness::Values(text.into()), &[]);
        assert_eq!(placed(&values("2:8:2"), &[4, 3]).unwrap(), "h1:4 h2:2");
        assert_eq!(placed(&values("2:8:2"), &[4, 9]).unwrap(), "h1:4 h2:4");
        assert_eq!(placed(&values("3"), &[1, 1]), None);
    }

    #[test]
    fn each_slot_is_on_a_host_that_fits_its_own_pattern() {
        let each = ["h1", "*", "h3", "*"];
        assert_eq!(placed(&hard(4, &each), &[1, 2, 1]).unwrap(), "h1:1 h2:1 h3:1 h2:1");
        assert_eq!(placed(&hard(4, &each), &[0, 3, 1]), None);
        assert_eq!(placed(&hard(3, &["^h1"]), &[3, 2, 2]).unwrap(), "h2:2 h3:1");
        assert_eq!(placed(&hard(4, &["h1", "h2"]), &[2, 2]).unwrap(), "h1:1 h2:1 h1:1 h2:1");
    }

    #[test]
    fn a_slot_makes_room_for_one_with_fewer_hosts() {
        // Both patterns have two hosts. The first one is filled with h1, which the second one needs.
        assert_eq!(
            placed(&hard(4, &["h1+h2", "h1+h3"]), &[2, 2, 0]).unwrap(),
            "h2:1 h1:1 h2:1 h1:1"
        );
    }

    #[test]
    fn a_draining_host_is_used_only_by_name() {
        let h1 = name("h1");
        let room = [Room { name: &h1, arch: "x86_64", slots: 4, draining: true }];
        assert_eq!(place(&hard(1, &[]), &room), None);
        assert_eq!(place(&hard(1, &["h*"]), &room), None);
        assert!(place(&hard(1, &["h1"]), &room).is_some());
        assert!(!can_use(&hard(1, &["*"]), &room[0]) && can_use(&hard(1, &["*", "h1"]), &room[0]));
    }

    #[test]
    fn an_architecture_is_chosen_by_pattern() {
        let (h1, h2) = (name("h1"), name("h2"));
        let room = |name, arch| Room { name, arch, slots: 2, draining: false };
        let rooms = [room(&h1, "x86_64"), room(&h2, "aarch64")];
        let request = |arch: &str| AllocRequest { arch: vec![arch.parse().unwrap()], ..request(2) };
        assert_eq!(place(&request("aarch64"), &rooms).unwrap()[0].host, h2);
        assert_eq!(place(&request("^aarch64"), &rooms).unwrap()[0].host, h1);
        assert_eq!(place(&request("riscv64"), &rooms), None);
    }

    /// Tries every host for every slot.
    fn exists(slots: &[&Pattern], names: &[DaemonName], free: &mut [u32]) -> bool {
        let Some((first, rest)) = slots.split_first() else { return true };
        (0..names.len()).any(|host| {
            if free[host] == 0 || !first.fits(names[host].as_str()) {
                return false;
            }
            free[host] -= 1;
            let found = exists(rest, names, free);
            free[host] += 1;
            found
        })
    }

    proptest! {
        #[test]
        fn slots_are_found_whenever_they_exist_and_never_exceed_the_hosts(
            free in prop::collection::vec(0u32..3, 1..4),
            patterns in prop::collection::vec(0usize..7, 0..4),
            wanted in 1u32..6,
        ) {
            const TEXTS: [&str; 7] = ["*", "h1", "h2", "h3", "^h1", "h1+h2", "^h1+h2"];
            let request = hard(wanted, &patterns.iter().map(|&n| TEXTS[n]).collect::<Vec<_>>());
            let names: Vec<DaemonName> = (1..=free.len()).map(|n| name(&format!("h{n}"))).collect();
            let room = |(name, &slots)| Room { name, arch: "", slots, draining: false };
            let rooms: Vec<Room<'_>> = names.iter().zip(&free).map(room).collect();
            let any = Pattern::any();
            let pattern = |slot: u32| match request.hosts.len() {
                0 => &any,
                many => &request.hosts[slot as usize % many],
            };
            let slots: Vec<&Pattern> = (0..wanted).map(pattern).collect();
            let found = place(&request, &rooms);
            prop_assert_eq!(found.is_some(), exists(&slots, &names, &mut free.clone()));
            let each: Vec<DaemonName> = found.iter().flatten().flat_map(|part| {
                std::iter::repeat_n(part.host.clone(), part.slots as usize)
            }).collect();
            for (pattern, host) in slots.iter().zip(&each) {
                prop_assert!(pattern.fits(host.as_str()));
            }
            for (host, slots) in by_host(&found.unwrap_or_default()) {
                let at = names.iter().position(|name| *name == host).unwrap();
                prop_assert!(slots <= free[at]);
            }
        }
    }
}
