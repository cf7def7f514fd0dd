//! Bytes in any chunking → lines, and PMI-2's frames between them.
//!
//! The caller bounds the length of lines. A longer line is reported once and skipped to its end. This module does not
//! parse lines or frames; it only removes a carriage return before the newline. Both sides of both dialects use it.

use crate::error::{ProtocolError, excerpt};
use crate::limits::MAX_FRAME;

/// The number of characters of the decimal length that begins a frame.
pub(crate) const HEADER: usize = 6;

/// The beginning of a line where a frame could begin: an `init` may come as a line at any time.
const LINE: &[u8] = b"cmd=";

/// Input not yet decoded.
#[derive(Debug)]
pub(crate) struct InputBuffer {
    bytes: Vec<u8>,
    /// The offset of the next line.
    start: usize,
    /// No newline precedes this offset, so a line that arrives in pieces is not searched twice.
    scanned: usize,
    max_line: usize,
    skipping: bool,
}

/// One element of a PMI-2 stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A line, without its end.
    Line(Vec<u8>),
    /// The body of a frame.
    Body(Vec<u8>),
}

/// A line is longer than the maximum. Its bytes are dropped, except for the beginning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// The first [`BEGINNING`] bytes at most.
    pub(crate) beginning: Vec<u8>,
}

/// How many bytes of a line that is too long are kept: enough for the name of its command.
const BEGINNING: usize = 64;

impl TooLong {
    fn of(line: &[u8]) -> Self {
        Self { beginning: line[..line.len().min(BEGINNING)].to_vec() }
    }
}

impl InputBuffer {
    /// An empty buffer. `max_line` counts bytes without the newline.
    pub(crate) fn new(max_line: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, max_line, skipping: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.scanned = self.scanned.saturating_sub(self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete line without its end, or `None` until more bytes come.
    pub(crate) fn next_line(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        if self.skipping {
            let Some(end) = self.find_newline() else {
                self.clear();
                return None;
            };
            self.start = end + 1;
            self.skipping = false;
        }
        match self.find_newline() {
            Some(end) => {
                let line = &self.bytes[self.start..end];
                let result = if line.len() > self.max_line {
                    Err(TooLong::of(line))
                } else {
                    Ok(without_return(line).to_vec())
                };
                self.start = end + 1;
                Some(result)
            }
            None if self.pending() > self.max_line => {
                let too_long = TooLong::of(&self.bytes[self.start..]);
                self.clear();
                self.skipping = true;
                Some(Err(too_long))
            }
            None => None,
        }
    }

    /// The line that [`next_line`](Self::next_line) would return. The buffer does not change.
    pub(crate) fn peek_line(&mut self) -> Option<&[u8]> {
        if self.skipping {
            return None;
        }
        let end = self.find_newline()?;
        Some(without_return(&self.bytes[self.start..end]))
    }

    /// The next frame, or a line at its place; `None` until more bytes come. After an error there is no further
    /// element, because the beginning of the next frame is unknown.
    pub(crate) fn next_unit(&mut self) -> Option<Result<Unit, ProtocolError>> {
        let held = &self.bytes[self.start..];
        if held.starts_with(LINE) {
            let line = self.next_line()?;
            return Some(line.map(Unit::Line).map_err(|TooLong { .. }| ProtocolError::LineTooLong));
        }
        let (header, rest) = held.split_first_chunk::<HEADER>()?;
        let Some(length) = frame_length(header) else {
            return Some(Err(ProtocolError::BadFrame { header: excerpt(header) }));
        };
        let body = rest.get(..length)?.to_vec();
        self.start += HEADER + length;
        Some(Ok(Unit::Body(body)))
    }

    /// How many bytes are held.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
        self.scanned = 0;
    }

    fn find_newline(&mut self) -> Option<usize> {
        let from = self.scanned.max(self.start);
        match self.bytes[from..].iter().position(|&byte| byte == b'\n') {
            Some(offset) => {
                self.scanned = from + offset;
                Some(from + offset)
            }
            None => {
                self.scanned = self.bytes.len();
                None
            }
        }
    }
}

/// The length in a frame's header; spaces may precede or follow it.
fn frame_length(header: &[u8; HEADER]) -> Option<usize> {
    let digits = header.trim_ascii();
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (length <= MAX_FRAME).then_some(length)
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(buffer: &mut InputBuffer) -> Vec<Result<Vec<u8>, TooLong>> {
        std::iter::from_fn(|| buffer.next_line()).collect()
    }

    #[test]
    fn a_line_may_come_byte_by_byte_or_two_lines_at_once() {
        let mut buffer = InputBuffer::new(16);
        let mut lines = Vec::new();
        for byte in b"one\r\ntwo\n" {
            buffer.push(&[*byte]);
            lines.extend(drain(&mut buffer));
        }
        buffer.push(b"three\n\nfo");
        lines.extend(drain(&mut buffer));
        let expected: Vec<_> =
            [&b"one"[..], b"two", b"three", b""].iter().map(|line| Ok(line.to_vec())).collect();
        assert_eq!(lines, expected);
        assert_eq!(buffer.pending(), 2);
    }

    #[test]
    fn bytes_may_come_while_lines_still_wait() {
        let mut buffer = InputBuffer::new(16);
        buffer.push(b"one\ntwo\nth");
        assert_eq!(buffer.next_line(), Some(Ok(b"one".to_vec())));
        buffer.push(b"ree\n");
        assert_eq!(drain(&mut buffer), [Ok(b"two".to_vec()), Ok(b"three".to_vec())]);
    }

    #[test]
    fn an_overlong_line_is_reported_once_and_the_next_one_is_read() {
        for chunk in [1, 3, 7, 100] {
            let mut buffer = InputBuffer::new(4);
            let mut lines = Vec::new();
            for piece in b"123456789\nabcd\nefghi\n".chunks(chunk) {
                buffer.push(piece);
                lines.extend(drain(&mut buffer));
            }
            let [Err(first), Ok(short), Err(last)] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!(short, b"abcd");
            // At least one byte more than the maximum had come.
            assert!(first.beginning.starts_with(b"12345") && last.beginning.starts_with(b"efghi"));
        }
    }

    #[test]
    fn peeking_takes_nothing() {
        let mut buffer = InputBuffer::new(16);
        buffer.push(b"on");
        assert_eq!(buffer.peek_line(), None);
        buffer.push(b"e\r\ntwo");
        assert_eq!(buffer.peek_line(), Some(&b"one"[..]));
        assert_eq!(buffer.next_line(), Some(Ok(b"one".to_vec())));
        assert_eq!(buffer.next_line(), None);
    }

    fn units(buffer: &mut InputBuffer) -> Vec<Result<Unit, ProtocolError>> {
        std::iter::from_fn(|| buffer.next_unit()).take(9).collect()
    }

    #[test]
    fn frames_have_either_padding_and_lines_may_come_between_them() {
        let stream = b"cmd=init pmi_version=2\r\n     5cmd=a3     b\nccmd=init\n     0";
        let expected = [
            Unit::Line(b"cmd=init pmi_version=2".into()),
            Unit::Body(b"cmd=a".into()),
            Unit::Body(b"b\nc".into()),
            Unit::Line(b"cmd=init".into()),
            Unit::Body(Vec::new()),
        ];
        for chunk in [1, 2, 3, 7, 100] {
            let mut buffer = InputBuffer::new(100);
            let mut found = Vec::new();
            for piece in stream.chunks(chunk) {
                buffer.push(piece);
                found.extend(units(&mut buffer));
            }
            assert_eq!(found, expected.clone().map(Ok));
            assert_eq!(buffer.pending(), 0);
        }
    }

    #[test]
    fn after_a_bad_length_there_is_no_further_element() {
        for header in ["      ", "12 456", "+    5", "-1    ", "hello,", "\0\0\0\0\0\0", "65537 "] {
            let mut buffer = InputBuffer::new(100);
            buffer.push(header.as_bytes());
            let bad = Err(ProtocolError::BadFrame { header: excerpt(header.as_bytes()) });
            assert_eq!(buffer.next_unit(), Some(bad.clone()), "{header}");
            assert_eq!(buffer.next_unit(), Some(bad));
        }
        let mut buffer = InputBuffer::new(100);
        buffer.push(b" 65536");
        assert_eq!(buffer.next_unit(), None);
    }
}
