//! Divides bytes into lines, with a bound.

/// Cuts a stream at its newlines. A line that is too long loses the bytes before its tail.
#[derive(Debug)]
pub(super) struct Lines {
    partial: Vec<u8>,
    is_cut: bool,
    max: usize,
    /// Bytes at the end of a line that is too long that are kept, as part of `max`.
    tail: usize,
}

/// A line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    /// Bytes inside the line or at its end are missing.
    pub(super) is_cut: bool,
}

impl Lines {
    pub(super) const fn new(max: usize, tail: usize) -> Self {
        Self { partial: Vec::new(), is_cut: false, max, tail }
    }

    /// The lines that are now complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', text)) => {
                    self.extend(text);
                    let is_cut = std::mem::take(&mut self.is_cut);
                    lines.push(Line { text: std::mem::take(&mut self.partial), is_cut });
                }
                _ => self.extend(piece),
            }
        }
        lines
    }

    fn extend(&mut self, text: &[u8]) {
        self.partial.extend(text);
        let Some(surplus) = self.partial.len().checked_sub(self.max).filter(|n| *n > 0) else {
            return;
        };
        self.is_cut = true;
        let head = self.max - self.tail;
        self.partial.drain(head..head + surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_keeps_its_beginning_and_its_end_however_it_is_cut() {
        let whole = b"0123456789abcdefghij\n0123456789\nxyz\n";
        let expected = [(&b"0123456hij"[..], true), (b"0123456789", false), (b"xyz", false)];
        for size in 1..whole.len() {
            let mut lines = Lines::new(10, 3);
            let cut: Vec<Line> = whole.chunks(size).flat_map(|piece| lines.push(piece)).collect();
            let cut: Vec<_> = cut.iter().map(|line| (&line.text[..], line.is_cut)).collect();
            assert_eq!(cut, expected, "in pieces of {size}");
        }
        let mut lines = Lines::new(4, 0);
        assert_eq!(lines.push(b"abcdef\n"), [Line { text: b"abcd".to_vec(), is_cut: true }]);
    }
}
