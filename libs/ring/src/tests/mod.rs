//! Single steps of the machine and the order of records. Tests of whole rings are in tests/sim.

mod frames;
mod introduce;
mod names;
mod proof;
mod recorded;

use std::sync::Arc;

use mpd_wire::{MAX_ADDRESSES, Record, Standing};
use proptest::prelude::*;

use super::*;
use crate::list::List;

fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

fn config(own: &str) -> RingConfig {
    RingConfig {
        name: name(own),
        instance: Instance::from_bytes([1; 16]),
        addresses: vec![Address::new("10.0.0.1:1").unwrap()],
        ncpus: 1,
        ordinal: Some(1),
        entry: Vec::new(),
        seeds: Vec::new(),
        waits: false,
        timing: Timing::default(),
        chance: 1,
        rules: Rules { prove: false, ..Rules::default() },
    }
}

/// A ring whose outputs are recorded after each call.
struct Noted {
    ring: Ring,
    outputs: VecDeque<Output>,
}

impl Noted {
    fn new(now: Time, config: RingConfig) -> Self {
        let mut noted = Self { ring: Ring::new(now, config), outputs: VecDeque::new() };
        noted.note();
        noted
    }

    fn handle(&mut self, now: Time, input: Input) {
        self.ring.handle(now, input);
        self.note();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ring.handle_timeout(now);
        self.note();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn note(&mut self) {
        self.outputs.extend(std::iter::from_fn(|| self.ring.poll_output()));
    }
}

impl std::ops::Deref for Noted {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

fn drain(ring: &mut Noted) -> Vec<Output> {
    std::iter::from_fn(|| ring.poll_output()).collect()
}

fn record(of: &str, incarnation: u64, standing: Standing, instance: u8, position: u64) -> Record {
    Record {
        name: name(of),
        incarnation,
        standing,
        instance: Instance::from_bytes([instance; 16]),
        position,
        ordinal: position,
        ncpus: 1,
        draining: false,
        addresses: vec![Address::new("10.0.0.2:1").unwrap()],
        by: None,
        age_s: 0,
    }
}

fn second(n: u64) -> Time {
    Time::from_micros(n * 1_000_000)
}

fn link_up(ring: &mut Noted, id: u64, token: Option<Token>, peer: &str, purpose: Purpose) {
    let peer = Peer { name: name(peer), instance: Instance::from_bytes([2; 16]) };
    let (link, from) = (LinkId(id), Address::new("10.0.0.2:4711").unwrap());
    ring.handle(second(1), Input::LinkUp { link, token, peer, purpose, from });
}

#[test]
fn a_ring_of_one_laps_scatters_and_leaves_by_itself() {
    let mut ring = Noted::new(second(1), config("a"));
    assert!(drain(&mut ring).contains(&Output::Event(Event::Entered { members: 1 })));
    ring.handle(second(1), Input::Lap { request: RequestId(1), laps: 3, trace: false });
    assert!(matches!(drain(&mut ring)[..], [Output::LapsHome { request: RequestId(1), .. }]));
    ring.handle(second(1), Input::Scatter(RequestId(2), b"x"[..].into()));
    let [Output::Deliver { id, .. }] = drain(&mut ring)[..] else { panic!("nothing delivered") };
    ring.handle(second(1), Input::Answered(id, b"y"[..].into()));
    assert!(
        matches!(&drain(&mut ring)[..], [Output::Scattered { missing, .. }] if missing.is_empty())
    );
    ring.handle(second(1), Input::Leave);
    assert_eq!(drain(&mut ring), [Output::Event(Event::Left), Output::Over]);
    assert_eq!(ring.poll_timeout(), None);
    ring.handle(second(2), Input::Scatter(RequestId(3), b"x"[..].into()));
    assert_eq!(drain(&mut ring), [Output::Refused(RequestId(3))]);
}

#[test]
fn a_payload_for_one_member_is_delivered_to_it_alone_and_for_a_stranger_to_none() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    ring.handle(second(1), Input::Send(RequestId(1), name("a"), b"x"[..].into()));
    let [Output::Deliver { id, .. }] = drain(&mut ring)[..] else { panic!("nothing delivered") };
    ring.handle(second(1), Input::Answered(id, b"y"[..].into()));
    let outputs = drain(&mut ring);
    assert!(
        matches!(&outputs[..], [Output::Scattered { answers, .. }] if answers.len() == 1),
        "{outputs:?}"
    );
    ring.handle(second(1), Input::Send(RequestId(2), name("b"), b"x"[..].into()));
    let outputs = drain(&mut ring);
    let [Output::Scattered { request, answers, missing, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!((*request, answers.len(), missing.len()), (RequestId(2), 0, 0));
}

/// A ring "a" that has just received the record of "b" and dials it as its rhs.
fn dialing_b() -> (Noted, Token) {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    link_up(&mut ring, 1, None, "b", Purpose::Probe);
    let reported = vec![record("b", 1, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(reported)));
    let token = dialed(&mut ring).unwrap();
    (ring, token)
}

fn dialed(ring: &mut Noted) -> Option<Token> {
    drain(ring).iter().find_map(|output| match output {
        Output::Connect(Connect { token, purpose: Purpose::Ring, .. }) => Some(*token),
        _ => None,
    })
}

#[test]
fn a_daemon_that_cannot_try_to_connect_accuses_no_member_and_tries_again_at_the_next_pulse() {
    let (mut ring, token) = dialing_b();
    ring.handle(second(1), Input::ConnectFailed(token, DialFailure::NoMeans));
    assert_eq!(ring.members(), [name("a"), name("b")]);
    assert_eq!(dialed(&mut ring), None);
    ring.handle_timeout(second(2));
    assert!(dialed(&mut ring).is_some());
    assert_eq!(ring.members(), [name("a"), name("b")]);
}

#[test]
fn a_rhs_that_refuses_is_dead_at_once_and_refutes_it_by_a_higher_incarnation() {
    let (mut ring, token) = dialing_b();
    ring.handle(second(1), Input::ConnectFailed(token, DialFailure::Refused));
    assert_eq!(ring.members(), [name("a")]);
    drain(&mut ring);
    let reported = vec![record("b", 2, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::update(reported)));
    assert_eq!(ring.members(), [name("a"), name("b")]);
}

#[test]
fn a_daemon_that_is_accused_twice_moves_and_keeps_its_ordinal() {
    let mut ring = Noted::new(second(1), config("a"));
    link_up(&mut ring, 1, None, "b", Purpose::Probe);
    let others = ["b", "c", "d"].map(|of| record(of, 1, Standing::Live, 2, GAP * 9)).to_vec();
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(others)));
    let place = |ring: &Noted| {
        let own = ring.record(&name("a")).unwrap();
        (own.incarnation, own.position, own.ordinal)
    };
    assert_eq!(place(&ring), (1, GAP, 1));
    for (incarnation, position) in [(1, GAP), (2, GAP)] {
        let mut accusation = ring.record(&name("a")).unwrap().clone();
        assert_eq!((accusation.incarnation, accusation.position), (incarnation, position));
        accusation.standing = Standing::Dead;
        accusation.by = Some(name("c"));
        let records = vec![accusation];
        drain(&mut ring);
        ring.handle(second(2), Input::Received(LinkId(1), RingMessage::update(records)));
    }
    let (incarnation, position, ordinal) = place(&ring);
    assert_eq!((incarnation, ordinal), (3, 1));
    assert_ne!(position, GAP);
}

#[test]
fn a_newcomer_whose_name_answers_elsewhere_steps_down() {
    let entry = vec![Address::new("10.0.0.9:1").unwrap()];
    let mut ring = Noted::new(second(1), RingConfig { ordinal: None, entry, ..config("a") });
    let connect = drain(&mut ring);
    let [Output::Connect(Connect { token, purpose: Purpose::Join, .. })] = connect[..] else {
        panic!("{connect:?}")
    };
    link_up(&mut ring, 1, Some(token), "b", Purpose::Join);
    let records = vec![record("a", 4, Standing::Live, 2, 5), record("b", 1, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(records)));
    let outputs = drain(&mut ring);
    let token = outputs.iter().find_map(|output| match output {
        Output::Connect(Connect { token, .. }) => Some(*token),
        _ => None,
    });
    link_up(&mut ring, 2, token, "a", Purpose::Join);
    assert!(drain(&mut ring).contains(&Output::Event(Event::SteppedDown)));
    assert!(ring.is_over());
}

#[test]
fn a_daemon_that_steps_down_for_a_double_at_the_address_of_its_rhs_accuses_no_member() {
    let mut ring = Noted::new(second(1), config("a"));
    send(&mut ring, second(1), 1, record("b", 1, Standing::Live, 2, GAP * 9));
    // A daemon of our name answers at the address of b, and shows that it is in the ring.
    link_up(&mut ring, 2, Some(Token(1)), "a", Purpose::Ring);
    let records = vec![record("a", 1, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(2), RingMessage::list(records)));
    let outputs = drain(&mut ring);
    assert!(outputs.ends_with(&[Output::Over]), "{outputs:?}");
    assert_eq!(ring.record(&name("b")).unwrap().standing, Standing::Live);
}

#[test]
fn a_daemon_that_stalled_declares_no_neighbour_dead_before_it_has_read_again() {
    let mut ring = Noted::new(second(1), config("a"));
    link_up(&mut ring, 1, None, "b", Purpose::Ring);
    let reported = vec![record("b", 1, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(reported)));
    drain(&mut ring);
    ring.handle_timeout(second(100));
    let outputs = drain(&mut ring);
    assert!(outputs.contains(&Output::Event(Event::Stalled)));
    assert!(!outputs.contains(&Output::Close(LinkId(1))));
}

/// Sends one record to `ring` over a link of its own.
fn send(ring: &mut Noted, now: Time, link: u64, record: Record) {
    let peer = Peer { name: name("b"), instance: Instance::from_bytes([2; 16]) };
    let (link, token, purpose) = (LinkId(link), None, Purpose::Probe);
    let from = Address::new("10.0.0.2:4711").unwrap();
    ring.handle(now, Input::LinkUp { link, token, peer, purpose, from });
    let records = vec![record];
    ring.handle(now, Input::Received(link, RingMessage::update(records)));
    drain(ring);
}

#[test]
fn dead_and_departed_members_are_forgotten_by_age_and_leave_the_digest_earlier() {
    for standing in [Standing::Dead, Standing::Departed] {
        let start = 100_000;
        let mut ring = Noted::new(second(start), config("a"));
        let before = ring.list.digest();
        let mut gone = record("c", 1, standing, 2, GAP * 2);
        gone.age_s = 20 * 3600;
        send(&mut ring, second(start), 1, gone);
        assert_eq!(ring.list.digest() == before, standing == Standing::Departed);
        ring.handle_timeout(second(start + 3599));
        assert_eq!(ring.list.digest() == before, standing == Standing::Departed);
        ring.handle_timeout(second(start + 3601));
        assert_eq!(ring.list.digest(), before);
        ring.handle_timeout(second(start + 4 * 3600 - 1));
        assert!(ring.record(&name("c")).is_some());
        ring.handle_timeout(second(start + 4 * 3600 + 1));
        assert!(ring.record(&name("c")).is_none());
        assert_eq!(ring.watched_dead(), []);
    }
}

#[test]
fn a_forgotten_member_returns_by_a_live_record_only() {
    for standing in [Standing::Dead, Standing::Departed] {
        let mut ring = Noted::new(second(100_000), config("a"));
        let mut gone = record("c", 1, standing, 2, GAP * 2);
        gone.age_s = 21 * 3600;
        send(&mut ring, second(100_000), 1, gone.clone());
        assert!(ring.record(&name("c")).is_none());
        let alive = Record { standing: Standing::Live, ..gone.clone() };
        send(&mut ring, second(100_000), 2, alive);
        assert_eq!(ring.members(), [name("a"), name("c")]);
        // A member that is known to live can be declared dead by an old record.
        send(&mut ring, second(100_000), 3, gone);
        assert_eq!(ring.members(), [name("a")]);
    }
}

#[test]
fn new_addresses_are_sent_in_a_new_incarnation_and_unchanged_ones_are_not() {
    let mut ring = Noted::new(second(1), config("a"));
    link_up(&mut ring, 1, None, "b", Purpose::Probe);
    drain(&mut ring);
    let own = config("a").addresses;
    for nothing_new in [own, Vec::new()] {
        ring.handle(second(1), Input::Readdress(nothing_new));
        assert_eq!(drain(&mut ring), []);
    }
    let many: Vec<Address> =
        (0..2 * MAX_ADDRESSES).map(|n| Address::new(&format!("10.0.1.{n}:1")).unwrap()).collect();
    ring.handle(second(1), Input::Readdress(many.clone()));
    let record = ring.record(&name("a")).unwrap().clone();
    assert_eq!((record.incarnation, &record.addresses[..]), (2, &many[..MAX_ADDRESSES]));
    let reported = RingMessage::update(vec![record]);
    assert_eq!(drain(&mut ring), [Output::Send(LinkId(1), reported)]);
    ring.handle(second(1), Input::Readdress(many));
    assert_eq!(drain(&mut ring), []);
}

#[test]
fn a_daemon_that_drains_says_so_in_its_record_and_in_later_refutations() {
    let mut ring = Noted::new(second(1), config("a"));
    link_up(&mut ring, 1, None, "b", Purpose::Ring);
    drain(&mut ring);
    ring.handle(second(1), Input::Drain(false));
    assert_eq!(drain(&mut ring), [], "nothing new");
    ring.handle(second(1), Input::Drain(true));
    let own = ring.record(&name("a")).unwrap().clone();
    assert!(own.draining && own.incarnation == 2);
    let reported = RingMessage::update(vec![own.clone()]);
    assert_eq!(drain(&mut ring), [Output::Send(LinkId(1), reported)]);
    let dead = Record { standing: Standing::Dead, draining: false, by: Some(name("b")), ..own };
    send(&mut ring, second(1), 1, dead);
    let own = ring.record(&name("a")).unwrap();
    assert!(own.draining && own.incarnation == 3 && own.standing == Standing::Live);
    // A former instance of this daemon was draining, and this instance is not.
    let mut next = Noted::new(second(1), config("c"));
    send(
        &mut next,
        second(1),
        1,
        Record { draining: true, ..record("c", 7, Standing::Live, 9, 5) },
    );
    let own = next.record(&name("c")).unwrap();
    assert!(!own.draining && own.incarnation == 8);
}

#[test]
fn new_addresses_of_a_newcomer_are_those_of_its_first_record() {
    let entry = vec![Address::new("10.0.0.9:1").unwrap()];
    let mut ring = Noted::new(second(1), RingConfig { ordinal: None, entry, ..config("a") });
    let outputs = drain(&mut ring);
    let [Output::Connect(Connect { token, .. })] = outputs[..] else { panic!("{outputs:?}") };
    let addresses = vec![Address::new("10.0.1.1:1").unwrap()];
    ring.handle(second(1), Input::Readdress(addresses.clone()));
    link_up(&mut ring, 1, Some(token), "b", Purpose::Join);
    let records = vec![record("b", 1, Standing::Live, 2, 5)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(records)));
    let own = ring.record(&name("a")).unwrap();
    assert_eq!((own.incarnation, &own.addresses), (1, &addresses));
}

#[test]
fn the_dead_behind_a_daemon_are_its_watched_dead_and_the_departed_are_not() {
    let mut ring = Noted::new(second(1), config("a"));
    assert_eq!(ring.watched_dead(), []);
    let reported = [
        record("b", 1, Standing::Live, 2, GAP * 4),
        record("c", 1, Standing::Dead, 3, GAP * 2),
        record("d", 1, Standing::Dead, 4, GAP * 3),
        record("e", 1, Standing::Departed, 5, GAP * 3),
        record("f", 1, Standing::Dead, 6, GAP * 5),
    ];
    for (record, link) in reported.into_iter().zip(1..) {
        send(&mut ring, second(1), link, record);
    }
    assert_eq!(ring.watched_dead(), [name("c"), name("d")]);
    send(&mut ring, second(1), 9, record("b", 1, Standing::Dead, 2, GAP * 4));
    assert_eq!(ring.watched_dead(), ["b", "c", "d", "f"].map(name), "alone, everybody's");
}

#[test]
fn a_daemon_that_cannot_enter_reports_it_after_each_round_of_entries_and_tries_again() {
    let entry = ["10.0.0.8:1", "10.0.0.9:1"].map(|text| Address::new(text).unwrap()).to_vec();
    let mut ring = Noted::new(second(0), RingConfig { ordinal: None, entry, ..config("a") });
    let (mut failures, mut attempts) = (0, 0);
    for now in 0..60 {
        while let Some(output) = ring.poll_output() {
            match output {
                Output::Connect(Connect { token, .. }) if attempts % 3 == 0 => {
                    // The entry answers and closes the link without a list.
                    let link = LinkId(attempts);
                    let peer = Peer { name: name("b"), instance: Instance::from_bytes([2; 16]) };
                    let (token, purpose) = (Some(token), Purpose::Join);
                    let from = Address::new("10.0.0.8:1").unwrap();
                    let up = Input::LinkUp { link, token, peer, purpose, from };
                    ring.handle(second(now), up);
                    ring.handle(second(now), Input::LinkClosed(link));
                    attempts += 1;
                }
                Output::Connect(Connect { token, .. }) => {
                    attempts += 1;
                    let failure = DialFailure::Refused;
                    ring.handle(second(now), Input::ConnectFailed(token, failure));
                }
                Output::Event(Event::EntryFailed) => failures += 1,
                other => panic!("{other:?}"),
            }
        }
        ring.handle_timeout(second(now));
    }
    assert!(failures > 50, "{failures}");
    assert_eq!(attempts, failures * 2);
    assert!(ring.members().is_empty());
}

#[test]
fn an_event_gives_its_kind_and_its_member() {
    let died = Event::MemberDied { name: name("c"), by: Some(name("b")) };
    assert_eq!((died.kind(), died.member()), ("member_died", Some(&name("c"))));
    assert_eq!((Event::Left.kind(), Event::Left.member()), ("left", None));
    let refuted = Event::Refuted { by: Some(name("b")) };
    assert_eq!((refuted.kind(), refuted.member()), ("refuted", None));
}

#[test]
fn every_message_reads_its_own_output_and_ignores_further_fields() {
    let id = ScatterId { origin: Instance::from_bytes([3; 16]), sequence: 1 };
    let seat = Seat { position: 7, name: name("a") };
    let lap = mpd_wire::message::Lap {
        origin: id.origin,
        sequence: 2,
        hops: 3,
        trace: true,
        way: 5,
        names: vec![name("a")],
    };
    let scatter = mpd_wire::message::Scatter {
        id,
        round: 0,
        after: seat.clone(),
        until: seat,
        only: Vec::new(),
        hops: 1,
        patience_ms: 1000,
        naming: None,
        payload: b"job"[..].into(),
    };
    for message in [
        RingMessage::Pulse { digest: u64::MAX },
        RingMessage::update(vec![record("b", 1, Standing::Dead, 2, 5)]),
        RingMessage::Scatter(scatter),
        RingMessage::Lap(lap),
    ] {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<RingMessage>(&text).unwrap(), message);
        let more = text.replacen('{', "{\"extra\":1,", 2).replacen("{\"extra\":1,", "{", 1);
        assert_eq!(serde_json::from_str::<RingMessage>(&more).unwrap(), message, "{more}");
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let standing =
        prop_oneof![Just(Standing::Live), Just(Standing::Dead), Just(Standing::Departed)];
    ("[ab]", 1..4u64, standing, 0..3u8, 0..3u64, proptest::option::of("[ab]")).prop_map(
        |(of, incarnation, standing, instance, position, by)| Record {
            draining: position > 1,
            by: by.map(|by| name(&by)),
            ..record(&of, incarnation, standing, instance, position)
        },
    )
}

fn merged(records: &[Record]) -> List {
    let mut list = List::default();
    for record in records {
        if list.get(&record.name).is_none_or(|known| record.beats(known, true)) {
            list.put(record.clone().into());
        }
    }
    list
}

proptest! {
    #[test]
    fn the_order_of_merging_does_not_matter(
        records in proptest::collection::vec(any_record(), 0..12),
        again in any::<usize>(),
    ) {
        let one = merged(&records);
        let mut turned: Vec<Record> = records.iter().rev().cloned().collect();
        if let Some(twice) = records.get(again % records.len().max(1)) {
            turned.push(twice.clone());
        }
        let two = merged(&turned);
        prop_assert!(one.iter().eq(two.iter()));
        prop_assert_eq!(one.digest(), two.digest());
        prop_assert!(one.is_consistent() && two.is_consistent());
    }
}
