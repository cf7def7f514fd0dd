//! One output stream of one manager below: what came of it and was not yet taken, under credit.
//!
//! The owner looks of whom the next item is, asks the gate, and takes it; credit goes back for what was
//! taken, so that what may lie here never exceeds the window.

use std::collections::VecDeque;

use crate::leaf::Record;
use crate::record::{InvalidItem, Item, Items, MAX_PAYLOAD};
use mpd_wire::{Rank, RankSet};

/// The receiving end of one stream of one link.
#[derive(Debug)]
pub struct Inflow {
    /// Those that may speak here.
    ranks: RankSet,
    window: usize,
    /// Bytes that the other end may still send.
    credit: usize,
    /// Bytes taken and not yet given back as credit.
    taken: usize,
    payloads: VecDeque<Vec<u8>>,
    /// Bytes of the first payload that were taken.
    at: usize,
    /// Who is in the middle of a line at the end of what came.
    open: Option<Rank>,
}

/// What came cannot be taken. The link cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInflow {
    /// The other end sent more than it had credit for.
    #[error("more output than there was credit for")]
    TooMuch,
    /// It cannot be read.
    #[error(transparent)]
    Item(#[from] InvalidItem),
    /// It is of a rank that does not run there.
    #[error("output of a rank that does not run there")]
    Stranger,
    /// Two ranks are in the middle of a line, or one goes on with a line that it did not begin.
    #[error("output of rank {0} in the middle of another line")]
    Torn(Rank),
}

impl Inflow {
    /// An inflow of `ranks` whose other end begins with `window` bytes of credit.
    pub fn new(ranks: RankSet, window: usize) -> Self {
        let payloads = VecDeque::new();
        Self { ranks, window, credit: window, taken: 0, payloads, at: 0, open: None }
    }

    /// Takes a payload as it came.
    ///
    /// # Errors
    /// [`InvalidInflow`]; nothing of it is taken.
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
                // Many small ones are not to cost more than their bytes.
                Some(last) if last.len() + payload.len() <= MAX_PAYLOAD => last.extend(payload),
                _ => self.payloads.push_back(payload.to_vec()),
            }
        }
        Ok(())
    }

    /// Returns who is in the middle of a line after `item`, if somebody was `open` before it.
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

    /// The next item, to ask the gate about its [source](Item::source).
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
            self.at = 0;
        }
        let mut items = Items::new(self.payloads.front()?.get(self.at..)?);
        let before = items.left();
        let item = items.next()?.ok();
        let length = before - items.left();
        self.at += length;
        self.taken += length;
        item
    }

    /// Nothing more will come: a line that stands open ends here.
    pub fn break_off(&mut self) {
        if let Some(rank) = self.open.take() {
            let record = Record { begin: false, end: true, head: &[], body: &[] };
            let mut payload = Vec::new();
            Item::Piece { rank, time: None, record }.encode(&mut payload);
            // On our own account: the other end had no credit for it.
            self.window += payload.len();
            self.payloads.push_back(payload);
        }
    }

    /// Bytes not yet taken.
    pub const fn waiting(&self) -> usize {
        self.window - self.credit - self.taken
    }

    /// Whether everything that came was taken.
    pub const fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Credit to give back, when it is worth a message.
    pub fn take_credit(&mut self) -> Option<u32> {
        if self.taken < self.window / 4 {
            return None;
        }
        self.credit += self.taken;
        u32::try_from(std::mem::take(&mut self.taken)).ok()
    }
}
