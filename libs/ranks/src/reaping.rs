//! When to look for dead children, and for which.
//!
//! The kernel examines all children in turn when it is asked for any dead one. With thousands of ranks that takes longer
//! than the rest of the work for a death. So a rank whose descriptors have ended is looked at by its number first. The
//! question about all finds the others: orphans, and ranks whose descriptors other processes hold. With many children
//! it is asked no more than once in [`INTERVAL`].

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::Rank;

/// With up to so many children the kernel is asked about all at each report of a death.
const FEW: usize = 256;

/// The time between two questions about many children.
const INTERVAL: Duration = Duration::from_millis(1);

/// How often a rank is looked at by its number, after each end of a descriptor. It may have closed the descriptor and
/// live on.
const LOOKS: u8 = 2;

/// The dying ranks, and the time of the questions about all children.
#[derive(Debug, Default)]
pub(crate) struct Reaping {
    dying: Vec<(Rank, u8)>,
    /// When all children were asked for last.
    asked: Option<Time>,
    /// The next question was put off until then.
    due: Option<Time>,
}

impl Reaping {
    /// Notes that a descriptor of a rank has ended.
    pub(crate) fn note_end(&mut self, rank: Rank) {
        match self.dying.last_mut().filter(|(last, _)| *last == rank) {
            Some((_, looks)) => *looks = LOOKS,
            None => self.dying.push((rank, LOOKS)),
        }
    }

    /// Ranks that are to be looked at by their numbers, after the report of a death.
    pub(crate) fn take_dying(&mut self) -> Vec<Rank> {
        let dying = self.dying.iter().map(|(rank, _)| *rank).collect();
        self.dying.retain_mut(|(_, looks)| {
            *looks -= 1;
            *looks > 0
        });
        dying
    }

    /// Whether to ask about all of so many children now. Otherwise the question is due later.
    pub(crate) fn asks(&mut self, now: Time, children: usize) -> bool {
        let earliest = self.asked.filter(|_| children > FEW).map(|asked| asked + INTERVAL);
        self.due = earliest.filter(|earliest| now < *earliest);
        if self.due.is_none() {
            self.asked = Some(now);
        }
        self.due.is_none()
    }

    /// When a question that was put off is due.
    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn few_children_are_asked_for_at_once_and_many_once_in_an_interval() {
        let mut reaping = Reaping::default();
        assert!(reaping.asks(at(0), FEW) && reaping.asks(at(1), FEW));
        assert!(!reaping.asks(at(2), FEW + 1));
        assert_eq!(reaping.due(), Some(at(1001)));
        assert!(!reaping.asks(at(1000), FEW + 1) && reaping.asks(at(1001), FEW + 1));
        assert_eq!(reaping.due(), None);
        assert!(!reaping.asks(at(1002), FEW + 1), "a further death");
        assert!(reaping.asks(at(1003), FEW), "few are left");
        assert_eq!(reaping.due(), None);
    }

    #[test]
    fn a_rank_is_looked_at_twice_after_the_end_of_a_descriptor() {
        let mut reaping = Reaping::default();
        [3, 3, 5].into_iter().for_each(|rank| reaping.note_end(Rank(rank)));
        assert_eq!(reaping.take_dying(), [Rank(3), Rank(5)]);
        assert_eq!(reaping.take_dying(), [Rank(3), Rank(5)]);
        assert_eq!(reaping.take_dying(), []);
    }
}
