//! One output stream of one child manager: the payloads that arrived and were not yet taken, under
//! credit.
//!
//! The owner looks at the source of the next item, asks the write admission, and takes the item. Bytes that
//! were taken go back as credit, so the bytes that wait here never exceed the window.

use std::collections::VecDeque;

use crate::line_splitter::Record;
use crate::record::{InvalidItem, Item, Items, MAX_PAYLOAD};
use mpd_wire::{Rank, RankSet};

/// The receiving end of one stream of one link.
#[derive(Debug)]
pub struct Inflow {
    /// The ranks whose output may come here.
    ranks: RankSet,
    window: usize,
    /// Bytes that the peer may still send.
    credit: usize,
    /// Bytes that were taken and not yet granted again.
    taken: usize,
    payloads: VecDeque<Vec<u8>>,
    /// Bytes of the first payload that were taken.
    at: usize,
    /// Bytes of output at the end of the item that was taken last.
    body: usize,
    /// The rank that is in the middle of a line at the end of the received bytes.
    open: Option<Rank>,
}

/// A payload cannot be accepted. The link cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInflow {
    /// The peer sent more than it had credit for.
    #[error("more output than there was credit for")]
    TooMuch,
    /// The payload cannot be decoded.
    #[error(transparent)]
    Item(#[from] InvalidItem),
    /// An item is of a rank that does not run there.
    #[error("output of a rank that does not run there")]
    Stranger,
    /// Two ranks are in the middle of a line, or a rank continues a line that it did not begin.
    #[error("output of rank {0} in the middle of another line")]
    Torn(Rank),
}

impl Inflow {
    /// An inflow of `ranks` whose peer begins with `window` bytes of credit.
    pub fn new(ranks: RankSet, window: usize) -> Self {
        let payloads = VecDeque::new();
        Self { ranks, window, credit: window, taken: 0, payloads, at: 0, body: 0, open: None }
    }

    /// Takes a payload as it arrived.
    ///
    /// # Errors
    /// [`InvalidInflow`]; nothing of the payload is taken.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), InvalidInflow> {
        if payload.len() > self.credit {
            return Err(InvalidInflow::TooMuch);
        }
        let mut open = self.open;
        for item in Items::new(payload) {
            open = self.check(&item?, open)?;
        }
        self.open = open;
        if !payload.is_empty() {
            self.credit -= payload.len();
            match self.payloads.back_mut() {
                // Small payloads are joined, so that many of them do not take more memory than
                // their bytes.
                Some(last) if last.len() + payload.len() <= MAX_PAYLOAD => last.extend(payload),
                _ => self.payloads.push_back(payload.to_vec()),
            }
        }
        Ok(())
    }

    /// Checks `item` after an item that left `open` in the middle of a line. Returns the rank that
    /// is in the middle of a line after `item`.
    fn check(&self, item: &Item<'_>, open: Option<Rank>) -> Result<Option<Rank>, InvalidInflow> {
        let known = match item {
            Item::Piece { rank, .. } => self.ranks.contains(*rank),
            Item::Merged { ranks, .. } | Item::Ended { ranks } => ranks.is_within(&self.ranks),
        };
        if !known {
            return Err(InvalidInflow::Stranger);
        }
        let (Some(source), Some(record)) = (item.source(), item.record()) else { return Ok(open) };
        let fits = if record.begin { open.is_none() } else { open == Some(source) };
        if !fits {
            return Err(InvalidInflow::Torn(source));
        }
        Ok((!record.end).then_some(source))
    }

    /// The next item, so that the owner can ask the write admission about its [source](Item::source).
    pub fn peek(&self) -> Option<Item<'_>> {
        let payload = self.payloads.front()?;
        match payload.get(self.at..) {
            Some(rest) if !rest.is_empty() => Items::new(rest).next()?.ok(),
            _ => Items::new(self.payloads.get(1)?).next()?.ok(),
        }
    }

    /// Takes the next item.
    pub fn pop(&mut self) -> Option<Item<'_>> {
        if self.payloads.front().is_some_and(|payload| self.at == payload.len()) {
            self.payloads.pop_front();
            (self.at, self.body) = (0, 0);
        }
        let mut items = Items::new(self.payloads.front()?.get(self.at..)?);
        let before = items.left();
        let item = items.next()?.ok();
        let length = before - items.left();
        self.at += length;
        self.taken += length;
        self.body = item.as_ref().and_then(Item::record).map_or(0, |record| record.body.len());
        item
    }

    /// The output of the item that was taken last, until the next item is taken.
    pub fn body(&self) -> &[u8] {
        self.payloads.front().map_or(&[], |payload| &payload[self.at - self.body..self.at])
    }

    /// Nothing more will arrive: an unfinished line ends here.
    pub fn break_off(&mut self) {
        if let Some(rank) = self.open.take() {
            let record = Record { begin: false, end: true, head: &[], body: &[] };
            let mut payload = Vec::new();
            Item::Piece { rank, time: None, record }.encode(&mut payload);
            // The peer had no credit for this payload, so the window grows by its size.
            self.window += payload.len();
            self.payloads.push_back(payload);
        }
    }

    /// The number of bytes that were not yet taken.
    pub const fn waiting(&self) -> usize {
        self.window - self.credit - self.taken
    }

    /// Whether everything that arrived was taken.
    pub const fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Credit to grant to the peer, if it is worth a message.
    pub fn take_credit(&mut self) -> Option<u32> {
        if self.taken < self.window / 4 {
            return None;
        }
        self.credit += self.taken;
        u32::try_from(std::mem::take(&mut self.taken)).ok()
    }
}
