//! The addresses under which others see this host. A peer's claim is not enough for an address that no interface
//! here has. Such an address counts after a connection to it has reached this very process.

use std::collections::VecDeque;
use std::time::Duration;

use mpd_sansio::Time;

/// How long an address that does not lead here is not tried again.
const MEMORY: Duration = Duration::from_secs(60);

/// Most addresses that are tried within that time, since peers can name any number.
const MAX_TRIED: usize = 8;

/// Foreign addresses that were tried, with the time. `A` is the process's type of address.
#[derive(Debug)]
pub struct Foreign<A>(VecDeque<(Time, A)>);

impl<A> Default for Foreign<A> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<A: PartialEq> Foreign<A> {
    /// Whether to try this address now.
    pub fn is_due(&mut self, now: Time, address: A) -> bool {
        self.0.retain(|(at, _)| now.since(*at) < MEMORY);
        let is_due = self.0.len() < MAX_TRIED && !self.0.iter().any(|(_, ip)| *ip == address);
        if is_due {
            self.0.push_back((now, address));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_address_is_tried_once_a_minute_and_only_few_addresses_are_tried() {
        let mut foreign = Foreign::default();
        let ip = |last: u8| [192, 0, 2, last];
        assert!(foreign.is_due(Time::ZERO, ip(1)));
        assert!(!foreign.is_due(Time::ZERO, ip(1)));
        let tried = (2..100).filter(|last| foreign.is_due(Time::ZERO, ip(*last))).count();
        assert_eq!(tried, MAX_TRIED - 1);
        assert!(foreign.is_due(Time::ZERO + MEMORY, ip(1)));
    }
}
