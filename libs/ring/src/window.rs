//! Acting once: the scatters of an origin that this daemon has received, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::message::Payload;

/// The distance behind the newest scatter of an origin within which an older one is still
/// delivered.
const WINDOW: u64 = 256;

/// The scatters of one origin that were acted on.
#[derive(Debug, Default)]
pub(crate) struct Window {
    newest: u64,
    seen: BTreeSet<u64>,
    /// Own answers that the origin may ask for again.
    pub(crate) answers: BTreeMap<u64, Payload>,
}

impl Window {
    /// Whether this is the first arrival.
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

    /// Whether the scatter was acted on and its answer may be asked for again.
    pub(crate) fn holds(&self, sequence: u64) -> bool {
        self.seen.contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scatter_is_acted_on_once_and_never_beyond_the_window() {
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
