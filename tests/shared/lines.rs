//! The lines of `t-lines`: every byte follows from seed, rank and stream. Each line begins with a letter or digit that
//! names its rank, so that a line without a label is recognisable.

use crate::random::Random;

/// The ranks that one character can name.
pub const MAX_RANKS: usize = NAMES.len();

/// The two streams of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// An endless sequence of lines without their newline, 1 to `max` bytes long.
#[derive(Debug)]
pub struct Lines {
    random: Random,
    rank: usize,
    max: usize,
}

impl Lines {
    /// The lines that this rank writes to this stream.
    #[must_use]
    pub fn new(seed: u64, rank: usize, stream: Stream, max: usize) -> Self {
        assert!(rank < MAX_RANKS, "rank {rank} has no name");
        let salt = 2 * rank + usize::from(stream == Stream::Err);
        let salt = u64::try_from(salt).expect("usize fits u64");
        Self { random: Random::new(seed ^ (salt << 48)), rank, max }
    }
}

impl Iterator for Lines {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let length = self.random.size(self.max);
        let mut line = Vec::with_capacity(length + 8);
        line.push(NAMES[self.rank]);
        while line.len() < length {
            let bits = self.random.bits().to_le_bytes();
            line.extend(bits.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]));
        }
        line.truncate(length);
        Some(line)
    }
}

/// Whether a stream consists exactly of the lines of all ranks, each rank's in order.
#[derive(Debug)]
pub struct Check {
    expected: Vec<std::iter::Take<Lines>>,
    labelled: bool,
    lines: u64,
}

impl Check {
    /// For `count` lines of each of `ranks` ranks; if `labelled`, rank, colon and space precede each line.
    pub fn new(ranks: usize, labelled: bool, lines: impl Fn(usize) -> Lines, count: usize) -> Self {
        let expected = (0..ranks).map(|rank| lines(rank).take(count)).collect();
        Self { expected, labelled, lines: 0 }
    }

    /// The next line of the stream, without its newline.
    ///
    /// # Panics
    /// If it is not the next line of its rank.
    pub fn add(&mut self, line: &[u8]) {
        let number = self.lines;
        self.lines += 1;
        let (label, line) = if self.labelled { split_label(line) } else { (None, line) };
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
        let rank = rank_of(line).filter(|rank| *rank < self.expected.len());
        let rank = rank.unwrap_or_else(|| panic!("line {number} has no rank: {shown}"));
        if self.labelled {
            assert_eq!(label, Some(rank), "line {number} bears another's label: {shown}");
        }
        let next = self.expected[rank].next();
        let whole = next.as_deref() == Some(line);
        assert!(whole, "line {number} is not the next of rank {rank}: {shown}");
    }

    /// The stream has ended; returns the number of its lines.
    ///
    /// # Panics
    /// If lines are missing.
    pub fn end(mut self) -> u64 {
        let missing = |lines: &mut std::iter::Take<Lines>| lines.next().is_some();
        let ranks: Vec<usize> =
            (0..self.expected.len()).filter(|rank| missing(&mut self.expected[*rank])).collect();
        assert!(ranks.is_empty(), "lines of these ranks are missing: {ranks:?}");
        self.lines
    }
}

fn split_label(line: &[u8]) -> (Option<usize>, &[u8]) {
    let at = line.windows(2).position(|two| two == b": ").expect("a label");
    (
        std::str::from_utf8(&line[..at]).ok().and_then(|text| text.trim().parse().ok()),
        &line[at + 2..],
    )
}

/// The rank at the beginning of a line.
#[must_use]
pub fn rank_of(line: &[u8]) -> Option<usize> {
    let name = line.first()?;
    NAMES.iter().position(|known| known == name)
}

const NAMES: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// The bytes include a tab, a carriage return and invalid UTF-8, but no newline.
const ALPHABET: &[u8] =
    b"abcdefghijklmnopqrstuvwxyz0123456789 :=[]{}%\\\"'\t\r\x1b\x7f\x80\xc3\xff";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_equal_on_both_sides_and_begin_with_their_rank() {
        let ours: Vec<_> = Lines::new(3, 5, Stream::Out, 1 << 20).take(40).collect();
        let theirs: Vec<_> = Lines::new(3, 5, Stream::Out, 1 << 20).take(40).collect();
        assert_eq!(ours, theirs);
        assert!(ours.iter().all(|line| rank_of(line) == Some(5)));
        assert!(ours.iter().all(|line| !line.contains(&b'\n')));
        assert!(ours.iter().any(|line| line.len() < 10));
        assert!(ours.iter().any(|line| line.len() > 100_000));
        let other: Vec<_> = Lines::new(3, 5, Stream::Err, 1 << 20).take(40).collect();
        assert_ne!(ours, other);
    }
}
