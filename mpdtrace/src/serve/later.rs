//! Requests of hard calls that are not in the ring's queue yet. Each request in the queue is a connection to the daemon, so a
//! program has a limited number there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpd_requests::{RequestId, Wanted};

use crate::connection::AGAIN;
use crate::slots::RECONNECT;

/// Most requests of a program that wait in the queue at a time.
const MAX_WAITING: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Later {
    all: VecDeque<(RequestId, Wanted)>,
    /// Since when no request can be made, and the time of the next attempt.
    failing: Option<(Instant, Instant)>,
}

impl Later {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a further request may wait in the queue, where so many do.
    pub(super) const fn has_room(waiting: usize) -> bool {
        waiting < MAX_WAITING
    }

    pub(super) fn extend(&mut self, requests: VecDeque<(RequestId, Wanted)>) {
        self.all.extend(requests);
    }

    /// Takes out a request that is cancelled. Returns whether it was here.
    pub(super) fn remove(&mut self, id: RequestId) -> bool {
        let before = self.all.len();
        self.all.retain(|(known, _)| *known != id);
        self.all.len() < before
    }

    /// The next request for the queue, where so many wait.
    pub(super) fn next(&mut self, waiting: usize) -> Option<(RequestId, Wanted)> {
        let may = self.failing.is_none_or(|(_, next)| next <= Instant::now());
        if may && Self::has_room(waiting) { self.all.pop_front() } else { None }
    }

    pub(super) const fn succeeded(&mut self) {
        self.failing = None;
    }

    /// The request could not be made. It is tried again. Returns the requests that are given up: all, if no daemon has come in time
    /// and the program holds nothing.
    pub(super) fn failed(
        &mut self,
        first: RequestId,
        wanted: Wanted,
        holds_nothing: bool,
    ) -> Vec<RequestId> {
        self.all.push_front((first, wanted));
        let now = Instant::now();
        let since = self.failing.map_or(now, |(since, _)| since);
        self.failing = Some((since, now + AGAIN));
        match holds_nothing && now - since >= RECONNECT {
            true => self.all.drain(..).map(|(id, _)| id).collect(),
            false => Vec::new(),
        }
    }

    /// How long to wait at most for the next attempt, while so many wait in the queue.
    pub(super) fn patience(&self, waiting: usize) -> Option<Duration> {
        if self.is_empty() || !Self::has_room(waiting) {
            return None;
        }
        let (_, next) = self.failing?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_number_of_requests_waits_in_the_queue_in_the_order_of_the_calls() {
        let mut later = Later::default();
        later.extend((1..=3).map(|id| (RequestId(id), Wanted::default())).collect());
        assert!(later.next(MAX_WAITING).is_none());
        assert!(later.remove(RequestId(2)) && !later.remove(RequestId(2)));
        let (id, wanted) = later.next(0).unwrap();
        assert_eq!((id, later.patience(0)), (RequestId(1), None));
        // The daemon is not there now.
        assert_eq!(later.failed(id, wanted, true), []);
        assert!(later.next(0).is_none() && later.patience(0).is_some());
        later.succeeded();
        assert_eq!(later.next(0).map(|(id, _)| id), Some(RequestId(1)));
        assert_eq!(later.next(0).map(|(id, _)| id), Some(RequestId(3)));
        assert!(later.is_empty());
    }
}
