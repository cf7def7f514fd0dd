//! A29: attacks by a holder of the key that is not a member of the ring.

use mpd_wire::frame::compact;
use mpd_wire::message::{
    Gathered, Payload, RingMessage, RingOrder, RingRequest, Scatter, ScatterId,
};
use mpd_wire::{Address, DaemonName, Instance, Record, Seat, Standing};

use crate::attacker::{CHORD, Guest, JOIN, PROBE, RING, encoded};
use crate::attacks::Target;
use crate::members::Members;
use crate::run::wait_until;

fn name(of: &str) -> DaemonName {
    DaemonName::new(of).expect("a name")
}

/// An order to all members to end, in the name of the daemon of this instance.
fn leave_all(origin: Instance, sequence: u64) -> Vec<u8> {
    let order = compact::to_vec(&RingOrder::LeaveAll);
    let seat = Seat { position: 1, name: name("d1") };
    encoded(&RingMessage::Scatter(Scatter {
        id: ScatterId { origin, sequence },
        round: 0,
        after: seat.clone(),
        until: seat,
        only: Vec::new(),
        hops: 1,
        patience_ms: 5000,
        naming: None,
        payload: Payload::from(order.as_slice()),
    }))
}

fn live(of: &str, number: u8, at: &str) -> Record {
    Record {
        name: name(of),
        incarnation: 1 << 20,
        standing: Standing::Live,
        instance: Instance::from_bytes([number; 16]),
        position: u64::from(number),
        ordinal: u64::from(number),
        ncpus: 64,
        draining: false,
        addresses: vec![Address::new(at).expect("an address")],
        by: None,
        age_s: 0,
    }
}

/// The daemon's answer to an order; other messages are skipped.
fn gathered(guest: &mut Guest) -> Gathered {
    loop {
        let received = guest.receive().expect("an answer");
        let message = compact::from_slice(&received).expect("a message");
        if let RingMessage::Gathered(gathered) = message {
            return gathered;
        }
    }
}

impl Target {
    fn instance_of(&self, of: &str) -> Instance {
        self.ring.record(1, of).expect("a member").instance
    }

    /// A link under this name and instance, from an address that no member has.
    fn pose(&mut self, of: &str, instance: Option<Instance>, purpose: u8) -> Guest {
        let mut claim = self.claim(purpose);
        if let Some(instance) = instance {
            claim.hello.from = instance.to_bytes();
        }
        Guest::enter(self.port_address(), &claim, of, "")
    }

    fn says(&self, word: &str) -> bool {
        self.clean_log().contains(word)
    }
}

#[test]
fn a29_orders_of_a_key_holder_outside_the_ring_are_refused_and_logged() {
    let mut target = Target::of(2);
    let member = target.instance_of("d2");
    let mut sequence = 1 << 40;
    for purpose in [RING, CHORD, JOIN, PROBE] {
        for (of, incarnation) in [("guest", None), ("d2", None), ("d2", Some(member))] {
            let mut guest = target.pose(of, incarnation, purpose);
            let own = Instance::from_bytes([3; 16]);
            sequence += 1;
            // The log limit permits the first 20 lines of a minute.
            let origin = if incarnation.is_some() { member } else { own };
            guest.send(&leave_all(origin, sequence));
            assert!(gathered(&mut guest).answers.is_empty(), "{of} was accepted");
            let at = guest.stream.local_addr().expect("an address");
            assert!(target.says(&format!("refused an order from {of} ({at})")), "{of}, {at}");
            guest.bye();
        }
    }
    assert_eq!(target.ring.agree(), ["d1", "d2"]);
    target.ring.mpirun(1, &["-n", "2", "true"]).output().code(0).quiet();
}

#[test]
fn a29_a_daemon_accepts_no_member_records_from_an_outsider() {
    let mut target = Target::of(2);
    let member = target.instance_of("d2");
    let before = target.ring.record(1, "d2").expect("a member").addresses;
    // No process listens at that port.
    let nowhere = "127.0.0.1:1";
    for (of, incarnation, purpose) in [
        ("guest", None, JOIN),
        ("guest", None, RING),
        ("d2", None, RING),
        ("d2", Some(member), RING),
    ] {
        let mut guest = target.pose(of, incarnation, purpose);
        for page in 0..15_u8 {
            let invented = (0..128_u8).map(|n| live(&format!("x{page}-{n}"), n, nowhere));
            let mut records: Vec<Record> = invented.collect();
            let dead = Record { standing: Standing::Dead, ..live("d2", 2, nowhere) };
            records[0] = Record { instance: member, ..dead };
            records[1] = Record { instance: member, ..live("d2", 2, nowhere) };
            guest.send(&encoded(&RingMessage::list(records)));
        }
        guest.bye();
        let refused = format!("refused records from {of}");
        wait_until("the end of the link is logged", || target.says(&refused));
    }
    assert_eq!(target.ring.agree(), ["d1", "d2"]);
    let after = target.ring.record(1, "d2").expect("a member");
    assert_eq!((after.addresses, after.instance), (before, member));
    target.ring.mpirun(1, &["-n", "4", "true"]).output().code(0).quiet();
}

#[test]
fn a29_an_outsider_that_does_not_answer_at_its_addresses_is_not_admitted() {
    let mut target = Target::of(1);
    let mut guest = target.pose("guest", Some(Instance::from_bytes([9; 16])), JOIN);
    guest.send(&encoded(&RingMessage::update(vec![live("guest", 9, "127.0.0.1:1")])));
    wait_until("it is dialed back", || target.says("guest (127.0.0.1:"));
    assert!(target.says("is not taken in: no daemon of that name answers"));
    assert!(target.ring.record(1, "guest").is_none());
}

#[test]
fn a29_a_peer_with_a_daemons_own_name_does_not_make_it_leave() {
    let mut target = Target::of(2);
    for purpose in [RING, CHORD, JOIN, PROBE] {
        let mut guest = target.pose("d1", Some(Instance::from_bytes([0xff; 16])), purpose);
        assert!(guest.is_closed());
    }
    assert_eq!(target.ring.agree(), ["d1", "d2"]);
}

#[test]
fn every_order_of_another_member_is_logged_with_its_name_and_address() {
    let ring = Members::of(2);
    ring.ask(2, RingRequest::Census).expect("an answer");
    let line = format!("d2 ({}", ring.ip(2));
    let said = |log: &str| log.lines().any(|l| l.contains(&line) && l.contains("describe itself"));
    assert!(said(&ring.log(1)), "{}", ring.log(1));
}
