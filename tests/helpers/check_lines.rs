//! Checks on its standard input the labelled lines that ranks of `t-lines` have written, as they arrive.
//!
//!     t-check-lines SEED COUNT MAX RANKS
//!
//! Prints "exact: N lines, M bytes", or panics with the first error.

use std::io::{self, BufRead, BufReader};

use mpd_tests::lines::{Check, Lines, Stream};

fn main() {
    let seed: u64 = mpd_tests::argument(0, 1);
    let count: usize = mpd_tests::argument(1, 100);
    let max: usize = mpd_tests::argument(2, 1000);
    let ranks: usize = mpd_tests::argument(3, 1);
    let lines = |rank| Lines::new(seed, rank, Stream::Out, max);
    let mut check = Check::new(ranks, true, lines, count);
    let mut input = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut bytes = 0;
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).expect("standard input") > 0 {
        bytes += line.len();
        assert_eq!(line.pop(), Some(b'\n'), "the last line is whole");
        check.add(&line);
        line.clear();
    }
    let text = format!("exact: {} lines, {bytes} bytes", check.end());
    mpd_tests::say(&text).expect("stdout");
}
