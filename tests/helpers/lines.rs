//! Writes lines that the reader knows to the byte, in pieces that nobody knows.
//!
//!     t-lines SEED COUNT MAX [out|err|both]
//!
//! COUNT lines of 1 to MAX bytes on each stream, cut anywhere, the streams mixed, with a pause of a
//! millisecond now and then.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use mpd_tests::lines::{Lines, Stream};
use mpd_tests::random::Random;

const MAX_PIECE: usize = 256 * 1024;

fn main() {
    mpd_tests::bound(120);
    let seed: u64 = mpd_tests::argument(0, 1);
    let count = mpd_tests::argument(1, 100);
    let max = mpd_tests::argument(2, 1000);
    let wanted: String = mpd_tests::argument(3, "both".to_owned());
    let rank = mpd_tests::rank();
    let mut streams: Vec<_> = [(Stream::Out, "err"), (Stream::Err, "out")]
        .into_iter()
        .filter(|(_, excluded_by)| wanted != *excluded_by)
        .map(|(stream, _)| Writer::new(stream, Lines::new(seed, rank, stream, max), count))
        .collect();
    let mut cuts = Random::new(u64::from(std::process::id()));
    while !streams.is_empty() {
        let chosen = cuts.below(streams.len());
        if !streams[chosen].write_piece(cuts.size(MAX_PIECE)) {
            streams.swap_remove(chosen);
        }
        if cuts.below(200) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Writer {
    stream: Stream,
    lines: std::iter::Take<Lines>,
    pending: VecDeque<u8>,
}

impl Writer {
    fn new(stream: Stream, lines: Lines, count: usize) -> Self {
        Self { stream, lines: lines.take(count), pending: VecDeque::new() }
    }

    /// Writes that many bytes, fewer only at the end. False if nothing was left.
    fn write_piece(&mut self, length: usize) -> bool {
        while self.pending.len() < length {
            let Some(line) = self.lines.next() else { break };
            self.pending.extend(line);
            self.pending.push_back(b'\n');
        }
        let length = length.min(self.pending.len());
        let piece: Vec<u8> = self.pending.drain(..length).collect();
        match self.stream {
            Stream::Out => mpd_tests::write_all(io::stdout(), &piece).expect("stdout"),
            Stream::Err => mpd_tests::write_all(io::stderr(), &piece).expect("stderr"),
        }
        length > 0
    }
}
