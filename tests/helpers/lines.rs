//! Writes lines whose bytes the reader knows, in pieces of unknown sizes.
//!
//!     t-lines SEED COUNT MAX [out|err|both]
//!
//! COUNT lines of 1 to MAX bytes on each stream, cut anywhere; a thread for each stream. All lines are made before
//! the first byte is written, so that no line pauses for long: a silent writer ends an unfinished line.

use std::io;

use mpd_tests::lines::{Lines, Stream};
use mpd_tests::random::Random;

const MAX_PIECE: usize = 256 * 1024;

fn main() {
    mpd_tests::bound(900);
    let seed: u64 = mpd_tests::argument(0, 1);
    let count = mpd_tests::argument(1, 100);
    let max = mpd_tests::argument(2, 1000);
    let wanted: String = mpd_tests::argument(3, "both".to_owned());
    let rank = mpd_tests::rank();
    let text = |stream| {
        let mut text = Vec::new();
        for line in Lines::new(seed, rank, stream, max).take(count) {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        text
    };
    let mut writers: Vec<_> = [(Stream::Out, "err"), (Stream::Err, "out")]
        .into_iter()
        .filter(|(_, excluded_by)| wanted != *excluded_by)
        .map(|(stream, _)| (stream, text(stream)))
        .collect();
    let last = writers.pop();
    std::thread::scope(|scope| {
        for (stream, text) in writers {
            scope.spawn(move || write(stream, &text));
        }
        if let Some((stream, text)) = last {
            write(stream, &text);
        }
    });
}

fn write(stream: Stream, mut text: &[u8]) {
    let salt = u64::from(stream == Stream::Err) << 32;
    let mut cuts = Random::new(u64::from(std::process::id()) | salt);
    while !text.is_empty() {
        let (piece, rest) = text.split_at(cuts.size(MAX_PIECE).min(text.len()));
        match stream {
            Stream::Out => mpd_tests::write_all(io::stdout(), piece).expect("stdout"),
            Stream::Err => mpd_tests::write_all(io::stderr(), piece).expect("stderr"),
        }
        text = rest;
    }
}
