//! The machines of several daemons with messages that arrive at once. `tests/sim` has the faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::data::{AllocEnd, Epoch, Hardness, Stamp, Why};

use super::*;

pub(crate) fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

/// A hard request for this number of slots anywhere.
pub(crate) fn request(count: u32) -> AllocRequest {
    AllocRequest {
        count,
        hardness: Hardness::Hard,
        hosts: Vec::new(),
        arch: Vec::new(),
        width: 1,
        limit_s: None,
        uid: 1000,
        since_us: 0,
    }
}

fn soft(count: u32, values: Option<&str>) -> AllocRequest {
    let hardness = values.map_or(Hardness::Soft, |values| Hardness::Values(values.to_owned()));
    AllocRequest { hardness, ..request(count) }
}

fn on(hosts: &[&str]) -> AllocRequest {
    let hosts: Vec<_> = hosts.iter().map(|host| host.parse().unwrap()).collect();
    AllocRequest { hosts, ..request(4) }
}

/// Daemons h1, h2 ... with their slots.
struct Ring {
    now: Time,
    slots: Vec<u32>,
    daemons: BTreeMap<usize, Allocator>,
    saved: BTreeMap<usize, Saved>,
    lives: u8,
    /// The news for each owner.
    told: BTreeMap<u64, Vec<AllocNews>>,
    refused: Vec<String>,
    /// Members whose messages are lost.
    cut: BTreeSet<usize>,
}

impl Ring {
    fn new(slots: &[u32]) -> Self {
        let mut ring = Self {
            now: Time::ZERO,
            slots: slots.to_vec(),
            daemons: BTreeMap::new(),
            saved: BTreeMap::new(),
            lives: 0,
            told: BTreeMap::new(),
            refused: Vec::new(),
            cut: BTreeSet::new(),
        };
        (1..=slots.len()).for_each(|number| ring.start(number));
        ring.pass(2000);
        ring
    }

    fn start(&mut self, number: usize) {
        self.start_unready(number);
        self.give(number, Input::Ready);
    }

    fn start_unready(&mut self, number: usize) {
        self.lives += 1;
        let saved = self.saved.get(&number).cloned().unwrap_or_default();
        let life = u64::from(self.lives) * 1_000_000_000 + number as u64;
        let config = Config {
            name: name(&format!("h{number}")),
            arch: "x86_64".into(),
            life,
            timing: Timing::default(),
            saved,
        };
        self.daemons.insert(number, Allocator::new(self.now, config));
        self.review_members();
    }

    fn kill(&mut self, number: usize) {
        self.daemons.remove(&number);
        self.review_members();
    }

    fn review_members(&mut self) {
        let member = |&number: &usize| Member {
            name: name(&format!("h{number}")),
            instance: Instance::from_bytes([number as u8; 16]),
            ordinal: number as u64,
            slots: self.slots[number - 1],
            draining: false,
        };
        let live: Vec<usize> = self.daemons.keys().copied().collect();
        let members: Vec<Member> = live.iter().map(member).collect();
        live.iter().for_each(|&number| self.give(number, Input::Members(members.clone())));
    }

    fn give(&mut self, number: usize, input: Input) {
        self.drive(number, Some(input));
    }

    /// Gives an input, or the time, to a daemon and performs all that follows from it.
    fn drive(&mut self, number: usize, input: Option<Input>) {
        let now = self.now;
        let mut queue = VecDeque::from([(number, input)]);
        while let Some((number, input)) = queue.pop_front() {
            let Some(daemon) = self.daemons.get_mut(&number) else { continue };
            match input {
                Some(input) => daemon.handle(now, input),
                None => daemon.handle_timeout(now),
            }
            while let Some(output) = daemon.poll_output() {
                match output {
                    Output::Save(saved) => {
                        self.saved.insert(number, *saved);
                    }
                    Output::Send(to, message) => {
                        let to: usize = to.as_str()[1..].parse().unwrap();
                        if !self.cut.contains(&number) && !self.cut.contains(&to) {
                            let from = name(&format!("h{number}"));
                            queue.push_back((to, Some(Input::Received(from, message))));
                        }
                    }
                    Output::Tell(owner, news) => self.told.entry(owner.0).or_default().push(news),
                    Output::Refused(_, problem) => self.refused.push(problem),
                }
            }
        }
    }

    fn tick(&mut self) {
        self.now = self.now + Timing::default().tick;
        for number in self.daemons.keys().copied().collect::<Vec<_>>() {
            self.drive(number, None);
        }
    }

    fn pass(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while self.now < until {
            self.tick();
        }
    }

    fn ask(&mut self, number: usize, owner: u64, request: AllocRequest) {
        self.give(number, Input::Request(OwnerId(owner), request));
    }

    fn gone(&mut self, number: usize, owner: u64) {
        self.give(number, Input::OwnerGone(OwnerId(owner)));
    }

    fn id(&self, owner: u64) -> AllocId {
        match &self.told[&owner][0] {
            AllocNews::Waiting { id, .. } | AllocNews::Granted { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// The slots of the owner's allocation, as text; empty without an allocation.
    fn has(&self, owner: u64) -> String {
        let granted = self.told.get(&owner).into_iter().flatten().find_map(|news| match news {
            AllocNews::Granted { parts, .. } => Some(parts.clone()),
            _ => None,
        });
        let text = |part: &Part| format!("{}:{}", part.host, part.slots);
        granted.iter().flatten().map(text).collect::<Vec<_>>().join(" ")
    }

    fn ends(&self, owner: u64) -> Vec<AllocEnd> {
        let end = |news: &AllocNews| match news {
            AllocNews::Over { end, .. } => Some(*end),
            _ => None,
        };
        self.told[&owner].iter().filter_map(end).collect()
    }

    fn used(&self) -> Vec<u32> {
        self.daemons.values().map(|daemon| daemon.slots().1).collect()
    }

    fn why(&self, number: usize, owner: u64) -> Option<Why> {
        let id = self.id(owner);
        self.daemons[&number].entries().find(|entry| entry.id == id)?.why
    }
}

#[test]
fn a_hard_request_waits_until_enough_slots_are_free() {
    let mut ring = Ring::new(&[6, 6]);
    ring.ask(2, 1, request(4));
    ring.ask(1, 2, request(10));
    ring.pass(3000);
    assert_eq!((ring.has(1), ring.has(2)), ("h1:4".into(), String::new()));
    assert_eq!(ring.why(1, 2), Some(Why::TooFew { free: 8 }));
    ring.ask(1, 3, soft(1, None));
    ring.pass(3000);
    assert_eq!(ring.has(3), "", "it does not overtake");
    ring.gone(2, 1);
    assert_eq!(ring.has(2), "h1:6 h2:4");
    assert_eq!(ring.has(3), "h2:1");
    assert_eq!(ring.used(), [6, 5]);
}

#[test]
fn a_soft_request_gets_what_is_free_at_once() {
    let mut ring = Ring::new(&[4, 4]);
    ring.ask(1, 1, soft(10, None));
    assert_eq!(ring.has(1), "h1:4 h2:4");
    ring.gone(1, 1);
    ring.ask(2, 2, soft(10, Some("2:7:2")));
    assert_eq!(ring.has(2), "h1:4 h2:2");
}

#[test]
fn each_of_twenty_requests_is_granted_once_and_ends_once() {
    let mut ring = Ring::new(&[2, 2, 2]);
    (0..20).for_each(|owner| ring.ask(1 + owner as usize % 3, owner, request(2)));
    for _ in 0..30 {
        ring.pass(500);
        let running =
            (0..20).find(|&owner| !ring.has(owner).is_empty() && ring.ends(owner).is_empty());
        if let Some(owner) = running {
            ring.give(1 + owner as usize % 3, Input::Cancel(ring.id(owner), 1000));
        }
    }
    for owner in 0..20 {
        let grants = ring.told[&owner].iter();
        let grants = grants.filter(|news| matches!(news, AllocNews::Granted { .. })).count();
        assert_eq!((grants, ring.ends(owner)), (1, vec![AllocEnd::Cancelled]), "{owner}");
    }
    assert_eq!(ring.used(), [0, 0, 0]);
}

#[test]
fn requests_from_several_hosts_get_their_slots_in_their_order() {
    let mut ring = Ring::new(&[1, 1]);
    ring.ask(1, 0, request(2));
    for owner in 1..=6 {
        ring.ask(1 + owner as usize % 2, owner, request(2));
    }
    for owner in 0..=6u64 {
        assert_ne!(ring.has(owner), "", "{owner}");
        assert!((owner + 1..=6).all(|later| ring.has(later).is_empty()), "{owner}");
        ring.gone(1 + owner as usize % 2 * usize::from(owner > 0), owner);
    }
}

#[test]
fn slots_are_on_the_hosts_that_their_patterns_name() {
    let mut ring = Ring::new(&[2, 2, 2]);
    ring.ask(1, 1, on(&["h1", "*", "h3", "*"]));
    assert_eq!(ring.has(1), "h1:2 h3:1 h2:1");
    let mut ring = Ring::new(&[4, 4]);
    ring.ask(1, 1, on(&["^h1"]));
    assert_eq!(ring.has(1), "h2:4");
}

#[test]
fn a_cancelled_request_frees_its_slots_and_only_its_user_may_cancel_it() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, request(4));
    let id = ring.id(1);
    ring.give(2, Input::Cancel(id.clone(), 1001));
    assert_eq!(ring.used(), [2, 2]);
    assert_eq!(ring.daemons[&2].granted(&id, 1000).unwrap().len(), 2);
    assert_eq!(ring.daemons[&2].granted(&id, 1001), None);
    ring.give(2, Input::Cancel(id, 1000));
    assert_eq!((ring.used(), ring.ends(1)), (vec![0, 0], vec![AllocEnd::Cancelled]));
}

#[test]
fn an_allocation_frees_some_of_its_slots_at_once_and_keeps_the_others() {
    let parts = |text: &[(&str, u32)]| -> Vec<Part> {
        text.iter().map(|(host, slots)| Part { host: name(host), slots: *slots }).collect()
    };
    let mut ring = Ring::new(&[2, 2, 2]);
    ring.ask(2, 1, request(6));
    ring.ask(1, 2, request(3));
    let id = ring.id(1);
    let keep = |kept: &[(&str, u32)]| Input::Keep(id.clone(), 1000, parts(kept));
    ring.give(2, Input::Keep(id.clone(), 1001, Vec::new()));
    assert_eq!(ring.used(), [2, 2, 2], "of another user");
    // More slots than it has are no error, and give it none.
    ring.give(2, keep(&[("h1", 2), ("h2", 9), ("h9", 1), ("h3", 1)]));
    assert_eq!((ring.used(), ring.has(2)), (vec![2, 2, 1], String::new()));
    ring.give(2, keep(&[("h2", 1), ("h3", 1)]));
    assert_eq!(ring.used(), [2, 1, 2]);
    assert_eq!(ring.has(2), "h1:2 h3:1", "the freed slots are granted");
    assert_eq!(ring.daemons[&2].granted(&id, 1000).unwrap(), parts(&[("h2", 1), ("h3", 1)]));
    ring.pass(60_000);
    assert_eq!(ring.used(), [2, 1, 2], "renewals hold what is left, and nothing else");
    ring.give(2, keep(&[]));
    assert_eq!((ring.used(), ring.ends(1)), (vec![2, 0, 1], vec![AllocEnd::Cancelled]));
}

#[test]
fn a_lost_order_to_hold_fewer_slots_is_repeated() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, request(4));
    ring.cut.insert(1);
    let kept = vec![Part { host: name("h1"), slots: 1 }];
    ring.give(2, Input::Keep(ring.id(1), 1000, kept));
    assert_eq!(ring.used(), [2, 0]);
    ring.cut.clear();
    ring.pass(3000);
    assert_eq!((ring.used(), ring.ends(1)), (vec![1, 0], vec![]));
    let saved = &ring.saved[&2].own[0].parts;
    assert_eq!(saved, &[Part { host: name("h1"), slots: 1 }], "the next daemon knows");
}

#[test]
fn an_allocation_with_a_time_limit_ends_by_itself() {
    let mut ring = Ring::new(&[2]);
    ring.ask(1, 1, AllocRequest { limit_s: Some(20), ..request(2) });
    ring.pass(19_000);
    assert_eq!(ring.used(), [2]);
    ring.pass(2000);
    assert_eq!((ring.used(), ring.ends(1)), (vec![0], vec![AllocEnd::Expired]));
}

#[test]
fn the_next_dispenser_keeps_the_order_of_the_queue() {
    let mut ring = Ring::new(&[2, 2, 2]);
    ring.ask(3, 1, request(4));
    ring.ask(3, 2, request(4));
    ring.ask(2, 3, request(4));
    ring.kill(1);
    ring.pass(3000);
    assert!(ring.daemons[&2].is_dispenser() && !ring.daemons[&3].is_dispenser());
    assert_eq!(ring.has(1), "h1:2 h2:2");
    ring.pass(10_000);
    assert_eq!(ring.told[&1].last(), Some(&AllocNews::Lost { id: ring.id(1), host: name("h1") }));
    ring.gone(3, 1);
    ring.pass(1000);
    assert_eq!((ring.has(2), ring.has(3)), ("h2:2 h3:2".into(), String::new()));
    ring.gone(3, 2);
    assert_eq!(ring.has(3), "h2:2 h3:2");
}

#[test]
fn the_death_of_the_owners_host_frees_its_slots_in_28_seconds() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, request(4));
    assert_eq!(ring.used(), [2, 2]);
    ring.pass(60_000);
    ring.kill(2);
    ring.pass(25_000);
    assert_eq!(ring.used(), [2]);
    ring.pass(4000);
    assert_eq!(ring.used(), [0]);
}

#[test]
fn an_allocation_survives_the_daemons_of_its_owner_and_of_its_hosts() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, request(4));
    let id = ring.id(1);
    ring.kill(1);
    ring.pass(3000);
    ring.start(1);
    ring.pass(10_000);
    ring.kill(2);
    ring.pass(5000);
    ring.start(2);
    ring.pass(3000);
    let resume = Resume { id, request: request(4), ticket: None, is_granted: true };
    ring.give(2, Input::Resume(OwnerId(7), resume));
    ring.pass(60_000);
    assert_eq!((ring.has(7), ring.used()), ("h1:2 h2:2".into(), vec![2, 2]));
    assert_eq!((ring.told[&1].len(), ring.told[&7].len()), (3, 1), "no loss");
}

#[test]
fn an_owner_that_does_not_return_to_a_new_daemon_loses_its_slots() {
    let mut ring = Ring::new(&[2]);
    ring.ask(1, 1, request(2));
    ring.kill(1);
    ring.pass(2000);
    ring.start(1);
    ring.pass(14_000);
    assert_eq!(ring.used(), [2]);
    ring.pass(2000);
    assert_eq!(ring.used(), [0]);
}

#[test]
fn an_absent_owner_keeps_its_slots_though_its_allocation_is_cancelled_or_over() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, AllocRequest { limit_s: Some(5), ..request(2) });
    ring.ask(2, 2, request(2));
    let (first, second) = (ring.id(1), ring.id(2));
    ring.kill(2);
    ring.pass(7000);
    ring.start(2);
    ring.give(2, Input::Cancel(second.clone(), 1000));
    ring.pass(5000);
    assert_eq!(ring.used(), [2, 2]);
    for (owner, id) in [(3, first), (4, second)] {
        let resume = Resume { id, request: request(2), ticket: None, is_granted: true };
        ring.give(2, Input::Resume(OwnerId(owner), resume));
    }
    ring.pass(1000);
    assert_eq!(ring.used(), [0, 0]);
    assert_eq!((ring.ends(3), ring.ends(4)), (vec![AllocEnd::Expired], vec![AllocEnd::Cancelled]));
}

#[test]
fn a_request_that_waits_returns_to_a_new_daemon_with_its_place() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(1, 1, request(4));
    ring.ask(2, 2, request(4));
    ring.ask(1, 3, request(4));
    let AllocNews::Waiting { id, ticket, .. } = ring.told[&2].last().unwrap().clone() else {
        panic!("it waits");
    };
    ring.kill(2);
    ring.start(2);
    let resume = Resume { id, request: request(4), ticket, is_granted: false };
    ring.give(2, Input::Resume(OwnerId(4), resume));
    ring.pass(3000);
    ring.gone(1, 1);
    ring.pass(3000);
    assert_eq!((ring.has(4), ring.has(3)), ("h1:2 h2:2".into(), String::new()));
}

#[test]
fn a_restarted_daemon_gives_no_slot_away_until_it_is_ready() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(1, 1, request(4));
    ring.kill(2);
    ring.start_unready(2);
    ring.gone(1, 1);
    ring.ask(1, 2, request(4));
    ring.pass(5000);
    assert_eq!(ring.has(2), "");
    ring.give(2, Input::Ready);
    ring.pass(5000);
    assert_eq!(ring.has(2), "h1:2 h2:2");
}

#[test]
fn an_owner_that_is_cut_off_loses_its_slots_before_others_get_them() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(2, 1, request(4));
    ring.ask(1, 2, on(&["h1"]));
    ring.ask(1, 3, AllocRequest { count: 2, ..on(&["h1"]) });
    ring.pass(2000);
    ring.cut.insert(2);
    ring.pass(9000);
    assert!(ring.told[&1].contains(&AllocNews::Lost { id: ring.id(1), host: name("h1") }));
    assert_eq!((ring.has(3), ring.used()), (String::new(), vec![2, 2]));
    ring.pass(21_000);
    assert_eq!(ring.has(3), "h1:2");
}

fn epoch(number: u64, ordinal: u64) -> Epoch {
    Epoch { number, ordinal, instance: Instance::from_bytes([ordinal as u8; 16]) }
}

/// A host with four slots, and its answers.
struct Lone(Allocator);

impl Lone {
    fn new() -> Self {
        let mut ring = Ring::new(&[4, 4]);
        Self(ring.daemons.remove(&2).unwrap())
    }

    fn answers(&mut self, millis: u64, message: AllocMessage) -> Vec<AllocMessage> {
        let now = Time::from_micros(10_000_000 + millis * 1000);
        self.0.handle(now, Input::Received(name("h9"), message));
        let sent = std::iter::from_fn(|| self.0.poll_output()).filter_map(|output| match output {
            Output::Send(_, message) => Some(message),
            _ => None,
        });
        sent.collect()
    }

    fn reserve(&mut self, millis: u64, epoch: Epoch, number: u64, slots: u32) -> bool {
        let id = AllocId::new(number, name("h9"));
        let answers = self.answers(millis, AllocMessage::Reserve { epoch, id, slots });
        matches!(answers[..], [AllocMessage::Reserved { done: true, .. }, ..])
    }
}

#[test]
fn a_host_refuses_older_terms_and_the_lower_ordinal_wins_among_equals() {
    let mut host = Lone::new();
    assert!(host.reserve(0, epoch(5, 3), 1, 4));
    assert_eq!(host.0.slots().1, 4);
    for older in [epoch(4, 1), epoch(5, 7)] {
        let answers = host.answers(0, AllocMessage::Hello { epoch: older });
        assert_eq!(answers, [AllocMessage::Stale { epoch: epoch(5, 3) }]);
    }
    assert!(host.reserve(0, epoch(5, 2), 2, 3), "the reservation of the loser has ended");
    assert_eq!(host.0.slots().1, 3);
    assert!(host.reserve(0, epoch(6, 9), 3, 4));
}

#[test]
fn a_reservation_ends_after_two_seconds() {
    let mut host = Lone::new();
    assert!(host.reserve(0, epoch(9, 1), 1, 4));
    assert!(!host.reserve(0, epoch(9, 1), 2, 1));
    for millis in [1900, 2300] {
        host.0.handle_timeout(Time::from_micros(10_000_000 + millis * 1000));
        while host.0.poll_output().is_some() {}
        assert_eq!(host.0.slots().1 == 0, millis > 2000);
    }
    assert!(host.reserve(2400, epoch(9, 1), 2, 1));
}

#[test]
fn late_orders_of_a_requester_change_nothing() {
    let mut host = Lone::new();
    let id = AllocId::new(1, name("h9"));
    let stamp = |at| Stamp { life: 1, at };
    let confirm = |slots, at| AllocMessage::Confirm {
        id: id.clone(),
        slots,
        stamp: stamp(at),
        left_ms: None,
    };
    let release = |at| AllocMessage::Release { id: id.clone(), stamp: stamp(at) };
    host.answers(0, confirm(3, 10));
    host.answers(0, release(9));
    host.answers(0, confirm(1, 8));
    assert_eq!(host.0.slots().1, 3);
    host.answers(0, release(11));
    let answers = host.answers(0, confirm(3, 10));
    assert_eq!(answers, [AllocMessage::NotHeld { id: id.clone(), stamp: stamp(10) }]);
    assert_eq!(host.0.slots().1, 0);
    let answers = host.answers(0, confirm(5, 12));
    assert_eq!(answers, [AllocMessage::NotHeld { id: id.clone(), stamp: stamp(12) }]);
    let answers = host.answers(0, confirm(4, 13));
    assert_eq!(answers[0], AllocMessage::Held { id: id.clone(), stamp: stamp(13) });
}

#[test]
fn a_request_that_cannot_be_is_refused_with_the_reason() {
    let mut ring = Ring::new(&[2]);
    ring.ask(1, 1, request(0));
    ring.ask(1, 2, AllocRequest { arch: vec!["a".parse().unwrap(); 3], ..on(&["a", "b"]) });
    assert_eq!(ring.refused.len(), 2);
    assert!(ring.refused[0].contains("1 to"), "{:?}", ring.refused);
}

#[test]
fn an_idle_daemon_has_no_deadline() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(1, 1, request(4));
    ring.gone(1, 1);
    ring.pass(40_000);
    assert!(ring.daemons.values().all(|daemon| daemon.poll_timeout().is_none()));
}

#[test]
fn a_record_reads_back_what_was_written() {
    let mut ring = Ring::new(&[2, 2]);
    ring.ask(1, 1, AllocRequest { limit_s: Some(90), ..request(4) });
    let saved = &ring.saved[&1];
    assert_eq!((saved.holds.len(), saved.own.len()), (1, 1));
    let text = serde_json::to_string(saved).unwrap();
    assert_eq!(&serde_json::from_str::<Saved>(&text).unwrap(), saved);
}

#[test]
fn the_seeds_of_the_fuzz_target_are_a_record_and_messages() {
    for seed in [
        include_str!("../../../fuzz/corpus-seeds/slots/queue"),
        include_str!("../../../fuzz/corpus-seeds/slots/host"),
        include_str!("../../../fuzz/corpus-seeds/slots/owner"),
    ] {
        let mut lines = seed.lines();
        let record = lines.next().unwrap();
        assert!(record == "{}" || serde_json::from_str::<Saved>(record).is_ok(), "{record}");
        for line in lines.filter(|line| !line.is_empty()) {
            serde_json::from_str::<AllocMessage>(line).expect(line);
        }
    }
}
