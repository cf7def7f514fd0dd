//! Uses memory, and a CPU or none: `t-use MIB spin|sleep`.
//!
//! Holds MIB MiB, prints "held", and then spins or sleeps until it is killed.

use std::time::Duration;

const BOUND_S: u32 = 60;

fn main() {
    mpd_tests::bound(BOUND_S);
    let mib: usize = mpd_tests::argument(0, 0);
    // Not zeros, because pages of zeros need no memory.
    let held = vec![1_u8; mib << 20];
    mpd_tests::say("held").expect("stdout");
    match mpd_tests::argument(1, "sleep".to_owned()).as_str() {
        "spin" => loop {
            std::hint::black_box(&held);
        },
        "sleep" => loop {
            std::hint::black_box(&held);
            std::thread::sleep(Duration::from_secs(1));
        },
        other => panic!("unknown way '{other}'"),
    }
}
