//! Equal lines of several ranks become one line with the set of ranks: `0-7: text`.
//!
//! The order of each rank's own lines is kept. An entry is complete when every rank that is still
//! writing has joined it; then nothing before it can grow any more, and all of it is printed. What
//! stays incomplete is printed after [`PATIENCE`] or when too much has gathered.

use std::collections::VecDeque;
use std::time::Duration;

use crate::id::Rank;
use crate::rankset::RankSet;
use crate::stdio::leaf::Record;
use crate::time::Time;

/// How long a line waits for other ranks to say the same.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Bytes of text that may wait; beyond, the oldest lines go out.
pub const MAX_GATHERED: usize = 256 * 1024;

#[derive(Debug)]
struct Entry {
    text: Vec<u8>,
    ranks: RankSet,
    count: u32,
    since: Time,
}

/// Gathers lines of one output stream of a world.
#[derive(Debug)]
pub struct Merger {
    entries: VecDeque<Entry>,
    /// Sequence number of the first entry.
    first: u64,
    /// Per rank: sequence number that its next line may join, or later.
    next: Vec<u64>,
    /// Per rank: bytes of a line not yet ended.
    partial: Vec<Vec<u8>>,
    ended: Vec<bool>,
    writing: u32,
    gathered: usize,
}

impl Merger {
    /// A merger for `size` ranks.
    pub fn new(size: u32) -> Self {
        let n = size as usize;
        Self {
            entries: VecDeque::new(),
            first: 0,
            next: vec![0; n],
            partial: vec![Vec::new(); n],
            ended: vec![false; n],
            writing: size,
            gathered: 0,
        }
    }

    /// Takes a record of `rank`; appends to `out` what is complete.
    pub fn push(&mut self, now: Time, rank: Rank, record: Record<'_>, out: &mut Vec<u8>) {
        let mut text = std::mem::take(&mut self.partial[rank.index()]);
        text.extend_from_slice(record.head);
        text.extend_from_slice(record.body);
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &text) {
            self.line(now, rank, &text[start..newline], out);
            start = newline + 1;
        }
        let rest = text.split_off(start);
        if !rest.is_empty() && (record.end || rest.len() > MAX_GATHERED) {
            self.line(now, rank, &rest, out);
        } else {
            self.partial[rank.index()] = rest;
        }
        while self.gathered > MAX_GATHERED {
            self.print_first(out);
        }
    }

    /// `rank` will write no more; its last record had its end mark.
    pub fn end(&mut self, rank: Rank, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.ended[rank.index()], true) {
            self.writing -= 1;
            self.print_complete(out);
        }
    }

    /// When [`Merger::flush`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.entries.front().map(|e| e.since + PATIENCE)
    }

    /// Prints what has waited long enough by `now`.
    pub fn flush(&mut self, now: Time, out: &mut Vec<u8>) {
        while self.deadline().is_some_and(|at| at <= now) {
            self.print_first(out);
        }
    }

    fn line(&mut self, now: Time, rank: Rank, text: &[u8], out: &mut Vec<u8>) {
        let from = self.next[rank.index()].max(self.first);
        let skip = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        let found = self.entries.iter().skip(skip).position(|e| e.text == text);
        let at = match found {
            Some(offset) => skip + offset,
            None => {
                self.gathered += text.len() + 64;
                let ranks = RankSet::none();
                self.entries.push_back(Entry { text: text.to_vec(), ranks, count: 0, since: now });
                self.entries.len() - 1
            }
        };
        self.next[rank.index()] = self.first + at as u64 + 1;
        let entry = &mut self.entries[at];
        entry.ranks.insert(rank);
        entry.count += 1;
        if entry.count >= self.writing {
            self.print_complete(out);
        }
    }

    /// Prints up to and including the last entry that all writing ranks have joined.
    fn print_complete(&mut self, out: &mut Vec<u8>) {
        let complete = |e: &Entry| {
            let gone = |&(low, high): &(u32, u32)| {
                (low..=high).filter(|&r| self.ended[r as usize]).count()
            };
            let gone: usize = e.ranks.ranges().iter().map(gone).sum();
            e.count as usize - gone >= self.writing as usize
        };
        if let Some(last) = self.entries.iter().rposition(complete) {
            for _ in 0..=last {
                self.print_first(out);
            }
        }
    }

    fn print_first(&mut self, out: &mut Vec<u8>) {
        if let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            self.gathered -= entry.text.len() + 64;
            out.extend_from_slice(entry.ranks.to_string().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(&entry.text);
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(body: &[u8]) -> Record<'_> {
        Record { begin: true, end: true, head: b"", body }
    }

    #[test]
    fn equal_lines_of_all_ranks_become_one_at_once() {
        let mut merger = Merger::new(3);
        let mut out = Vec::new();
        for rank in [2, 0, 1] {
            merger.push(Time::ZERO, Rank(rank), line(b"hello\n"), &mut out);
        }
        assert_eq!(out, b"0-2: hello\n");
        assert_eq!(merger.deadline(), None);
    }

    #[test]
    fn lines_that_differ_stay_apart_and_wait_no_longer_than_patience() {
        let mut merger = Merger::new(2);
        let mut out = Vec::new();
        merger.push(Time::ZERO, Rank(0), line(b"a\nsame\n"), &mut out);
        merger.push(Time::ZERO, Rank(1), line(b"same\n"), &mut out);
        assert_eq!(out, b"0: a\n0-1: same\n");
        merger.push(Time::ZERO, Rank(1), line(b"late\n"), &mut out);
        merger.flush(Time::ZERO + PATIENCE, &mut out);
        assert_eq!(out, b"0: a\n0-1: same\n1: late\n");
    }

    #[test]
    fn a_rank_that_ended_is_not_waited_for() {
        let mut merger = Merger::new(2);
        let mut out = Vec::new();
        merger.push(Time::ZERO, Rank(0), line(b"x\n"), &mut out);
        assert!(out.is_empty());
        merger.end(Rank(1), &mut out);
        assert_eq!(out, b"0: x\n");
    }

    proptest! {
        #[test]
        fn each_rank_reads_its_own_lines_in_order(
            pushes in proptest::collection::vec((0u32..3, 0u8..3), 0..60), flush in any::<bool>(),
        ) {
            let mut merger = Merger::new(3);
            let mut out = Vec::new();
            let mut said = vec![Vec::new(); 3];
            for (i, &(rank, word)) in pushes.iter().enumerate() {
                merger.push(Time::ZERO, Rank(rank), line(&[b'a' + word, b'\n']), &mut out);
                said[rank as usize].push(b'a' + word);
                if flush && i % 7 == 0 {
                    merger.flush(Time::ZERO + PATIENCE, &mut out);
                }
            }
            for rank in 0..3 {
                merger.end(Rank(rank), &mut out);
            }
            merger.flush(Time::ZERO + PATIENCE, &mut out);
            let text = String::from_utf8(out).unwrap();
            let mut heard = vec![Vec::new(); 3];
            for l in text.lines() {
                let (ranks, word) = l.split_once(": ").unwrap();
                let ranks: RankSet = ranks.parse().unwrap();
                for rank in 0..3 {
                    if ranks.contains(Rank(rank)) {
                        heard[rank as usize].push(word.as_bytes()[0]);
                    }
                }
            }
            prop_assert_eq!(heard, said);
        }
    }
}
