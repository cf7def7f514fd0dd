//! The largest message of each kind fits a frame.

use super::*;
use mpd_wire::message::{Gathered, LIST_CHUNK, Naming, Scatter};
use mpd_wire::names::{
    Hold, Lock, MAX_CLAIMS, MAX_NAME, MAX_NAME_RECORD, MAX_VALUE, NameRecord, SALT,
};
use mpd_wire::{MAX_ADDRESS, MAX_ADDRESSES, MAX_DAEMON_NAME, Standing};

/// Bytes that a frame leaves for a message, with room for the daemon's own prefix.
const FRAME: usize = (1 << 20) - 64;

fn longest(letter: char) -> DaemonName {
    name(&letter.to_string().repeat(MAX_DAEMON_NAME))
}

fn json(message: &RingMessage) -> usize {
    serde_json::to_string(message).unwrap().len()
}

#[test]
fn a_list_of_the_largest_records_fits_a_frame() {
    let address = Address::new(&"\"".repeat(MAX_ADDRESS)).unwrap();
    let largest = Record {
        name: longest('a'),
        incarnation: u64::MAX,
        standing: Standing::Departed,
        instance: Instance::from_bytes([0xff; 16]),
        position: u64::MAX,
        ordinal: u64::MAX,
        ncpus: u32::MAX,
        draining: true,
        addresses: vec![address; MAX_ADDRESSES],
        by: Some(longest('b')),
        age_s: u32::MAX,
    };
    let records = vec![largest; LIST_CHUNK];
    assert!(json(&RingMessage::update(records)) <= FRAME);
}

/// As many names as one message may hold.
fn many_names() -> Vec<DaemonName> {
    vec![longest('c'); MAX_NAMED / (MAX_DAEMON_NAME + 3)]
}

fn largest_scatter() -> Scatter {
    let seat = Seat { position: u64::MAX, name: longest('a') };
    Scatter {
        id: ScatterId { origin: Instance::from_bytes([0xff; 16]), sequence: u64::MAX },
        round: u32::MAX,
        after: seat.clone(),
        until: seat,
        only: many_names(),
        hops: u32::MAX,
        patience_ms: u32::MAX,
        payload: vec![0xff; MAX_PAYLOAD].as_slice().into(),
        naming: None,
    }
}

#[test]
fn a_scatter_of_the_largest_payload_fits_a_frame() {
    let bytes = json(&RingMessage::Scatter(largest_scatter()));
    assert!(bytes <= FRAME, "{bytes}");
}

/// The largest name record, with bytes that JSON writes as six bytes each.
fn largest_name_record() -> NameRecord {
    let mut name_record = NameRecord {
        owner: longest('a'),
        instance: Instance::from_bytes([0xff; 16]),
        version: u64::MAX / 4,
        claims: Vec::new(),
    };
    while name_record.claims.len() < MAX_CLAIMS {
        let name = format!("{:04}{}", name_record.claims.len(), "\u{1}".repeat(MAX_NAME - 4));
        let job = JobId::new(u64::MAX, "d").unwrap().of(Instance::from_bytes([0xff; 16]));
        let value = "\u{1}".repeat(MAX_VALUE);
        name_record.claims.push(Claim { name, value, job, lock: None, hold: Hold::Job });
        if !name_record.is_sound() {
            name_record.claims.pop();
            break;
        }
    }
    assert!(name_record.bytes() > MAX_NAME_RECORD - MAX_VALUE - 2000);
    name_record
}

#[test]
fn the_largest_name_record_and_many_small_ones_fit_a_frame() {
    let name_record = largest_name_record();
    let naming = Naming { name: "\u{1}".repeat(MAX_NAME), name_record: name_record.clone() };
    let asking =
        Scatter { payload: b""[..].into(), naming: Some(Box::new(naming)), ..largest_scatter() };
    assert!(json(&RingMessage::Scatter(asking)) <= FRAME);
    assert!(json(&RingMessage::Names { name_records: vec![name_record] }) <= FRAME);
    let job = JobId::new(1, "d").unwrap().of(Instance::from_bytes([0xff; 16]));
    for lock in [None, Some(Lock::new([7; SALT], &NameKey::new("", b"words")))] {
        let claim = |n: usize| {
            let (name, job, lock) = (format!("{n:04}"), job.clone(), lock.clone());
            Claim { name, value: String::new(), job, lock, hold: Hold::Job }
        };
        let claims = (0..MAX_CLAIMS).map(claim).collect();
        let small =
            NameRecord { claims, ..NameRecord::new(name("a"), Instance::from_bytes([1; 16])) };
        let name_records = vec![small.clone(); MAX_NAME_RECORD / small.bytes()];
        assert!(json(&RingMessage::Names { name_records }) <= FRAME);
    }
}

#[test]
fn the_largest_gathered_answers_fit_a_frame() {
    let members: Vec<DaemonName> = (0..500).map(|n| name(&format!("{n:0>255}"))).collect();
    let answer = |name: &DaemonName| Answer {
        name: name.clone(),
        answer: vec![7; MAX_ANSWER].as_slice().into(),
    };
    let answers = scatter::fitting_answers(members.iter().map(answer).collect());
    assert!((90..100).contains(&answers.len()), "{}", answers.len());
    let id = ScatterId { origin: Instance::from_bytes([0xff; 16]), sequence: u64::MAX };
    let lost = many_names();
    let gathered = Gathered { id, round: u32::MAX, answers, lost, depth: u32::MAX };
    assert!(json(&RingMessage::Gathered(gathered)) <= FRAME);
    let fit = scatter::fitting(std::iter::repeat_n(longest('c'), 10_000));
    assert_eq!(fit.len(), many_names().len());
}
