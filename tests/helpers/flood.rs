//! Writes without end, or a given number of bytes.
//!
//!     t-flood [bytes=N] [line=L] [chunk=C] [tick] [seconds=S]
//!
//! Lines of L bytes (80) in writes of C bytes (64 KiB) to stdout. With `tick` a second thread writes
//! "tick RANK NUMBER" to stderr every 50 ms. Ends by itself after S seconds (120).
#![expect(clippy::exit, reason = "ends from either thread")]

use std::io;
use std::process::exit;
use std::time::Duration;

struct Plan {
    bytes: usize,
    line: usize,
    chunk: usize,
    seconds: u32,
    tick: bool,
}

fn main() {
    let plan = plan();
    mpd_tests::bound(plan.seconds);
    if plan.tick {
        std::thread::spawn(tick);
    }
    let lines = plan.chunk.div_ceil(plan.line);
    let mut line = vec![b'.'; plan.line - 1];
    let name = format!("rank {}", mpd_tests::rank());
    let shown = name.len().min(line.len());
    line[..shown].copy_from_slice(&name.as_bytes()[..shown]);
    line.push(b'\n');
    let block = line.repeat(lines);
    let mut left = plan.bytes;
    while left > 0 {
        let piece = block.len().min(left);
        if mpd_tests::write_all(io::stdout(), &block[..piece]).is_err() {
            exit(1);
        }
        left -= piece;
    }
}

fn plan() -> Plan {
    let mut plan =
        Plan { bytes: usize::MAX, line: 80, chunk: 64 * 1024, seconds: 120, tick: false };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, "0"));
        let value: usize = value.parse().expect("a number");
        match name {
            "bytes" => plan.bytes = value,
            "line" => plan.line = value.max(1),
            "chunk" => plan.chunk = value.max(1),
            "seconds" => plan.seconds = value.try_into().expect("seconds"),
            "tick" => plan.tick = true,
            other => panic!("unknown option '{other}'"),
        }
    }
    plan
}

fn tick() {
    let rank = mpd_tests::rank();
    for number in 0_u64.. {
        let line = format!("tick {rank} {number}\n");
        if mpd_tests::write_all(io::stderr(), line.as_bytes()).is_err() {
            exit(1);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
