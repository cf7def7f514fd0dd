//! The lines of `t-lines`: known to the byte from seed, rank and stream. Each begins with a letter
//! or digit that names its rank, so that a line can be told even where no label is printed.

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

/// The rank that a line begins with.
#[must_use]
pub fn rank_of(line: &[u8]) -> Option<usize> {
    let name = line.first()?;
    NAMES.iter().position(|known| known == name)
}

const NAMES: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// A tab, a carriage return and bytes that are no UTF-8 are among them; a newline is not.
const ALPHABET: &[u8] =
    b"abcdefghijklmnopqrstuvwxyz0123456789 :=[]{}%\\\"'\t\r\x1b\x7f\x80\xc3\xff";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_on_both_sides_and_bear_their_rank() {
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
