//! One end of a link to the root manager of another job: two streams of bytes, one frame of each under way.

use mpd_sansio::Time;
use mpd_wire::message::Payload;

use super::frame::{Frame, MAX_BYTES, MAX_MESSAGE, Malformed, Message};

/// Most bytes that wait to be sent.
const MAX_WAITING: usize = 2 * MAX_MESSAGE;

#[derive(Debug)]
pub(super) struct Link {
    /// Bytes from `sent_from` on that are not acknowledged.
    outgoing: Vec<u8>,
    sent_from: u64,
    /// How many of them are under way.
    under_way: usize,
    /// How many bytes of the other stream have arrived.
    received: u64,
    incoming: Vec<u8>,
    /// Whether the peer does not know yet what has arrived.
    owes: bool,
    /// When the frame under way was sent.
    sent_at: Time,
}

impl Link {
    pub(super) const fn new(now: Time) -> Self {
        Self {
            outgoing: Vec::new(),
            sent_from: 0,
            under_way: 0,
            received: 0,
            incoming: Vec::new(),
            owes: false,
            sent_at: now,
        }
    }

    /// Queues a message. Returns whether there was room.
    #[must_use]
    pub(super) fn push(&mut self, message: &Message) -> bool {
        let bytes = message.write();
        let has_room =
            bytes.len() <= MAX_MESSAGE && self.outgoing.len() + bytes.len() <= MAX_WAITING;
        if has_room {
            self.outgoing.extend_from_slice(&bytes);
        }
        has_room
    }

    /// Takes a frame of the peer, and the messages that are complete now. `None`: the streams do not match.
    pub(super) fn take(&mut self, frame: &Frame<'_>) -> Option<Result<Vec<Message>, Malformed>> {
        // Frames may overtake each other, so an old number is no error.
        let acknowledged = frame.received.saturating_sub(self.sent_from);
        if acknowledged > self.under_way as u64 || frame.position > self.received {
            return None;
        }
        let acknowledged = usize::try_from(acknowledged).unwrap_or_default();
        if acknowledged > 0 {
            self.outgoing.drain(..acknowledged);
            self.sent_from = frame.received;
            self.under_way = 0;
        }
        if !frame.bytes.is_empty() {
            self.owes = true;
        }
        // A frame that was sent again is acknowledged again.
        if frame.position == self.received {
            self.received += frame.bytes.len() as u64;
            self.incoming.extend_from_slice(frame.bytes);
        }
        let mut messages = Vec::new();
        loop {
            match Message::take(&mut self.incoming) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => return Some(Ok(messages)),
                Err(malformed) => return Some(Err(malformed)),
            }
        }
    }

    /// The next frame, if there is something to say.
    pub(super) fn next_frame(&mut self, now: Time) -> Option<Payload> {
        let has_data = self.under_way == 0 && !self.outgoing.is_empty();
        if !has_data && !std::mem::take(&mut self.owes) {
            return None;
        }
        self.owes = false;
        if has_data {
            self.under_way = self.outgoing.len().min(MAX_BYTES);
            self.sent_at = now;
            return Some(self.frame(self.under_way));
        }
        Some(self.frame(0))
    }

    /// The frame under way again, or a frame without data.
    pub(super) fn again(&mut self, now: Time) -> Payload {
        self.sent_at = now;
        self.frame(self.under_way)
    }

    fn frame(&self, length: usize) -> Payload {
        let (position, received) = (self.sent_from, self.received);
        // A frame without data tells nothing about the position.
        let position = if length == 0 { 0 } else { position };
        Frame { flags: 0, position, received, bytes: &self.outgoing[..length] }.write()
    }

    /// Whether a frame is under way that is not acknowledged, and since when.
    pub(super) fn unacknowledged(&self) -> Option<Time> {
        (self.under_way > 0).then_some(self.sent_at)
    }
}

#[cfg(test)]
impl Link {
    /// How many bytes of the other stream have arrived.
    pub(super) const fn position(&self) -> u64 {
        self.received
    }
}
