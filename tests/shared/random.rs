//! SplitMix64: the same numbers for the same seed on both sides of a pipe.

/// A generator. Equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins the sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit - 1`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("usize fits u64");
        usize::try_from(self.bits() % limit).expect("below a usize")
    }

    /// True once in `many` calls on average.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// A number from 1 to `max`; every power of two is equally likely.
    pub fn size(&mut self, max: usize) -> usize {
        let magnitude = self.below(max.ilog2() as usize + 2);
        1 + self.below((1 << magnitude).min(max))
    }
}
