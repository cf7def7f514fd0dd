//! Members that a boot starts together.

use mpd_wire::Newcomer;

use super::*;

/// A daemon that waits, and the list of a boot of three in which it is the first.
fn waiting() -> (Noted, Vec<Record>) {
    let rules = Rules::default();
    let ring = Noted::new(second(1), RingConfig { waits: true, rules, ..config("a") });
    let own = Record {
        addresses: vec![Address::new("10.0.0.1:1").unwrap()],
        ..record("a", 1, Standing::Live, 1, 1 << 32)
    };
    let others = [record("b", 1, Standing::Live, 2, 2 << 32), record("c", 1, Standing::Live, 3, 3)];
    (ring, [vec![own], others.to_vec()].concat())
}

#[test]
fn a_daemon_that_waits_is_silent_until_it_has_the_list_and_then_dials_its_right_neighbour_alone() {
    let (mut ring, list) = waiting();
    link_up(&mut ring, 1, None, "b", Purpose::Ring);
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::Pulse { digest: 5 }));
    let records = list.clone();
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(records)));
    ring.handle_timeout(second(3));
    assert_eq!(drain(&mut ring), [], "no message, no attempt to connect");
    ring.handle(second(3), Input::Introduce(list));
    let outputs = drain(&mut ring);
    let dialed = |output: &Output| match output {
        Output::Connect(Connect { name, purpose: Purpose::Ring, .. }) => name.clone(),
        _ => None,
    };
    let dialed: Vec<DaemonName> = outputs.iter().filter_map(dialed).collect();
    assert_eq!(dialed, [name("b")], "{outputs:?}");
    let connects = |o: &&Output| matches!(o, Output::Connect(_));
    assert_eq!(outputs.iter().filter(connects).count(), 1);
    let sent: Vec<&Output> = outputs.iter().filter(|o| matches!(o, Output::Send(..))).collect();
    assert!(
        matches!(sent[..], [Output::Send(LinkId(1), RingMessage::Pulse { .. })]),
        "the neighbour that linked before is greeted, and gets no records: {sent:?}"
    );
    assert_eq!(ring.members(), [name("a"), name("b"), name("c")]);
}

#[test]
fn a_member_makes_the_records_of_newcomers_and_leaves_out_names_that_it_knows() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let newcomer = |of: &str, ordinal: Option<u64>| Newcomer {
        name: name(of),
        instance: Instance::from_bytes([7; 16]),
        ordinal,
        ncpus: 4,
        addresses: vec![Address::new("10.0.0.7:1").unwrap()],
    };
    let newcomers = vec![newcomer("b", Some(3)), newcomer("a", Some(4)), newcomer("c", None)];
    let records = ring.records_of(newcomers);
    let seats: Vec<_> =
        records.iter().map(|r| (r.name.as_str(), r.incarnation, r.position, r.ordinal)).collect();
    assert_eq!(seats, [("b", 1, 3 * GAP, 3), ("c", 1, 4 * GAP, 4)]);
    ring.handle(second(1), Input::Introduce(records));
    let outputs = drain(&mut ring);
    assert!(outputs.contains(&Output::Event(Event::MemberEntered(name("c")))), "{outputs:?}");
    assert_eq!(ring.members(), [name("a"), name("b"), name("c")]);
}

#[test]
fn a_newcomer_takes_the_place_of_a_member_of_its_name_that_is_gone() {
    let mut ring = Noted::new(second(1), config("a"));
    let dead = record("b", 3, Standing::Dead, 2, 7 * GAP);
    link_up(&mut ring, 1, None, "c", Purpose::Ring);
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(vec![dead])));
    drain(&mut ring);
    let newcomer = Newcomer {
        name: name("b"),
        instance: Instance::from_bytes([7; 16]),
        ordinal: Some(9),
        ncpus: 4,
        addresses: vec![Address::new("10.0.0.7:1").unwrap()],
    };
    let records = ring.records_of(vec![newcomer]);
    let [first] = &records[..] else { panic!("{records:?}") };
    assert_eq!((first.incarnation, first.position), (4, 7 * GAP));
    ring.handle(second(1), Input::Introduce(records));
    drain(&mut ring);
    assert_eq!(ring.record(&name("b")).unwrap().standing, Standing::Live);
}

#[test]
fn a_daemon_that_seeks_dials_the_given_addresses_once_and_accepts_any_daemon_there() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let addresses = vec![Address::new("10.0.0.7:1").unwrap()];
    ring.handle(second(1), Input::Seek(addresses.clone()));
    let outputs = drain(&mut ring);
    let [Output::Connect(Connect { name: None, instance: None, addresses: dialed, purpose, .. })] =
        &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((dialed, *purpose), (&addresses, Purpose::Probe));
    ring.handle(second(1), Input::Seek(addresses));
    assert_eq!(drain(&mut ring), []);
}

#[test]
fn a_daemon_that_changed_while_it_waited_sends_its_new_record() {
    let (mut ring, list) = waiting();
    let addresses = vec![Address::new("10.0.0.9:1").unwrap()];
    ring.handle(second(1), Input::Readdress(addresses.clone()));
    ring.handle(second(1), Input::Introduce(list));
    let own = ring.record(&name("a")).unwrap();
    assert_eq!((own.incarnation, &own.addresses), (2, &addresses));
}

#[test]
fn a_list_that_has_the_daemon_as_dead_is_refuted() {
    let (mut ring, mut list) = waiting();
    let own = list.iter_mut().find(|record| record.name == name("a")).unwrap();
    own.standing = Standing::Dead;
    ring.handle(second(1), Input::Introduce(list));
    let own = ring.record(&name("a")).unwrap();
    assert_eq!((own.incarnation, own.standing), (2, Standing::Live));
}
