//! Marks of a rank's debugger between the lines of its output. The lines come over a pipe, the marks over the
//! control socket of the rank's shim. Each mark has the number of bytes before it. The shim sends a mark before it
//! writes the bytes after it. So bytes are passed on only after the marks that came meanwhile have been read.

use std::collections::VecDeque;

/// The next item to pass on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This number of the bytes that were read.
    Bytes(usize),
    Mark(String),
    /// Nothing yet: the marks are being read.
    Wait,
    /// Nothing: more can be read.
    Read,
    /// Nothing any more.
    End,
}

/// The marks and the bytes of a stream that are not passed on yet.
#[derive(Debug, Default)]
pub(super) struct Marks {
    waiting: VecDeque<(u64, String)>,
    /// Bytes that were read and not passed on.
    read: Vec<u8>,
    /// Bytes that were passed on.
    passed: u64,
    /// Whether all marks before or between the bytes of `read` are known.
    known: bool,
    /// Whether the end of the stream was read.
    ended: bool,
}

impl Marks {
    /// Adds a mark, with the number of bytes before it.
    pub(super) fn add(&mut self, mark: (u64, String)) {
        self.waiting.push_back(mark);
    }

    /// Adds bytes that were read after [`Next::Read`]; no bytes mean the end.
    pub(super) fn was_read(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
        self.ended |= bytes.is_empty();
        self.known = false;
    }

    /// Notes that all marks before and between the bytes have come.
    pub(super) const fn are_known(&mut self) {
        self.known = true;
    }

    /// The next item to pass on. A returned mark counts as passed on.
    pub(super) fn next(&mut self) -> Next {
        if self.is_pending() && !self.known {
            return Next::Wait;
        }
        let is_last = self.ended && self.read.is_empty();
        match self.waiting.front() {
            Some((after, _)) if *after <= self.passed || is_last => {
                let mark = self.waiting.pop_front();
                mark.map_or(Next::Read, |(_, text)| Next::Mark(text))
            }
            _ if is_last => Next::End,
            _ if self.read.is_empty() => Next::Read,
            Some((after, _)) => {
                let before = usize::try_from(after - self.passed).unwrap_or(usize::MAX);
                Next::Bytes(self.read.len().min(before))
            }
            None => Next::Bytes(self.read.len()),
        }
    }

    /// Whether bytes or an end were read and not passed on.
    pub(super) const fn is_pending(&self) -> bool {
        !self.read.is_empty() || self.ended
    }

    /// Moves the first bytes to `buffer`, as many as [`Marks::next`] returned.
    pub(super) fn pass(&mut self, count: usize, buffer: &mut [u8]) {
        buffer[..count].copy_from_slice(&self.read[..count]);
        self.read.drain(..count);
        self.passed += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that can be passed on now.
    fn passed(marks: &mut Marks) -> String {
        let mut all = String::new();
        loop {
            match marks.next() {
                Next::Bytes(count) => {
                    let mut buffer = vec![0; count];
                    marks.pass(count, &mut buffer);
                    all += std::str::from_utf8(&buffer).unwrap();
                }
                Next::Mark(text) => all += &format!("={text}\n"),
                Next::Wait | Next::Read | Next::End => return all,
            }
        }
    }

    #[test]
    fn a_mark_follows_the_bytes_before_it_in_any_order_of_arrival() {
        let mut marks = Marks::default();
        marks.was_read(b"~one\n~two\n");
        assert_eq!((passed(&mut marks), marks.next()), (String::new(), Next::Wait));
        assert!(marks.is_pending());
        marks.add((5, "1 idle".into()));
        marks.add((14, "2 idle".into()));
        marks.are_known();
        assert_eq!(passed(&mut marks), "~one\n=1 idle\n~two\n");
        assert!(marks.next() == Next::Read && !marks.is_pending());
        marks.was_read(b"~3\n~");
        marks.are_known();
        assert_eq!(passed(&mut marks), "~3\n~=2 idle\n");
        marks.add((14, "3 idle".into()));
        assert_eq!(passed(&mut marks), "=3 idle\n", "it needs no further byte");
    }

    #[test]
    fn the_last_marks_come_at_the_end_of_the_bytes() {
        let mut marks = Marks::default();
        marks.add((100, "1 ended".into()));
        assert_eq!(marks.next(), Next::Read);
        marks.was_read(b"");
        assert_eq!(marks.next(), Next::Wait);
        marks.are_known();
        assert_eq!((passed(&mut marks), marks.next()), ("=1 ended\n".into(), Next::End));
    }
}
