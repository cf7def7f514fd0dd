//! A long queue: its memory.

use std::fs;

use mpd_alloc::data::{AllocRequest, Hardness};
use mpd_alloc::{Allocator, Config, Input, Member, OwnerId, Saved, Timing};
use mpd_sansio::{Machine as _, Time};
use mpd_wire::Instance;

use super::world::name;

const REQUESTS: u64 = 100_000;
const MOST_KIB: u64 = 100 * 1024;

/// Each request is in the tables of its requester and of the dispenser, here in one daemon.
#[test]
fn a_hundred_thousand_queued_requests_take_less_than_100_mib() {
    let config = Config {
        name: name(0),
        arch: "x86_64".to_owned(),
        life: 1,
        timing: Timing::default(),
        saved: Saved::default(),
    };
    let mut daemon = Allocator::new(Time::ZERO, config);
    let member = Member {
        name: name(0),
        instance: Instance::from_bytes([1; 16]),
        ordinal: 1,
        slots: 4,
        draining: false,
    };
    give(&mut daemon, Input::Members(vec![member]));
    give(&mut daemon, Input::Ready);
    let before = resident();
    for owner in 0..REQUESTS {
        let request = AllocRequest {
            count: 2,
            hardness: Hardness::Hard,
            hosts: vec!["h1".parse().expect("a pattern")],
            arch: Vec::new(),
            width: 1,
            limit_s: None,
            uid: 1000,
            since_us: owner,
        };
        give(&mut daemon, Input::Request(OwnerId(owner), request));
    }
    let taken = resident().saturating_sub(before);
    let waiting = daemon.entries().filter(|entry| entry.why.is_some()).count() as u64;
    println!("{waiting} requests wait in {taken} KiB, {} bytes each", taken * 1024 / REQUESTS);
    assert!(waiting >= REQUESTS - 2);
    assert!(taken < MOST_KIB, "{taken} KiB");
}

fn give(daemon: &mut Allocator, input: Input) {
    // The dispenser grants after its first second.
    daemon.handle(Time::from_micros(5_000_000), input);
    while daemon.poll_output().is_some() {}
}

/// The memory of this process in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("a number")
}
