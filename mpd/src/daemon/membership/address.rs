//! Under which addresses others see this host. The word of a peer alone makes no address: one that no
//! interface here has counts after a connection to it has come back to this very process.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use mpd_machine::Time;

/// How long an address that does not lead here is not tried again.
const MEMORY: Duration = Duration::from_secs(60);

/// Addresses tried within that time at most: peers can name as many as they like.
const MAX_TRIED: usize = 8;

/// Foreign addresses that were tried, and when.
#[derive(Debug, Default)]
pub(super) struct Foreign(VecDeque<(Time, IpAddr)>);

impl Foreign {
    /// Whether to try this one now.
    pub(super) fn is_due(&mut self, now: Time, address: IpAddr) -> bool {
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
    fn a_foreign_address_is_tried_once_a_minute_and_few_are() {
        let mut foreign = Foreign::default();
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert!(foreign.is_due(Time::ZERO, ip(1)));
        assert!(!foreign.is_due(Time::ZERO, ip(1)));
        let tried = (2..100).filter(|last| foreign.is_due(Time::ZERO, ip(*last))).count();
        assert_eq!(tried, MAX_TRIED - 1);
        assert!(foreign.is_due(Time::ZERO + MEMORY, ip(1)));
    }
}
