//! The search for the parent manager. Its daemon may not know the job yet, or may be restarting.
//! Therefore each address is tried repeatedly until a deadline, independently of the others. An
//! attempt that hangs gets further attempts beside it: on a link that loses packets, TCP may wait
//! for seconds before it sends again.

use std::time::Duration;

use mpd_sansio::{Stagger, Time};

/// The pause before the second attempt at an address. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// An attempt without a result for this time hangs, and the address is tried again beside it.
const HANGS: Duration = Duration::from_secs(1);
/// Attempts at one address at a time.
const MAX_ATTEMPTS: usize = 3;

/// Attempts at addresses. The type of an address is the owner's choice.
#[derive(Debug)]
pub struct Seek<A> {
    first_round: Stagger<A>,
    candidates: Vec<Candidate<A>>,
    until: Time,
    problem: String,
}

#[derive(Debug)]
struct Candidate<A> {
    address: A,
    /// The length of its last pause.
    pause: Option<Duration>,
    /// The time of the next attempt: after a pause, or beside an attempt that hangs.
    again: Option<Time>,
    /// The number of attempts in progress.
    attempts: usize,
}

impl<A: Clone + PartialEq> Seek<A> {
    /// Tries `addresses`, the best first, until the time `until`.
    pub fn new(now: Time, addresses: Vec<A>, until: Time) -> Self {
        let first_round = Stagger::new(now, addresses.iter().cloned());
        let candidate = |address| Candidate { address, pause: None, again: None, attempts: 0 };
        let candidates = addresses.into_iter().map(candidate).collect();
        let problem = "no address is known".to_owned();
        Self { first_round, candidates, until, problem }
    }

    /// The address to connect to now, if an attempt is due.
    pub fn next_due(&mut self, now: Time) -> Option<A> {
        let first = self.first_round.next_due(now);
        let candidate = self.candidates.iter_mut().find(|candidate| match &first {
            Some(address) => candidate.address == *address,
            None => candidate.again.is_some_and(|at| at <= now),
        })?;
        candidate.attempts += 1;
        candidate.again = (candidate.attempts < MAX_ATTEMPTS).then_some(now + HANGS);
        Some(candidate.address.clone())
    }

    /// The attempt at `address` failed, for the reason `problem`.
    pub fn missed(&mut self, now: Time, address: &A, problem: String) {
        self.problem = problem;
        let Some(candidate) =
            self.candidates.iter_mut().find(|candidate| candidate.address == *address)
        else {
            return;
        };
        if candidate.pause.is_none() {
            self.first_round.missed();
        }
        let pause = candidate.pause.map_or(FIRST_PAUSE, |last| (last * 2).min(LAST_PAUSE));
        candidate.pause = Some(pause);
        candidate.attempts = candidate.attempts.saturating_sub(1);
        candidate.again = Some(now + pause);
    }

    /// The last problem, once the deadline has passed.
    pub fn given_up(&self, now: Time) -> Option<&str> {
        (self.until <= now).then_some(&self.problem)
    }

    /// The time at which to ask again.
    pub fn poll_timeout(&self) -> Time {
        let again = self.candidates.iter().filter_map(|candidate| candidate.again);
        let next = again.chain(self.first_round.poll_timeout()).min();
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
    fn addresses_are_tried_at_growing_distance_until_the_deadline() {
        let mut seek = Seek::new(at(0), vec!["h1:1", "h1:2"], at(10_000));
        let (mut now, mut firsts, mut seconds) = (at(0), Vec::new(), 0);
        while seek.given_up(now).is_none() {
            while let Some(address) = seek.next_due(now) {
                match address {
                    "h1:1" => firsts.push((now - at(0)).as_millis()),
                    _ => seconds += 1,
                }
                seek.missed(now, &address, format!("{address}: refused"));
            }
            now = seek.poll_timeout();
        }
        assert_eq!(firsts[..7], [0, 20, 60, 140, 300, 620, 1120]);
        assert_eq!(seconds, firsts.len());
        assert!((20..30).contains(&seconds));
        assert_eq!(now, at(10_000));
        assert_eq!(seek.given_up(now), Some("h1:2: refused"));
    }

    #[test]
    fn an_address_that_does_not_answer_delays_no_other_for_long() {
        let mut seek = Seek::new(at(0), vec!["silent", "early"], at(10_000));
        assert_eq!(seek.next_due(at(0)), Some("silent"));
        assert_eq!(seek.poll_timeout(), at(200));
        assert_eq!(seek.next_due(at(200)), Some("early"));
        seek.missed(at(201), &"early", "the daemon there does not know the job".into());
        assert_eq!(seek.next_due(at(220)), None, "the silent one has time until 1 s");
        assert_eq!(seek.poll_timeout(), at(221));
        assert_eq!(seek.next_due(at(221)), Some("early"));
    }

    #[test]
    fn two_further_attempts_begin_beside_one_that_hangs() {
        let mut seek = Seek::new(at(0), vec!["h1:1"], at(10_000));
        for millis in [0, 1000, 2000] {
            assert_eq!(seek.poll_timeout(), at(millis));
            assert_eq!(seek.next_due(at(millis)), Some("h1:1"));
            assert_eq!(seek.next_due(at(millis + 999)), None);
        }
        assert_eq!(seek.poll_timeout(), at(10_000), "no fourth one");
        assert_eq!(seek.next_due(at(4999)), None);
        seek.missed(at(5000), &"h1:1", "the handshake took too long".into());
        assert_eq!(seek.next_due(at(5020)), Some("h1:1"));
        assert_eq!(seek.next_due(at(9999)), None);
    }

    #[test]
    fn connections_that_hang_are_given_up_at_the_deadline() {
        let mut seek = Seek::new(at(0), vec!["h1:1"], at(10_000));
        for millis in [0, 1000, 2000] {
            assert!(seek.next_due(at(millis)).is_some());
        }
        assert_eq!(seek.next_due(at(9_999)), None);
        assert_eq!(seek.poll_timeout(), at(10_000));
        assert!(seek.given_up(at(9_999)).is_none() && seek.given_up(at(10_000)).is_some());
    }

    #[test]
    fn without_an_address_the_search_waits_for_its_deadline() {
        let mut seek: Seek<&str> = Seek::new(at(0), Vec::new(), at(10_000));
        assert_eq!((seek.next_due(at(0)), seek.poll_timeout()), (None, at(10_000)));
    }
}
