//! A table of deadlines by key.
//!
//! There are no callbacks. The owner sleeps until [`Timers::next`] and then takes the expired keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// Deadlines by key. Setting a key again moves its deadline.
#[derive(Debug)]
pub struct Timers<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets or moves the deadline of `key`.
    pub fn set(&mut self, key: K, at: Time) {
        self.stop(key);
        self.by_key.insert(key, at);
        self.by_time.insert((at, key));
    }

    /// Sets the deadline of `key`, unless it has an earlier one.
    pub fn set_no_later(&mut self, key: K, at: Time) {
        if self.by_key.get(&key).is_none_or(|earlier| at < *earlier) {
            self.set(key, at);
        }
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn stop(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Whether `key` has a deadline.
    pub fn is_set(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes one key whose deadline is at or before `now`.
    pub fn pop_expired(&mut self, now: Time) -> Option<K> {
        let (at, key) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.by_time.remove(&(at, key));
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_set_no_later_moves_to_an_earlier_time_only() {
        let mut timers = Timers::default();
        let second = Duration::from_secs(1);
        for at in [2, 3, 1] {
            timers.set_no_later('a', Time::ZERO + second * at);
        }
        assert_eq!(timers.next(), Some(Time::ZERO + second));
    }

    #[test]
    fn a_deadline_set_again_moves_and_expires_once() {
        let mut timers = Timers::default();
        let second = Duration::from_secs(1);
        timers.set('a', Time::ZERO + second);
        timers.set('b', Time::ZERO + second * 2);
        timers.set('a', Time::ZERO + second * 3);
        assert_eq!(timers.next(), Some(Time::ZERO + second * 2));
        assert_eq!(timers.pop_expired(Time::ZERO + second), None);
        let late = Time::ZERO + second * 5;
        assert_eq!(timers.pop_expired(late), Some('b'));
        assert_eq!(timers.pop_expired(late), Some('a'));
        assert_eq!(timers.pop_expired(late), None);
        assert_eq!(timers.next(), None);
    }
}
