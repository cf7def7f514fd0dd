//! Standard input, dealt to its receivers: bounded, every receiver gets every byte, the slowest sets
//! the pace, one that closes or exits drops out.

use std::collections::{BTreeMap, VecDeque};

use crate::id::Rank;

/// Bytes that may be under way between the console's descriptor and the slowest receiver.
pub const WINDOW: usize = 256 * 1024;

/// The input of one job on one host.
#[derive(Debug, Default)]
pub struct Feed {
    buffer: VecDeque<u8>,
    /// Stream position of the buffer's first byte.
    base: u64,
    ended: bool,
    /// Per receiver, the position of the next byte it needs.
    receivers: BTreeMap<Rank, u64>,
    /// Bytes freed and not yet given back as credit.
    freed: usize,
}

impl Feed {
    /// A feed for `receivers`.
    pub fn new(receivers: impl IntoIterator<Item = Rank>) -> Self {
        let receivers = receivers.into_iter().map(|r| (r, 0)).collect();
        Self { receivers, freed: WINDOW, ..Self::default() }
    }

    /// Takes bytes from the console.
    ///
    /// # Errors
    /// When the console sent more than its credit; the bytes are not taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooMuchInput> {
        if self.receivers.is_empty() {
            return Ok(());
        }
        if self.buffer.len() + self.freed + bytes.len() > WINDOW {
            return Err(TooMuchInput);
        }
        self.buffer.extend(bytes);
        Ok(())
    }

    /// No more bytes will come.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// What `rank` should be written next; empty when there is nothing now.
    pub fn pending(&self, rank: Rank) -> &[u8] {
        let Some(&at) = self.receivers.get(&rank) else { return &[] };
        let skip = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        let (front, back) = self.buffer.as_slices();
        if skip < front.len() {
            &front[skip..]
        } else {
            back.get(skip - front.len()..).unwrap_or(&[])
        }
    }

    /// `rank` took `bytes` bytes.
    pub fn advance(&mut self, rank: Rank, bytes: usize) {
        if let Some(at) = self.receivers.get_mut(&rank) {
            *at += bytes as u64;
        }
        self.trim();
    }

    /// Whether `rank` has had everything there will ever be: its pipe is to be closed.
    pub fn is_done(&self, rank: Rank) -> bool {
        self.ended
            && self
                .receivers
                .get(&rank)
                .is_none_or(|&at| at == self.base + self.buffer.len() as u64)
    }

    /// `rank` takes no more.
    pub fn drop_out(&mut self, rank: Rank) {
        self.receivers.remove(&rank);
        self.trim();
    }

    /// Whether nobody takes input any more.
    pub fn is_unwanted(&self) -> bool {
        self.receivers.is_empty()
    }

    /// The receivers left.
    pub fn receivers(&self) -> impl Iterator<Item = Rank> + '_ {
        self.receivers.keys().copied()
    }

    /// Credit to give to the console, when it is worth a message.
    pub fn take_credit(&mut self) -> Option<u32> {
        if self.receivers.is_empty() || self.ended || self.freed < WINDOW / 4 {
            return None;
        }
        u32::try_from(std::mem::take(&mut self.freed)).ok()
    }

    fn trim(&mut self) {
        let end = self.base + self.buffer.len() as u64;
        let slowest = self.receivers.values().min().copied().unwrap_or(end);
        let done = usize::try_from(slowest - self.base).unwrap_or(0);
        self.buffer.drain(..done);
        self.base = slowest;
        self.freed += done;
    }
}

/// The console sent more than it had credit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more standard input than there was credit for")]
pub struct TooMuchInput;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_receiver_sets_the_pace_and_leaving_lifts_it() {
        let mut feed = Feed::new([Rank(0), Rank(1)]);
        assert_eq!(feed.take_credit(), Some(WINDOW as u32));
        feed.push(&vec![b'x'; WINDOW]).unwrap();
        assert_eq!(feed.push(b"y"), Err(TooMuchInput));
        while !feed.pending(Rank(0)).is_empty() {
            let n = feed.pending(Rank(0)).len();
            feed.advance(Rank(0), n);
        }
        assert_eq!(feed.take_credit(), None, "rank 1 has read nothing");
        feed.drop_out(Rank(1));
        assert_eq!(feed.take_credit(), Some(WINDOW as u32));
    }

    #[test]
    fn a_receiver_is_done_when_it_had_the_last_byte_after_the_end() {
        let mut feed = Feed::new([Rank(2)]);
        feed.take_credit();
        feed.push(b"ab").unwrap();
        feed.end();
        assert!(!feed.is_done(Rank(2)));
        assert_eq!(feed.pending(Rank(2)), b"ab");
        feed.advance(Rank(2), 2);
        assert!(feed.is_done(Rank(2)));
    }

    #[test]
    fn input_nobody_wants_is_swallowed() {
        let mut feed = Feed::new([Rank(0)]);
        feed.take_credit();
        feed.drop_out(Rank(0));
        assert!(feed.is_unwanted());
        assert_eq!(feed.push(&vec![0; 2 * WINDOW]), Ok(()));
    }
}
