//! What a recording has of an input, and what it has not.

use mpd_recording::Recorded;
use mpd_wire::message::{Answer, Gathered, Naming, Scatter};
use mpd_wire::names::{Hold, Lock, NameRecord, SALT};

use super::*;
use crate::recorded::{Blank, Entry};

const ORDER: &[u8] = b"an order with a key and an environment";

fn ring() -> Ring {
    let mut ring = Ring::new(second(1), config("a"));
    while ring.poll_output().is_some() {}
    ring
}

/// The recorded text of an input, and the input that a replay makes of it.
fn through(ring: &Ring, input: &Input) -> (String, Input) {
    let text = serde_json::to_string(&ring.entry(input)).unwrap();
    let entry: Entry = serde_json::from_str(&text).unwrap();
    (text, Ring::input(entry))
}

fn id() -> ScatterId {
    ScatterId { origin: Instance::from_bytes([3; 16]), sequence: 4 }
}

fn scatter(naming: Option<Box<Naming>>) -> RingMessage {
    let seat = |text| Seat { position: 1, name: name(text) };
    RingMessage::Scatter(Scatter {
        id: id(),
        round: 0,
        after: seat("a"),
        until: seat("b"),
        only: Vec::new(),
        hops: 1,
        patience_ms: 5,
        payload: Payload::from(ORDER),
        naming,
    })
}

fn answers(payloads: &[&[u8]]) -> RingMessage {
    let answer = |payload: &&[u8]| Answer { name: name("b"), answer: Payload::from(*payload) };
    let answers = payloads.iter().map(answer).collect();
    RingMessage::Gathered(Gathered { id: id(), round: 0, answers, lost: Vec::new(), depth: 2 })
}

#[test]
fn a_recording_has_the_length_of_an_order_and_not_its_bytes() {
    let zeros = Payload::from(&[0; ORDER.len()][..]);
    let order = || Payload::from(ORDER);
    let inputs = [
        (Input::Scatter(RequestId(1), order()), Input::Scatter(RequestId(1), zeros.clone())),
        (Input::Answered(id(), order()), Input::Answered(id(), zeros.clone())),
        (
            Input::Received(LinkId(1), answers(&[ORDER, b"taken", b""])),
            Input::Received(LinkId(1), answers(&[zeros.as_bytes(), b"taken", b""])),
        ),
    ];
    for (input, replayed) in inputs {
        let (text, again) = through(&ring(), &input);
        assert_eq!(again, replayed);
        let secret = String::from(order());
        assert!(!text.contains(&secret) && !text.contains("environment"), "{text}");
        assert_eq!(format!("{input:?}"), format!("{again:?}"), "people see the same");
    }
    let (text, again) = through(&ring(), &Input::Received(LinkId(1), scatter(None)));
    assert!(text.len() < 400, "{text}");
    let Input::Received(_, RingMessage::Scatter(again)) = again else { panic!("{again:?}") };
    assert_eq!(again.payload, zeros);
}

#[test]
fn a_length_in_a_wrong_recording_takes_little_memory() {
    let input = Ring::input(Entry::Scatter(RequestId(1), Blank::Bytes(u32::MAX)));
    let Input::Scatter(_, payload) = input else { panic!("{input:?}") };
    assert_eq!(payload.as_bytes().len(), MAX_PAYLOAD + 1);
}

#[test]
fn a_recording_has_no_key_of_a_name_and_no_lock_that_a_guess_could_open() {
    let key = NameKey::new("ocean", b"deep");
    let lock = Lock::new([9; SALT], &key);
    let job = JobId::new(7, "d").unwrap();
    let claim = Claim {
        name: "ocean".to_owned(),
        value: "port".to_owned(),
        job: job.clone(),
        lock: Some(lock.clone()),
        hold: Hold::Job,
    };
    let name_record = NameRecord {
        version: 1,
        claims: vec![claim.clone()],
        ..NameRecord::new(name("b"), Instance::from_bytes([2; 16]))
    };
    let hex = |value: String| value.trim_matches('"').to_owned();
    let secrets = [
        hex(serde_json::to_string(&key).unwrap()),
        hex(serde_json::to_string(&lock).unwrap())[2 * SALT..].to_owned(),
    ];
    let mut ring = ring();
    let naming = Box::new(Naming { name: "ocean".to_owned(), name_record: name_record.clone() });
    let unpublish = |words: &[u8]| Input::Unpublish {
        request: RequestId(2),
        name: "ocean".to_owned(),
        job: job.clone(),
        key: Some(NameKey::new("ocean", words)),
    };
    let publish = Input::Publish { request: RequestId(1), claim };
    for input in [
        publish.clone(),
        Input::Received(LinkId(1), RingMessage::Names { name_records: vec![name_record.clone()] }),
        Input::Received(LinkId(1), scatter(Some(naming))),
        unpublish(b"deep"),
    ] {
        let (text, again) = through(&ring, &input);
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        if let Input::Received(_, RingMessage::Names { name_records }) = again {
            assert_eq!(name_records[0].digest(), name_record.digest(), "members compare digests");
        }
    }
    // A replay takes the name back with the same result.
    let mut replayed = self::ring();
    for (input, found) in
        [(publish, None), (unpublish(b"blue"), Some(false)), (unpublish(b"deep"), Some(true))]
    {
        let (_, again) = through(&ring, &input);
        for (ring, input) in [(&mut ring, input), (&mut replayed, again)] {
            ring.handle(second(1), input);
            let outputs: Vec<Output> = std::iter::from_fn(|| ring.poll_output()).collect();
            if let Some(found) = found {
                assert_eq!(outputs, [Output::Unpublished { request: RequestId(2), found }]);
            }
        }
    }
}

#[test]
fn a_configuration_that_no_daemon_has_is_refused() {
    let mut config = config("a");
    config.timing.pulse = Duration::ZERO;
    assert!(<Ring as Recorded>::begin(second(1), config).is_err());
}
