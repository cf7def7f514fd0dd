//! Acting once: which scatters of an origin this daemon has seen, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::message::Payload;

/// How far behind its newest a scatter of one origin may come and still be acted on.
const WINDOW: u64 = 256;

/// Which scatters of one origin were acted on.
#[derive(Debug, Default)]
pub(crate) struct Window {
    newest: u64,
    seen: BTreeSet<u64>,
    /// Own answers that may be asked for again.
    pub(crate) answers: BTreeMap<u64, Payload>,
}

impl Window {
    /// Whether this is the first time.
    pub(crate) fn enter(&mut self, sequence: u64) -> bool {
        if self.newest.saturating_sub(sequence) >= WINDOW || !self.seen.insert(sequence) {
            return false;
        }
        self.newest = self.newest.max(sequence);
        let oldest = self.newest.saturating_sub(WINDOW - 1);
        self.seen = self.seen.split_off(&oldest);
        self.answers = self.answers.split_off(&oldest);
        true
    }

    /// Whether it was acted on and may be asked for again.
    pub(crate) fn holds(&self, sequence: u64) -> bool {
        self.seen.contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scatter_is_acted_on_once_and_never_when_it_comes_far_too_late() {
        let mut window = Window::default();
        assert!(window.enter(1));
        assert!(!window.enter(1));
        assert!(window.enter(WINDOW + 5));
        assert!(!window.enter(5));
        assert!(window.enter(6));
        assert!(!window.enter(6));
        assert!(window.seen.len() <= usize::try_from(WINDOW).unwrap());
        assert!(window.enter(u64::MAX), "whoever lies about its number harms itself");
        assert!(!window.enter(u64::MAX) && !window.enter(7));
    }
}
