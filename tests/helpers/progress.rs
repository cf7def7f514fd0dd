//! One rank draws a progress line without end, the others write ordinary lines.
//!
//!     t-progress RANK COUNT [SECONDS]
//!
//! That rank writes "\rprogress NUMBER" until it is killed (or SECONDS have passed, 30); each of the
//! others writes COUNT lines "line RANK NUMBER" and exits.

use std::io;
use std::time::{Duration, Instant};

fn main() {
    let drawing: usize = mpd_tests::argument(0, 0);
    let count: u32 = mpd_tests::argument(1, 10);
    let seconds = mpd_tests::argument(2, 30);
    mpd_tests::bound(seconds + 10);
    let rank = mpd_tests::rank();
    if rank == drawing {
        let end = Instant::now() + Duration::from_secs(u64::from(seconds));
        let mut number = 0_u64;
        while Instant::now() < end {
            write(&format!("\rprogress {number}"));
            number += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
    } else {
        for number in 0..count {
            write(&format!("line {rank} {number}\n"));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write(text: &str) {
    mpd_tests::write_all(io::stdout(), text.as_bytes()).expect("stdout");
}
