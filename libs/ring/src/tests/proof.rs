//! R7: a peer that has the key and is no member.

use super::*;
use mpd_wire::message::{Gathered, Scatter};

/// The address of every record of these tests.
const HERE: &str = "10.0.0.2:4711";
const ELSEWHERE: &str = "10.0.0.66:4711";

fn instance(byte: u8) -> Instance {
    Instance::from_bytes([byte; 16])
}

/// A daemon `a` that has entered through the member `b`, instance 2.
fn member() -> Noted {
    let mut ring = Noted::new(second(1), RingConfig { rules: Rules::default(), ..config("a") });
    drain(&mut ring);
    let seen = vec![record("b", 1, Standing::Live, 2, GAP * 9)];
    ring.merge_for_test(seen);
    drain(&mut ring);
    ring
}

impl Noted {
    /// Accepts records as if a member had sent them.
    fn merge_for_test(&mut self, records: Vec<Record>) {
        for record in records {
            self.ring.put(second(1), Arc::new(record), None);
        }
        self.ring.settle(second(1));
        self.note();
    }
}

fn knock(ring: &mut Noted, id: u64, who: (&str, u8), purpose: Purpose, at: &str) -> Vec<Output> {
    let peer = Peer { name: name(who.0), instance: instance(who.1) };
    let (link, token, from) = (LinkId(id), None, Address::new(at).unwrap());
    ring.handle(second(1), Input::LinkUp { link, token, peer, purpose, from });
    drain(ring)
}

fn say(ring: &mut Noted, id: u64, message: RingMessage) -> Vec<Output> {
    ring.handle(second(1), Input::Received(LinkId(id), message));
    drain(ring)
}

fn update(records: Vec<Record>) -> RingMessage {
    RingMessage::update(records)
}

fn order(origin: u8, sequence: u64) -> RingMessage {
    let seat = Seat { position: GAP, name: name("a") };
    RingMessage::Scatter(Scatter {
        id: ScatterId { origin: instance(origin), sequence },
        round: 0,
        after: seat.clone(),
        until: seat,
        only: Vec::new(),
        hops: 1,
        patience_ms: 1000,
        naming: None,
        payload: b"leave"[..].into(),
    })
}

fn refusal(outputs: &[Output]) -> Option<&'static str> {
    outputs.iter().find_map(|output| match output {
        Output::Event(Event::FrameRefused { why, .. }) => Some(*why),
        _ => None,
    })
}

fn delivered(outputs: &[Output]) -> Option<&Sender> {
    outputs.iter().find_map(|output| match output {
        Output::Deliver { sender, .. } => sender.as_ref(),
        _ => None,
    })
}

#[test]
fn an_order_counts_only_on_the_link_of_a_live_member_and_from_a_live_member() {
    let cases = [
        ("b", 2, Purpose::Ring, HERE, 2, None),
        ("b", 2, Purpose::Chord, HERE, 2, None),
        ("b", 2, Purpose::Join, HERE, 2, Some("by a link that carries none")),
        ("b", 2, Purpose::Probe, HERE, 2, Some("by a link that carries none")),
        ("x", 5, Purpose::Ring, HERE, 2, Some("sender is no live member")),
        ("b", 5, Purpose::Ring, HERE, 2, Some("sender is no live member")),
        ("b", 2, Purpose::Ring, ELSEWHERE, 2, Some("sender is no live member")),
        ("b", 2, Purpose::Ring, HERE, 5, Some("origin is no live member")),
    ];
    for (of, incarnation, purpose, at, origin, why) in cases {
        let mut ring = member();
        knock(&mut ring, 1, (of, incarnation), purpose, at);
        let outputs = say(&mut ring, 1, order(origin, 1));
        assert_eq!(delivered(&outputs).is_some(), why.is_none(), "{of} {purpose:?}: {outputs:?}");
        let refused = refusal(&outputs);
        assert!(
            why.is_none_or(|why| refused.is_some_and(|text| text.contains(why))),
            "{refused:?}"
        );
        // The sender does not have to wait for an answer.
        let empty = |output: &Output| {
            matches!(output, Output::Send(_, RingMessage::Gathered(Gathered { answers, .. }))
                if answers.is_empty())
        };
        assert_eq!(outputs.iter().any(empty), why.is_some());
    }
}

#[test]
fn an_order_is_delivered_with_the_name_and_the_address_of_its_sender() {
    let mut ring = member();
    ring.merge_for_test(vec![record("c", 1, Standing::Live, 3, GAP * 20)]);
    drain(&mut ring);
    knock(&mut ring, 1, ("b", 2), Purpose::Ring, HERE);
    let outputs = say(&mut ring, 1, order(3, 1));
    let at = Address::new(HERE).unwrap();
    let expected = Sender { origin: name("c"), name: name("b"), at };
    assert_eq!(delivered(&outputs), Some(&expected));
}

#[test]
fn records_of_a_stranger_are_not_accepted() {
    let mut ring = member();
    let before: Vec<Record> = ring.records().cloned().collect();
    let moved = Record {
        addresses: vec![Address::new(ELSEWHERE).unwrap()],
        ..record("b", 9, Standing::Live, 2, 5)
    };
    let mut claims = vec![moved, record("a", 9, Standing::Dead, 1, 5)];
    claims.extend((0..100).map(|n| record(&format!("x{n}"), 1, Standing::Live, 7, n)));
    for (id, who) in [("b", 7), ("b", 2), ("x", 7)].into_iter().enumerate() {
        let id = id as u64 + 1;
        for purpose in [Purpose::Ring, Purpose::Join, Purpose::Probe, Purpose::Chord] {
            let id = id * 10 + purpose as u64;
            knock(&mut ring, id, who, purpose, ELSEWHERE);
            say(&mut ring, id, update(claims.clone()));
            say(&mut ring, id, RingMessage::list(claims.clone()));
        }
    }
    let after: Vec<Record> = ring.records().cloned().collect();
    assert_eq!(before, after);
    ring.handle(second(1), Input::LinkClosed(LinkId(30)));
    assert_eq!(refusal(&drain(&mut ring)), Some("the sender is no live member"));
}

#[test]
fn a_newcomer_is_dialed_back_and_its_links_count_when_it_is_a_member() {
    let mut ring = member();
    knock(&mut ring, 1, ("c", 3), Purpose::Ring, HERE);
    let own = record("c", 1, Standing::Live, 3, GAP * 20);
    let outputs = say(&mut ring, 1, update(vec![own.clone()]));
    let connects = |outputs: &[Output]| {
        outputs.iter().find_map(|output| match output {
            Output::Connect(Connect {
                token, name, addresses, purpose: Purpose::Probe, ..
            }) => Some((*token, name.clone(), addresses.clone())),
            _ => None,
        })
    };
    let (token, wanted, addresses) = connects(&outputs).expect("a dial back");
    assert_eq!((wanted, addresses), (Some(name("c")), own.addresses.clone()));
    assert_eq!(ring.members(), [name("a"), name("b")]);
    assert_eq!(connects(&say(&mut ring, 1, update(vec![own.clone()]))), None, "one at a time");
    assert!(refusal(&say(&mut ring, 1, order(3, 1))).is_some());

    let peer = Peer { name: name("c"), instance: instance(3) };
    let (link, token, from) = (LinkId(2), Some(token), Address::new("10.0.0.2:1").unwrap());
    let up = Input::LinkUp { link, token, peer, purpose: Purpose::Probe, from };
    ring.handle(second(1), up);
    let outputs = say(&mut ring, 2, RingMessage::list(vec![own]));
    assert!(outputs.contains(&Output::Event(Event::MemberEntered(name("c")))));
    assert!(outputs.contains(&Output::Event(Event::LinkedLhs(name("c")))));
    assert!(delivered(&say(&mut ring, 1, order(3, 2))).is_some());
}

#[test]
fn a_newcomer_that_does_not_answer_at_its_addresses_is_not_admitted_and_an_event_reports_it() {
    let mut ring = member();
    knock(&mut ring, 1, ("x", 5), Purpose::Ring, ELSEWHERE);
    let own = record("x", 1, Standing::Live, 5, GAP * 20);
    let outputs = say(&mut ring, 1, update(vec![own]));
    let token = outputs.iter().find_map(|output| match output {
        Output::Connect(Connect { token, .. }) => Some(*token),
        _ => None,
    });
    ring.handle(second(1), Input::ConnectFailed(token.unwrap(), DialFailure::Refused));
    let said = Event::NotDialedBack { name: name("x"), at: Address::new(ELSEWHERE).unwrap() };
    assert_eq!(drain(&mut ring), [Output::Event(said)]);
    assert_eq!(ring.members(), [name("a"), name("b")]);
    // Its link ends as well.
    let mut closed = false;
    for now in 2..12 {
        ring.handle_timeout(second(now));
        closed |= drain(&mut ring).contains(&Output::Close(LinkId(1)));
    }
    assert!(closed);
}

#[test]
fn a_claim_to_a_members_name_and_many_strangers_end_no_link_of_a_member() {
    let mut ring = member();
    knock(&mut ring, 1, ("b", 2), Purpose::Ring, HERE);
    assert!(ring.lhs().is_some());
    let mut closed = knock(&mut ring, 2, ("b", 7), Purpose::Ring, HERE);
    closed.extend(knock(&mut ring, 3, ("b", 2), Purpose::Ring, ELSEWHERE));
    for id in 4..100 {
        closed.extend(knock(&mut ring, id, (&format!("x{id}"), 9), Purpose::Ring, ELSEWHERE));
    }
    assert!(!closed.contains(&Output::Close(LinkId(1))), "{closed:?}");
    assert!(closed.contains(&Output::Close(LinkId(2))), "the strangers are bounded");
    assert_eq!(ring.lhs(), Some((LinkId(1), &name("b"))));
    // The member itself may connect again.
    let outputs = knock(&mut ring, 200, ("b", 2), Purpose::Ring, HERE);
    assert!(outputs.contains(&Output::Close(LinkId(1))));
    assert_eq!(ring.lhs(), Some((LinkId(200), &name("b"))));
}

#[test]
fn a_peer_with_the_name_of_this_daemon_does_not_make_it_leave() {
    for purpose in [Purpose::Ring, Purpose::Join, Purpose::Probe, Purpose::Chord] {
        let mut ring = member();
        let outputs = knock(&mut ring, 1, ("a", 9), purpose, ELSEWHERE);
        assert!(outputs.contains(&Output::Close(LinkId(1))));
        assert!(!ring.is_over() && !outputs.contains(&Output::Over), "{purpose:?}");
    }
}

#[test]
fn an_attempt_names_the_instance_that_is_known_to_live() {
    let mut ring = Noted::new(second(1), RingConfig { rules: Rules::default(), ..config("a") });
    drain(&mut ring);
    ring.merge_for_test(vec![record("b", 1, Standing::Live, 2, GAP * 9)]);
    let wanted = |outputs: &[Output]| {
        outputs.iter().find_map(|output| match output {
            Output::Connect(Connect { token, instance, .. }) => Some((*token, *instance)),
            _ => None,
        })
    };
    let (token, incarnation) = wanted(&drain(&mut ring)).unwrap();
    assert_eq!(incarnation, Some(instance(2)));
    // The member is dead now, and may be back with another instance.
    ring.handle(second(1), Input::ConnectFailed(token, DialFailure::Refused));
    ring.handle_timeout(second(3));
    assert_eq!(wanted(&drain(&mut ring)).unwrap().1, None);
}
