//! Texts of clients for the user, and their events for other hosts, that wait until there is room on the way.

use std::collections::VecDeque;

use mpd_wire::Rank;
use pmix_proto::Event;
use pmix_proto::message::write_relayed;

use super::waiter::Waiter;

/// Estimated bytes of a text or an event besides its own.
const COST: usize = 128;

/// Most texts of clients that are gone.
const MAX_LEFT: usize = 64;

/// How many bytes may be sent in this turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// To the user.
    pub texts: usize,
    /// To other hosts.
    pub events: usize,
}

/// A text, and the request of a client that still waits for the answer.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) waiter: Option<Waiter>,
    pub(super) rank: Rank,
    pub(super) text: Vec<u8>,
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Logs {
    pub(super) room: Room,
    pub(super) texts: VecDeque<Text>,
    pub(super) events: VecDeque<(Waiter, Rank, Event)>,
}

impl Logs {
    /// Forgets the requests that match. Some of their texts stay: they may say why a client has ended.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        self.events.retain(|(waiter, ..)| !matches(waiter));
        let mut left = 0;
        self.texts.retain_mut(|text| {
            text.waiter.take_if(|waiter| matches(waiter));
            left += usize::from(text.waiter.is_none());
            text.waiter.is_some() || left <= MAX_LEFT
        });
    }

    pub(super) fn next_text(&mut self) -> Option<Text> {
        let bytes = self.texts.front()?.text.len() + COST;
        self.room.texts = self.room.texts.checked_sub(bytes)?;
        self.texts.pop_front()
    }

    pub(super) fn next_event(&mut self) -> Option<(Waiter, Rank, Event)> {
        let bytes = write_relayed(&self.events.front()?.2).len() + COST;
        self.room.events = self.room.events.checked_sub(bytes)?;
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use pmi_proto::Ticket;
    use pmix_proto::view::Proc;
    use pmix_proto::{Range, Status};

    use super::*;

    fn text(connection: usize, text: &str) -> Text {
        Text { waiter: Some((connection, Ticket::FIRST)), rank: Rank(0), text: text.into() }
    }

    #[test]
    fn a_text_without_room_waits_and_no_later_one_passes_it() {
        let room = Room { texts: COST + 3, events: 0 };
        let mut logs = Logs { room, ..Logs::default() };
        logs.texts.extend([text(1, "abcd"), text(1, "x")]);
        assert!(logs.next_text().is_none());
        logs.room.texts = 2 * COST + 4;
        assert_eq!(logs.next_text().unwrap().text, b"abcd");
        assert!(logs.next_text().is_none());
        logs.room.texts = COST + 1;
        assert_eq!(logs.next_text().unwrap().text, b"x");
    }

    #[test]
    fn an_event_waits_for_room_to_other_hosts_alone() {
        let source = Proc::new("job", 0);
        let (status, range) = (Status::ERROR, Range::Global);
        let event = Event { status, source, range, targets: vec![], info: vec![] };
        let mut logs = Logs { room: Room { texts: 1 << 20, events: COST }, ..Logs::default() };
        logs.events.push_back(((1, Ticket::FIRST), Rank(0), event));
        assert!(logs.next_event().is_none());
        logs.room = Room { texts: 0, events: 1 << 20 };
        assert!(logs.next_event().is_some());
    }

    #[test]
    fn some_texts_of_a_client_that_is_gone_stay_and_those_of_others_keep_their_waiters() {
        let mut logs = Logs::default();
        logs.texts.extend((0..2 * MAX_LEFT).map(|_| text(1, "gone")));
        logs.texts.push_back(text(2, "there"));
        logs.withdraw(|waiter| waiter.0 == 1);
        assert_eq!(logs.texts.len(), MAX_LEFT + 1);
        assert_eq!(logs.texts.iter().filter(|text| text.waiter.is_some()).count(), 1);
    }
}
