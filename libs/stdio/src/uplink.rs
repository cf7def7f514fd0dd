//! One output stream on its way up: the payloads that a manager sends to its parent, under credit.
//!
//! Only one rank at a time is in the middle of a line. An owner that asks the write admission first never
//! breaks this rule. If another rank writes nevertheless, the uplink ends the unfinished line
//! before it.

use std::collections::VecDeque;

use crate::line_splitter::Record;
use crate::merge::AT_ONCE;
use crate::record;
use crate::record::{Item, MAX_PAYLOAD, MAX_RANGES};
use mpd_wire::{Rank, RankSet};

/// The sending end of one stream of one link.
#[derive(Debug)]
pub struct Uplink {
    /// Most bytes of a payload: a quarter of the window. Credit comes back a quarter at a time, so
    /// it is always enough for the next payload.
    most: usize,
    credit: usize,
    /// Payloads that are full, and then the payload being filled.
    full: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    /// The start in `filling` of the last item and its ranks, if more lines may join it.
    last: Option<(usize, RankSet)>,
    waiting: usize,
    /// The rank that is in the middle of a line.
    open: Option<Rank>,
    closed: bool,
}

impl Uplink {
    /// An uplink whose peer takes `window` bytes before it grants credit; at least 256.
    pub fn new(window: usize) -> Self {
        Self {
            most: (window / 4).min(MAX_PAYLOAD),
            credit: window,
            full: VecDeque::new(),
            filling: Vec::new(),
            last: None,
            waiting: 0,
            open: None,
            closed: false,
        }
    }

    /// Takes a record of a rank, read at `time` if the job asks for timestamps.
    pub fn accept(&mut self, rank: Rank, time: Option<u64>, record: Record<'_>) {
        if self.open.is_some_and(|owner| owner != rank) {
            self.end_line();
        }
        let header = record::header(time, None);
        self.accept_pieces(header, record, |record| Item::Piece { rank, time, record });
        self.open = (!record.end).then_some(rank);
    }

    /// Takes a line, without its newline, that all of `ranks` wrote.
    pub fn accept_merged(&mut self, ranks: &RankSet, line: &[u8]) {
        self.end_line();
        for ranks in ranks.parts(MAX_RANGES) {
            if !self.join_last(&ranks, line) {
                let record = Record { begin: true, end: true, head: line, body: b"\n" };
                let header = record::header(None, Some(&ranks));
                let item = |record| Item::Merged { ranks: ranks.clone(), record };
                let whole = self.accept_pieces(header, record, item);
                self.last = whole.map(|at| (at, ranks));
            }
        }
    }

    /// The stream of these ranks has ended.
    pub fn accept_end(&mut self, ranks: &RankSet) {
        if ranks.is_empty() || self.closed {
            return;
        }
        for ranks in ranks.parts(MAX_RANGES) {
            let item = Item::Ended { ranks };
            let mut encoded = Vec::new();
            item.encode(&mut encoded);
            self.make_room(encoded.len());
            self.filling.extend_from_slice(&encoded);
            self.waiting += encoded.len();
        }
        self.last = None;
    }

    /// The peer takes `bytes` more.
    pub fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// The next payload for which there is credit.
    pub fn next_payload(&mut self) -> Option<Vec<u8>> {
        let next = self.full.front().unwrap_or(&self.filling);
        if next.is_empty() || next.len() > self.credit {
            return None;
        }
        let payload = self.full.pop_front().unwrap_or_else(|| {
            self.last = None;
            std::mem::take(&mut self.filling)
        });
        self.credit -= payload.len();
        self.waiting -= payload.len();
        Some(payload)
    }

    /// Bytes that wait for credit, for the write admission.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether no bytes wait.
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Discards the waiting output and all further output.
    pub fn discard(&mut self) {
        self.closed = true;
        self.full.clear();
        self.filling = Vec::new();
        self.last = None;
        self.waiting = 0;
    }

    /// Ends the unfinished line, if there is one.
    fn end_line(&mut self) {
        if let Some(rank) = self.open {
            let record = Record { begin: false, end: true, head: &[], body: &[] };
            let item = |record| Item::Piece { rank, time: None, record };
            self.accept_pieces(record::header(None, None), record, item);
            self.open = None;
        }
    }

    /// Cuts a record so that its pieces fit. If the record is a line in one piece, returns its
    /// position in the payload.
    fn accept_pieces<'a>(
        &mut self,
        header: usize,
        record: Record<'a>,
        item: impl Fn(Record<'a>) -> Item<'a>,
    ) -> Option<usize> {
        if self.closed {
            return None;
        }
        let mut whole = None;
        let mut rest = Some(Record { begin: self.open.is_none(), ..record });
        while let Some(record) = rest {
            // A short rest stays in one piece. A long rest fills the payload.
            let length = record.head.len() + record.body.len();
            self.make_room(header + length.min(self.most / 4));
            let room = self.most - self.filling.len() - header;
            let (piece, more) = split(record, room);
            let at = self.filling.len();
            item(piece).encode(&mut self.filling);
            self.waiting += self.filling.len() - at;
            whole = (piece.begin && piece.end).then_some(at);
            rest = more;
        }
        self.last = None;
        whole
    }

    /// Adds a line to the last item if that has the same ranks.
    fn join_last(&mut self, ranks: &RankSet, line: &[u8]) -> bool {
        let length = self.filling.len() + line.len();
        match &self.last {
            Some((at, same)) if length < self.most && length < at + AT_ONCE && same == ranks => {
                record::append(&mut self.filling, *at, [line, b"\n"]);
                self.waiting += line.len() + 1;
                true
            }
            _ => false,
        }
    }

    /// Begins another payload unless this many bytes fit in the current one.
    fn make_room(&mut self, bytes: usize) {
        if self.filling.len() + bytes > self.most {
            self.full.push_back(std::mem::take(&mut self.filling));
            self.last = None;
        }
    }
}

/// The first `length` bytes of a record, and the rest, if any.
fn split(record: Record<'_>, length: usize) -> (Record<'_>, Option<Record<'_>>) {
    if record.head.len() + record.body.len() <= length {
        return (record, None);
    }
    let (head, head_rest) = record.head.split_at(length.min(record.head.len()));
    let (body, body_rest) = record.body.split_at(length - head.len());
    let first = Record { end: false, head, body, ..record };
    (first, Some(Record { begin: false, head: head_rest, body: body_rest, ..record }))
}
