//! Byte streams that one side generates and the other side verifies.

use crate::random::Random;

/// Size of the blocks that [`block`] makes.
pub const BLOCK: usize = 64 * 1024;

/// Length and FNV-1a sum of a stream, independent of its division into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How many bytes were added.
    pub count: u64,
    /// Their FNV-1a sum.
    pub sum: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { count: 0, sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.count += u64::try_from(bytes.len()).expect("usize fits u64");
        for byte in bytes {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, sum {:016x}", self.count, self.sum)
    }
}

/// The block at `index` of an endless stream of binary bytes; no two blocks are equal.
#[must_use]
pub fn block(index: u64) -> Vec<u8> {
    let mut random = Random::new(index);
    let mut bytes = Vec::with_capacity(BLOCK);
    while bytes.len() < BLOCK {
        bytes.extend_from_slice(&random.bits().to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_does_not_depend_on_the_division_into_pieces() {
        let bytes = block(7);
        let mut whole = Digest::default();
        whole.add(&bytes);
        let mut cut = Digest::default();
        for piece in bytes.chunks(977) {
            cut.add(piece);
        }
        assert_eq!(whole, cut);
        assert_ne!(block(7), block(8));
    }
}
