//! The ends of lines in one output stream of one rank.
//!
//! The line splitter alone decides where a line ends. A line ends at a newline or at the end of the stream.
//! It also ends if its writer is silent, or when it has lasted too long: [`silence`](crate::silence). The line
//! splitter emits a [`Record`] with marks. All later stages obey the marks and keep no timers.

use mpd_sansio::Time;

use crate::silence::{HOLD_TIME, MAX_HOLD_TIME, Task, Unfinished};

/// Bytes of an unfinished line that are held back. A longer line is passed on in pieces, and
/// meanwhile the output is reserved for its rank.
pub const HOLD_BYTES: usize = 64 * 1024;

/// A piece of output: `head` then `body`. The marks tell whether lines begin and end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The first byte begins a line.
    pub begin: bool,
    /// The last byte ends a line. It need not be a newline: see the module.
    pub end: bool,
    /// Bytes held back from earlier.
    pub head: &'a [u8],
    /// Bytes that were just read.
    pub body: &'a [u8],
}

/// The line state of one stream.
#[derive(Debug)]
pub struct LineSplitter {
    held: Vec<u8>,
    /// A record without end mark was emitted.
    open: bool,
    line: Unfinished,
    /// The writer writes whole lines only.
    is_whole: bool,
}

impl Default for LineSplitter {
    fn default() -> Self {
        let line = Unfinished::new(HOLD_TIME);
        Self { held: Vec::new(), open: false, line, is_whole: false }
    }
}

impl LineSplitter {
    /// The writer writes whole lines only, so its silence ends none. It is one of our own programs.
    pub fn of_whole_lines() -> Self {
        Self { line: Unfinished::new(MAX_HOLD_TIME), is_whole: true, ..Self::default() }
    }

    /// Takes bytes that were just read; calls `emit` with each record that may be passed on.
    pub fn push(&mut self, now: Time, bytes: &[u8], emit: &mut impl FnMut(Record<'_>)) {
        let rest = match memchr::memrchr(b'\n', bytes) {
            None => bytes,
            Some(newline) => {
                let (body, rest) = bytes.split_at(newline + 1);
                emit(Record { begin: !self.open, end: true, head: &self.held, body });
                self.held.clear();
                self.open = false;
                self.line.end();
                rest
            }
        };
        if rest.is_empty() {
            return;
        }
        self.line.goes_on(now);
        if self.held.len() + rest.len() <= HOLD_BYTES && !self.open {
            self.held.extend_from_slice(rest);
        } else {
            emit(Record { begin: !self.open, end: false, head: &self.held, body: rest });
            self.held.clear();
            if !self.open {
                // From here on other ranks wait: the hold time starts again.
                self.open = true;
                self.line.restart(now);
            }
        }
    }

    /// The time at which to ask whether the line [is over](LineSplitter::is_over), if no bytes come
    /// earlier.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_whole { self.line.longest() } else { self.line.deadline() }
    }

    /// Whether [`LineSplitter::flush`] is due, now that the deadline has passed. If not, there is a new
    /// deadline. `writer` has the threads of the writer that are ready to run.
    pub fn is_over(&mut self, now: Time, writer: &[Task]) -> bool {
        self.line.is_over(now, writer)
    }

    /// Ends the unfinished line, because its deadline passed or the stream ended.
    pub fn flush(&mut self, emit: &mut impl FnMut(Record<'_>)) {
        if self.open || !self.held.is_empty() {
            emit(Record { begin: !self.open, end: true, head: &self.held, body: &[] });
        }
        self.held.clear();
        self.open = false;
        self.line.end();
    }

    /// Reading was paused until now: this time does not count against the line.
    pub fn resumed(&mut self, now: Time) {
        self.line.restart(now);
    }

    /// Whether a record without end mark was emitted. Then the output is reserved for this rank
    /// until the line ends.
    pub const fn is_open(&self) -> bool {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::silence::SILENCE;

    #[derive(Default)]
    struct Out(Vec<(bool, bool, Vec<u8>)>);

    impl Out {
        fn take(&mut self) -> impl FnMut(Record<'_>) {
            |r| self.0.push((r.begin, r.end, [r.head, r.body].concat()))
        }
    }

    #[test]
    fn an_unfinished_line_is_held_until_silence() {
        let (mut line_splitter, mut out) = (LineSplitter::default(), Out::default());
        let now = Time::ZERO;
        line_splitter.push(now, b"one\ntw", &mut out.take());
        assert_eq!(out.0, [(true, true, b"one\n".to_vec())]);
        assert_eq!(line_splitter.deadline(), Some(now + SILENCE));
        let later = now + Duration::from_millis(150);
        line_splitter.push(later, b"o", &mut out.take());
        assert_eq!(line_splitter.deadline(), Some(later + SILENCE));
        line_splitter.flush(&mut out.take());
        assert_eq!(out.0[1], (true, true, b"two".to_vec()));
        assert_eq!(line_splitter.deadline(), None);
    }

    #[test]
    fn a_line_without_end_is_cut_after_the_hold_time_although_bytes_keep_coming() {
        let (mut line_splitter, mut out) = (LineSplitter::default(), Out::default());
        let mut now = Time::ZERO;
        for _ in 0..30 {
            now = now + Duration::from_millis(100);
            line_splitter.push(now, b"\r 10%", &mut out.take());
        }
        assert!(
            line_splitter.deadline().unwrap() <= now,
            "due by {HOLD_TIME:?} although never silent"
        );
        line_splitter.resumed(now);
        assert_eq!(line_splitter.deadline(), Some(now + SILENCE), "a pause does not count");
    }

    #[test]
    fn silence_ends_no_line_of_a_writer_of_whole_lines() {
        let mut line_splitter = LineSplitter::of_whole_lines();
        line_splitter.push(Time::ZERO, b"half", &mut |_| ());
        assert_eq!(line_splitter.deadline(), Some(Time::ZERO + MAX_HOLD_TIME));
        assert!(line_splitter.is_over(Time::ZERO + MAX_HOLD_TIME, &[]));
        line_splitter.push(Time::ZERO, b" line\n", &mut |_| ());
        assert_eq!(line_splitter.deadline(), None);
    }

    #[test]
    fn a_line_longer_than_the_hold_is_passed_on_in_marked_pieces() {
        let (mut line_splitter, mut out) = (LineSplitter::default(), Out::default());
        let piece = vec![b'x'; HOLD_BYTES];
        line_splitter.push(Time::ZERO, &piece, &mut out.take());
        assert!(out.0.is_empty() && !line_splitter.is_open());
        line_splitter.push(Time::ZERO, b"y", &mut out.take());
        assert!(line_splitter.is_open());
        line_splitter.push(Time::ZERO, b"z", &mut out.take());
        line_splitter.push(Time::ZERO, b"\n", &mut out.take());
        let marks: Vec<_> = out.0.iter().map(|r| (r.0, r.1)).collect();
        assert_eq!(marks, [(true, false), (false, false), (false, true)]);
        assert!(!line_splitter.is_open());
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_duplicated_or_reordered(
            chunks in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'b')], 0..9), 0..20),
        ) {
            let (mut line_splitter, mut out) = (LineSplitter::default(), Out::default());
            for chunk in &chunks {
                line_splitter.push(Time::ZERO, chunk, &mut out.take());
            }
            line_splitter.flush(&mut out.take());
            let got: Vec<u8> = out.0.iter().flat_map(|r| r.2.clone()).collect();
            prop_assert_eq!(got, chunks.concat());
            prop_assert!(out.0.iter().rev().skip(1).all(|r| r.2.last() == Some(&b'\n')));
        }
    }
}
