//! Several addresses of one peer: tried one after the other, each with a head start before the next.

use std::time::Duration;

use crate::Time;

/// The next address is tried that long after one that has not answered yet, sooner if there are many:
/// all are to have had their chance in time.
const STAGGER: Duration = Duration::from_millis(200);
const ALL_TRIED: Duration = Duration::from_millis(600);

/// One round of trying addresses, which are whatever the owner connects to.
#[derive(Debug)]
pub struct Stagger<A> {
    /// Not tried yet, the next one last.
    left: Vec<A>,
    gap: Duration,
    next_at: Time,
    under_way: usize,
}

impl<A> Stagger<A> {
    /// A round through `addresses`, the best first.
    pub fn new(now: Time, addresses: impl IntoIterator<Item = A>) -> Self {
        let mut left: Vec<A> = addresses.into_iter().collect();
        left.reverse();
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX).max(1);
        Self { left, gap: STAGGER.min(ALL_TRIED / count), next_at: now, under_way: 0 }
    }

    /// The address to connect to now, if it is time for one.
    pub fn next_due(&mut self, now: Time) -> Option<A> {
        if self.next_at > now && self.under_way > 0 {
            return None;
        }
        let address = self.left.pop()?;
        self.next_at = now + self.gap;
        self.under_way += 1;
        Some(address)
    }

    /// One of the connections came to nothing.
    pub const fn missed(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether all were tried and came to nothing.
    pub const fn is_over(&self) -> bool {
        self.left.is_empty() && self.under_way == 0
    }

    /// When [`Stagger::next_due`] has another one.
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
    fn many_addresses_have_all_had_their_chance_in_time() {
        let mut stagger = Stagger::new(Time::ZERO, 0..16);
        let mut now = Time::ZERO;
        while stagger.next_due(now).is_some() {
            now = stagger.poll_timeout().unwrap_or(now);
        }
        assert!(now - Time::ZERO <= ALL_TRIED);
    }

    #[test]
    fn without_addresses_it_is_over_at_once() {
        assert!(Stagger::<u8>::new(Time::ZERO, []).is_over());
    }
}
