//! Looking for the manager above: its daemon may not know the job yet or be about to come back, so all
//! addresses are tried again and again until a deadline.

use std::time::Duration;

use crate::stagger::Stagger;
use crate::time::Time;

/// Pause behind the first round through the addresses, and the longest one: each is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Rounds through addresses, which are whatever the owner connects to.
#[derive(Debug)]
pub struct Seek<A> {
    addresses: Vec<A>,
    round: Stagger<A>,
    pause: Duration,
    /// When the next round begins, once this one has come to nothing.
    again: Option<Time>,
    until: Time,
    problem: String,
}

impl<A: Clone> Seek<A> {
    /// Tries `addresses`, the best first, until that time.
    pub fn new(now: Time, addresses: Vec<A>, until: Time) -> Self {
        let round = Stagger::new(now, addresses.clone());
        let again = addresses.is_empty().then_some(until);
        let problem = "no address that can be connected to".to_owned();
        Self { addresses, round, pause: FIRST_PAUSE, again, until, problem }
    }

    /// The address to connect to now, if it is time for one.
    pub fn next_due(&mut self, now: Time) -> Option<A> {
        if self.again.is_some_and(|at| at <= now && at < self.until) {
            self.again = None;
            self.round = Stagger::new(now, self.addresses.clone());
        }
        self.round.next_due(now)
    }

    /// One of the connections came to nothing, and why.
    pub fn missed(&mut self, now: Time, problem: String) {
        self.problem = problem;
        self.round.missed();
        if self.round.is_over() {
            self.again = Some(now + self.pause);
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        }
    }

    /// What came of it at last, once the time is over.
    pub fn given_up(&self, now: Time) -> Option<&str> {
        (self.until <= now).then_some(&self.problem)
    }

    /// When to ask again.
    pub fn poll_timeout(&self) -> Time {
        let next = self.again.or_else(|| self.round.poll_timeout());
        next.map_or(self.until, |at| at.min(self.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    #[test]
    fn rounds_follow_each_other_at_growing_distance_until_the_deadline() {
        let mut seek = Seek::new(at(0), vec!["h1:1", "h1:2"], at(10_000));
        let (mut now, mut begins, mut tries) = (at(0), Vec::new(), 0);
        while seek.given_up(now).is_none() {
            while let Some(address) = seek.next_due(now) {
                tries += 1;
                if address == "h1:1" {
                    begins.push((now - at(0)).as_millis());
                }
                seek.missed(now, format!("{address}: refused"));
            }
            now = seek.poll_timeout();
        }
        assert_eq!(begins[..7], [0, 20, 60, 140, 300, 620, 1120]);
        assert_eq!(tries, 2 * begins.len());
        assert!((20..30).contains(&begins.len()));
        assert_eq!(now, at(10_000));
        assert_eq!(seek.given_up(now), Some("h1:2: refused"));
    }

    #[test]
    fn connections_that_hang_are_given_up_at_the_deadline() {
        let mut seek = Seek::new(at(0), vec!["h1:1"], at(10_000));
        assert!(seek.next_due(at(0)).is_some());
        assert_eq!(seek.next_due(at(9_999)), None);
        assert_eq!(seek.poll_timeout(), at(10_000));
        assert!(seek.given_up(at(9_999)).is_none() && seek.given_up(at(10_000)).is_some());
    }

    #[test]
    fn without_an_address_the_end_is_waited_for_without_a_turn() {
        let mut seek: Seek<&str> = Seek::new(at(0), Vec::new(), at(10_000));
        assert_eq!((seek.next_due(at(0)), seek.poll_timeout()), (None, at(10_000)));
    }
}
