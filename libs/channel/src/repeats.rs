//! The first messages that a daemon has answered, in bounded memory: a replayed message is refused.

use std::collections::{BTreeSet, VecDeque};

use super::hello::Mark;

/// The number of first messages that are remembered, all from holders of the key. The oldest is
/// forgotten first.
pub const MAX_HELLOS: usize = 16 * 1024;

/// The first messages that a daemon has answered since its start.
#[derive(Debug, Default)]
pub struct Repeats {
    seen: BTreeSet<Mark>,
    order: VecDeque<Mark>,
}

impl Repeats {
    /// Whether this first message is new; remembers it.
    pub fn is_new(&mut self, mark: Mark) -> bool {
        if !self.seen.insert(mark) {
            return false;
        }
        self.order.push_back(mark);
        if self.order.len() > MAX_HELLOS
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: usize) -> Mark {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Mark::of(&bytes)
    }

    #[test]
    fn a_first_message_is_new_once_and_the_memory_is_bounded() {
        let mut repeats = Repeats::default();
        assert!((0..MAX_HELLOS).all(|number| repeats.is_new(mark(number))));
        assert!((0..MAX_HELLOS).all(|number| !repeats.is_new(mark(number))));
        assert!(repeats.is_new(mark(MAX_HELLOS)), "one more than fit");
        assert!(!repeats.is_new(mark(1)) && repeats.is_new(mark(0)), "the oldest is forgotten");
        assert_eq!((repeats.seen.len(), repeats.order.len()), (MAX_HELLOS, MAX_HELLOS));
    }
}
