//! Refused requests for names, on their way to the job that published them. Of each name, the first is passed on at once, and
//! the others of a second as one count.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::names::Refusal;

/// The time between two messages about one name.
const PAUSE: Duration = Duration::from_secs(1);

/// Most names with messages in one second. Refusals of further names are only in the log of the daemon.
const MOST: usize = 1024;

/// The names whose requests were refused in the last second.
#[derive(Debug, Default)]
pub struct RefusedNames(BTreeMap<String, Refused>);

#[derive(Debug)]
struct Refused {
    /// When the next message is due.
    next: Time,
    /// The refusals that it will count.
    untold: Option<Refusal>,
}

impl RefusedNames {
    /// Notes a refusal. [`RefusedNames::due`] returns it.
    pub fn note(&mut self, now: Time, refusal: Refusal) {
        if self.0.len() >= MOST && !self.0.contains_key(&refusal.name) {
            return;
        }
        let refused = self.0.entry(refusal.name.clone());
        let refused = refused.or_insert(Refused { next: now, untold: None });
        let before = refused.untold.as_ref().map_or(0, |untold| untold.count);
        let count = before.saturating_add(refusal.count);
        refused.untold = Some(Refusal { count, ..refusal });
    }

    /// When [`RefusedNames::due`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.0.values().map(|refused| refused.next).min()
    }

    /// The messages that are due, in the order of the names.
    pub fn due(&mut self, now: Time) -> Vec<Refusal> {
        let mut due = Vec::new();
        self.0.retain(|_, refused| {
            if refused.next > now {
                return true;
            }
            refused.next = now + PAUSE;
            let untold = refused.untold.take();
            let is_busy = untold.is_some();
            due.extend(untold);
            is_busy
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::names::KeyFault;

    use super::*;

    fn refusal(name: &str) -> Refusal {
        let by = "4@h1".parse().unwrap();
        Refusal { name: name.to_owned(), by, fault: KeyFault::Wrong, count: 1 }
    }

    #[test]
    fn a_flood_of_refusals_is_one_message_at_once_and_then_one_count_each_second() {
        let mut names = RefusedNames::default();
        let begin = Time::ZERO + PAUSE;
        let at = |ms| begin + Duration::from_millis(ms);
        let mut told = Vec::new();
        for ms in 0..2_500 {
            (0..40).for_each(|_| names.note(at(ms), refusal("ocean")));
            told.extend(names.due(at(ms)).into_iter().map(|it| (ms, it.count)));
        }
        assert_eq!(told, [(0, 40), (1_000, 40_000), (2_000, 40_000)]);
        let end = names.next_deadline().unwrap();
        assert_eq!(names.due(end), [Refusal { count: 19_960, ..refusal("ocean") }]);
        assert_eq!(names.due(end + PAUSE), []);
        assert_eq!(names.next_deadline(), None, "nothing is kept");
    }

    #[test]
    fn refusals_of_many_names_have_a_bound() {
        let mut names = RefusedNames::default();
        (0..2 * MOST).for_each(|n| names.note(Time::ZERO, refusal(&format!("name {n}"))));
        assert_eq!(names.due(Time::ZERO).len(), MOST);
    }
}
