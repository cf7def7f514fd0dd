//! Connecting to a peer that has several addresses: tries one after the other, each with a head start.

use std::time::Duration;

use crate::Time;

/// The head start of each address before the next one is tried.
const STAGGER: Duration = Duration::from_millis(200);
/// All addresses are tried within this time: if there are many, the head start is shorter.
const ALL_TRIED: Duration = Duration::from_millis(600);

/// One round of connection attempts to the addresses of a peer. `A` is the owner's type of address.
#[derive(Debug)]
pub struct Stagger<A> {
    /// The addresses not tried yet, the next one last.
    left: Vec<A>,
    gap: Duration,
    next_at: Time,
    under_way: usize,
}

impl<A> Stagger<A> {
    /// A round of attempts at `addresses`, the best first.
    pub fn new(now: Time, addresses: impl IntoIterator<Item = A>) -> Self {
        let mut left: Vec<A> = addresses.into_iter().collect();
        left.reverse();
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX).max(1);
        Self { left, gap: STAGGER.min(ALL_TRIED / count), next_at: now, under_way: 0 }
    }

    /// The address to connect to now, if an attempt is due.
    pub fn next_due(&mut self, now: Time) -> Option<A> {
        if self.next_at > now && self.under_way > 0 {
            return None;
        }
        let address = self.left.pop()?;
        self.next_at = now + self.gap;
        self.under_way += 1;
        Some(address)
    }

    /// One of the attempts has failed.
    pub const fn missed(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether every address was tried and every attempt has failed.
    pub const fn is_over(&self) -> bool {
        self.left.is_empty() && self.under_way == 0
    }

    /// When the next address is due, unless an attempt fails earlier; `None` if none is left.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.left.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_is_tried_after_a_head_start_or_a_failure() {
        let start = Time::ZERO;
        let mut stagger = Stagger::new(start, ["a", "b", "c"]);
        assert_eq!(stagger.next_due(start), Some("a"));
        assert_eq!(stagger.next_due(start), None);
        assert_eq!(stagger.poll_timeout(), Some(start + STAGGER));
        stagger.missed();
        assert_eq!(stagger.next_due(start), Some("b"));
        assert_eq!(stagger.next_due(start), None);
        assert_eq!(stagger.next_due(start + STAGGER), Some("c"));
        assert_eq!(stagger.poll_timeout(), None);
        stagger.missed();
        assert!(!stagger.is_over(), "one may still answer");
        stagger.missed();
        assert!(stagger.is_over());
    }

    #[test]
    fn many_addresses_are_all_tried_in_time() {
        let mut stagger = Stagger::new(Time::ZERO, 0..16);
        let mut now = Time::ZERO;
        while stagger.next_due(now).is_some() {
            now = stagger.poll_timeout().unwrap_or(now);
        }
        assert!(now - Time::ZERO <= ALL_TRIED);
    }

    #[test]
    fn a_round_without_addresses_is_over_at_once() {
        assert!(Stagger::<u8>::new(Time::ZERO, []).is_over());
    }
}
