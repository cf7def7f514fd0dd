//! The ends of lines in one output stream of one rank.
//!
//! The line splitter alone decides where a line ends. A line ends at a newline or at the end of the stream.
//! It also ends after [`SILENCE`] without a byte from a writer that could have written, or when it
//! has lasted longer than [`HOLD_TIME`]. The line splitter emits a [`Record`] with marks. All later stages
//! obey the marks and keep no timers.

use std::time::Duration;

use mpd_machine::Time;

/// An unfinished line is passed on after this time without a further byte, so that a prompt
/// appears.
pub const SILENCE: Duration = Duration::from_millis(200);

/// A line that does not end is cut after this time, so that it does not keep other ranks out.
pub const HOLD_TIME: Duration = Duration::from_secs(2);

/// A writer that is ready to run counts as silent after this much CPU time without a byte.
const CHANCE: Duration = Duration::from_millis(2);

/// The shortest time between two looks at the writer's CPU time.
const LOOK: Duration = Duration::from_millis(20);

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

/// The state of the processes of a rank that is silent in the middle of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// All of them wait, or have exited.
    Waits,
    /// One of them would run if it had a CPU, or if it were not stopped. The duration is the CPU
    /// time of all of them so far.
    Ready(Duration),
}

/// The line state of one stream.
#[derive(Debug, Default)]
pub struct LineSplitter {
    held: Vec<u8>,
    /// A record without end mark was emitted.
    open: bool,
    /// The start of the present unfinished line. Pauses are not counted.
    since: Option<Time>,
    last: Time,
    /// After a silence: the time of the next look at the writer, and its CPU time at the first
    /// look.
    look: Option<(Time, Duration)>,
}

impl LineSplitter {
    /// Takes bytes that were just read; calls `emit` with each record that may be passed on.
    pub fn push(&mut self, now: Time, bytes: &[u8], emit: &mut impl FnMut(Record<'_>)) {
        self.last = now;
        self.look = None;
        let rest = match memchr::memrchr(b'\n', bytes) {
            None => bytes,
            Some(newline) => {
                let (body, rest) = bytes.split_at(newline + 1);
                emit(Record { begin: !self.open, end: true, head: &self.held, body });
                self.held.clear();
                self.open = false;
                self.since = None;
                rest
            }
        };
        if rest.is_empty() {
            return;
        }
        self.since.get_or_insert(now);
        if self.held.len() + rest.len() <= HOLD_BYTES && !self.open {
            self.held.extend_from_slice(rest);
        } else {
            emit(Record { begin: !self.open, end: false, head: &self.held, body: rest });
            self.held.clear();
            if !self.open {
                // From here on other ranks wait: the hold time starts again.
                self.open = true;
                self.since = Some(now);
            }
        }
    }

    /// The time at which to ask whether the line [is over](LineSplitter::is_over), if no bytes come
    /// earlier.
    pub fn deadline(&self) -> Option<Time> {
        let next = self.look.map_or(self.last + SILENCE, |(at, _)| at);
        self.since.map(|since| next.min(since + HOLD_TIME))
    }

    /// Whether [`LineSplitter::flush`] is due, now that the deadline has passed. If not, there is a new
    /// deadline: a writer that gets no CPU does not count as silent.
    pub fn is_over(&mut self, now: Time, writer: Writer) -> bool {
        let Some(since) = self.since else { return true };
        let Writer::Ready(ran) = writer else { return true };
        let first = self.look.map_or(ran, |(_, first)| first).min(ran);
        if now >= since + HOLD_TIME || ran - first >= CHANCE {
            return true;
        }
        // The looks become rarer with time: on a busy machine they take CPU time from other
        // processes.
        let silence = now.since(self.last);
        self.look = Some((now + LOOK.max(silence / 8), first));
        false
    }

    /// Ends the unfinished line, because its deadline passed or the stream ended.
    pub fn flush(&mut self, emit: &mut impl FnMut(Record<'_>)) {
        if self.open || !self.held.is_empty() {
            emit(Record { begin: !self.open, end: true, head: &self.held, body: &[] });
        }
        self.held.clear();
        self.open = false;
        self.since = None;
        self.look = None;
    }

    /// Reading was paused until now: this time does not count against the line.
    pub fn resumed(&mut self, now: Time) {
        if self.since.is_some() {
            self.since = Some(now);
            self.last = now;
            self.look = None;
        }
    }

    /// Whether a record without end mark was emitted. Then the output is reserved for this rank
    /// until the line ends.
    pub const fn is_open(&self) -> bool {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn a_writer_that_gets_no_cpu_is_not_silent_and_one_that_does_not_use_it_is() {
        let ms = Duration::from_millis;
        let mut line_splitter = LineSplitter::default();
        line_splitter.push(Time::ZERO, b"half", &mut |_| ());
        let mut now = Time::ZERO + SILENCE;
        for (ran, next) in [(7, 25), (7, 28), (8, 31), (8, 35)] {
            assert!(!line_splitter.is_over(now, Writer::Ready(ms(ran))), "{ran}");
            let at = line_splitter.deadline().unwrap();
            assert_eq!(at.since(now).as_millis(), next);
            now = at;
        }
        line_splitter.push(now, b" of it", &mut |_| ());
        assert_eq!(line_splitter.deadline(), Some(now + SILENCE), "it has gone on");
        assert!(!line_splitter.is_over(now, Writer::Ready(ms(8))));
        assert!(
            line_splitter.is_over(now, Writer::Ready(ms(10))),
            "it has run, and written nothing"
        );
        assert!(line_splitter.is_over(now, Writer::Waits));
        assert!(!line_splitter.is_over(now, Writer::Ready(ms(1))), "the others have ended");
        assert!(
            line_splitter.is_over(Time::ZERO + HOLD_TIME, Writer::Ready(ms(1))),
            "for so long at most"
        );
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
