//! Output on its way through the job tree: the encoding of one payload of one stream.
//!
//! A payload is a sequence of items, and each item is complete. docs/PROTOCOL.md lists the fields. The
//! decoder looks only at received bytes and copies none of them.

use crate::line_splitter::Record;
use mpd_wire::{Rank, RankSet};

/// Most bytes of one payload.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// Most ranges of ranks in one item. A set with more ranges is sent as several items.
pub(super) const MAX_RANGES: usize = 512;

const PIECE: u8 = 0;
const MERGED: u8 = 1;
const ENDED: u8 = 2;

const BEGIN: u8 = 1;
const END: u8 = 2;
const TIME: u8 = 4;

/// An item of output that a manager sends to its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A rank wrote this record.
    Piece {
        rank: Rank,
        /// The time at which it was read, in microseconds since 1970, if the job asks for
        /// timestamps.
        time: Option<u64>,
        /// The output.
        record: Record<'a>,
    },
    /// Several ranks wrote the same lines, or the same piece of a long line.
    Merged {
        ranks: RankSet,
        /// The output: lines with their newlines.
        record: Record<'a>,
    },
    /// The stream of these ranks has ended.
    Ended { ranks: RankSet },
}

impl<'a> Item<'a> {
    /// The rank that a write admission is asked about: the lowest of several. `None` if the item has no
    /// output.
    pub fn source(&self) -> Option<Rank> {
        match self {
            Self::Piece { rank, .. } => Some(*rank),
            Self::Merged { ranks, .. } => ranks.ranks().next(),
            Self::Ended { .. } => None,
        }
    }

    /// The output to write.
    pub const fn record(&self) -> Option<Record<'a>> {
        match self {
            Self::Piece { record, .. } | Self::Merged { record, .. } => Some(*record),
            Self::Ended { .. } => None,
        }
    }

    /// Appends the item to a payload. The owner observes [`MAX_PAYLOAD`] and [`MAX_RANGES`].
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Piece { rank, time, record } => {
                let timed = if time.is_some() { TIME } else { 0 };
                out.extend_from_slice(&[PIECE, marks(*record) | timed]);
                out.extend_from_slice(&rank.0.to_be_bytes());
                if let Some(time) = time {
                    out.extend_from_slice(&time.to_be_bytes());
                }
                encode_bytes(*record, out);
            }
            Self::Merged { ranks, record } => {
                out.extend_from_slice(&[MERGED, marks(*record)]);
                encode_ranks(ranks, out);
                encode_bytes(*record, out);
            }
            Self::Ended { ranks } => {
                out.push(ENDED);
                encode_ranks(ranks, out);
            }
        }
    }
}

fn marks(record: Record<'_>) -> u8 {
    (if record.begin { BEGIN } else { 0 }) | (if record.end { END } else { 0 })
}

fn encode_bytes(record: Record<'_>, out: &mut Vec<u8>) {
    let length = record.head.len() + record.body.len();
    assert!(length <= MAX_PAYLOAD, "record of {length} bytes");
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(record.head);
    out.extend_from_slice(record.body);
}

fn encode_ranks(ranks: &RankSet, out: &mut Vec<u8>) {
    let text = ranks.to_string();
    let length = u16::try_from(text.len()).expect("the ranges were counted");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Extends the last item of a payload, lines that begin at `item`, by `head` and `body`.
pub(super) fn append(payload: &mut Vec<u8>, item: usize, parts: [&[u8]; 2]) {
    let ranks = usize::from(u16::from_be_bytes([payload[item + 2], payload[item + 3]]));
    let at = item + 4 + ranks;
    for part in parts {
        payload.extend_from_slice(part);
    }
    let length = u32::try_from(payload.len() - at - 4).unwrap_or(u32::MAX);
    payload[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Bytes of the item before its output.
pub(super) fn header(time: Option<u64>, ranks: Option<&RankSet>) -> usize {
    match (time, ranks) {
        (_, Some(ranks)) => 2 + 2 + ranks.to_string().len() + 4,
        (None, None) => 2 + 4 + 4,
        (Some(_), None) => 2 + 4 + 8 + 4,
    }
}

/// The bytes are not output of a job. The link cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidItem {
    /// The item is incomplete.
    #[error("output that ends in the middle of an item")]
    Short,
    /// The kind is neither a piece, nor merged lines, nor an end.
    #[error("output of unknown kind {0}")]
    Kind(u8),
    /// The marks do not exist.
    #[error("output with unknown marks {0:#x}")]
    Marks(u8),
    /// The ranks cannot be read, or the set is empty.
    #[error("output of ranks that cannot be read")]
    Ranks,
}

/// Reads the items of a payload one after the other. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// The items of `payload`.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// The number of bytes not yet read.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    fn item(&mut self) -> Result<Item<'a>, InvalidItem> {
        match self.byte()? {
            PIECE => {
                let marks = self.marks(BEGIN | END | TIME)?;
                let rank = Rank(u32::from_be_bytes(self.array()?));
                let timed = marks & TIME != 0;
                let time = if timed { Some(u64::from_be_bytes(self.array()?)) } else { None };
                Ok(Item::Piece { rank, time, record: self.record(marks)? })
            }
            MERGED => {
                let marks = self.marks(BEGIN | END)?;
                Ok(Item::Merged { ranks: self.ranks()?, record: self.record(marks)? })
            }
            ENDED => Ok(Item::Ended { ranks: self.ranks()? }),
            kind => Err(InvalidItem::Kind(kind)),
        }
    }

    fn record(&mut self, marks: u8) -> Result<Record<'a>, InvalidItem> {
        let length = u32::from_be_bytes(self.array()?);
        let body = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        Ok(Record { begin: marks & BEGIN != 0, end: marks & END != 0, head: &[], body })
    }

    fn ranks(&mut self) -> Result<RankSet, InvalidItem> {
        let length = u16::from_be_bytes(self.array()?);
        let text = str::from_utf8(self.take(length.into())?).map_err(|_| InvalidItem::Ranks)?;
        let ranks: RankSet = text.parse().map_err(|_| InvalidItem::Ranks)?;
        if ranks.is_empty() { Err(InvalidItem::Ranks) } else { Ok(ranks) }
    }

    fn marks(&mut self, known: u8) -> Result<u8, InvalidItem> {
        let marks = self.byte()?;
        if marks & !known == 0 { Ok(marks) } else { Err(InvalidItem::Marks(marks)) }
    }

    fn byte(&mut self) -> Result<u8, InvalidItem> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidItem> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(InvalidItem::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], InvalidItem> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(InvalidItem::Short)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, InvalidItem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.item();
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks() -> impl Strategy<Value = RankSet> {
        proptest::collection::vec(0u32..50, 1..9).prop_map(|r| r.into_iter().map(Rank).collect())
    }

    /// Items with `bytes` as their output.
    fn item(bytes: &[u8]) -> impl Strategy<Value = Item<'_>> {
        let record = any::<(bool, bool)>().prop_map(|(begin, end)| Record {
            begin,
            end,
            head: &[],
            body: bytes,
        });
        prop_oneof![
            (any::<u32>(), any::<Option<u64>>(), record.clone())
                .prop_map(|(rank, time, record)| Item::Piece { rank: Rank(rank), time, record }),
            (ranks(), record).prop_map(|(ranks, record)| Item::Merged { ranks, record }),
            ranks().prop_map(|ranks| Item::Ended { ranks }),
        ]
    }

    #[test]
    fn a_piece_has_its_fields_where_the_protocol_says() {
        let mut out = Vec::new();
        let record = Record { begin: true, end: false, head: b"a", body: b"b" };
        Item::Piece { rank: Rank(258), time: Some(3), record }.encode(&mut out);
        assert_eq!(
            out,
            b"\x00\x05\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02ab"
        );
        assert_eq!(out.len(), header(Some(3), None) + 2);
    }

    #[test]
    fn lines_of_the_same_ranks_share_an_item() {
        let mut out = vec![9];
        let line = |body| Record { begin: true, end: true, head: &[], body };
        let ranks = RankSet::below(3);
        Item::Merged { ranks: ranks.clone(), record: line(b"a\n") }.encode(&mut out);
        append(&mut out, 1, [b"b", b"\n"]);
        let items: Vec<_> = Items::new(&out[1..]).collect();
        assert_eq!(items, [Ok(Item::Merged { ranks, record: line(b"a\nb\n") })]);
    }

    #[test]
    fn output_without_a_rank_is_refused() {
        assert_eq!(Items::new(b"\x02\x00\x04none").next(), Some(Err(InvalidItem::Ranks)));
        assert_eq!(Items::new(b"\x02\x00\x03a-b").next(), Some(Err(InvalidItem::Ranks)));
        assert_eq!(Items::new(b"\x03").next(), Some(Err(InvalidItem::Kind(3))));
        assert_eq!(Items::new(b"\x01\x04").next(), Some(Err(InvalidItem::Marks(4))));
    }

    proptest! {
        #[test]
        fn items_read_back_and_a_payload_cut_anywhere_else_is_refused(
            items in proptest::collection::vec(item(b"some\nbytes"), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut out = Vec::new();
            let mut ends = vec![0];
            for item in &items {
                item.encode(&mut out);
                ends.push(out.len());
            }
            let got: Result<Vec<_>, _> = Items::new(&out).collect();
            prop_assert_eq!(got, Ok(items));
            let cut = cut.index(out.len() + 1);
            let got: Result<Vec<_>, _> = Items::new(&out[..cut]).collect();
            prop_assert_eq!(got.is_ok(), ends.contains(&cut));
        }

        #[test]
        fn garbage_never_panics_and_what_can_be_read_can_be_written(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            for item in Items::new(&bytes).flatten() {
                let mut out = Vec::new();
                item.encode(&mut out);
                prop_assert_eq!(Items::new(&out).next(), Some(Ok(item)));
            }
        }
    }
}
