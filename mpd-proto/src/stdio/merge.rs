//! Equal lines of several ranks become one line with the set of ranks: `0-7: text`.
//!
//! Every manager of a job merges what the ranks of its host write and what those below have merged, and
//! passes it on; the root shows it. The order of each rank's own lines is kept. An entry is complete
//! when every rank that is still writing has joined it; then nothing before it can grow any more, and
//! all of it goes out. What stays incomplete goes out after [`PATIENCE`] or when too much has gathered.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::id::Rank;
use crate::rankset::RankSet;
use crate::stdio::leaf::Record;
use crate::time::Time;

/// How long a line waits for other ranks to say the same, in each manager on its way.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Bytes that may wait; beyond, the oldest lines go out. A line of more is cut.
pub const MAX_GATHERED: usize = 256 * 1024;

/// What an entry takes beside its text, about.
const ENTRY_BYTES: usize = 64;

/// What a range of ranks takes.
const RANGE_BYTES: usize = 8;

#[derive(Debug)]
struct Entry {
    text: Rc<[u8]>,
    ranks: RankSet,
    /// How many of them are still writing.
    writing: u32,
    since: Time,
}

impl Entry {
    fn cost(&self) -> usize {
        self.text.len() + ENTRY_BYTES + RANGE_BYTES * self.ranks.ranges().len()
    }
}

/// Gathers lines of one output stream of some ranks.
#[derive(Debug)]
pub struct Merger {
    ranks: Places,
    entries: VecDeque<Entry>,
    /// Sequence number of the first entry.
    first: u64,
    /// Sequence numbers of the entries with a text.
    texts: BTreeMap<Rc<[u8]>, VecDeque<u64>>,
    /// Per rank: sequence number that its next line may join, or later.
    next: Vec<u64>,
    /// Bytes of a line not yet ended, by the lowest rank that writes it.
    partial: BTreeMap<Rank, Vec<u8>>,
    ended: Vec<bool>,
    /// Ranks that ended and whose end was not yet told.
    leaving: Vec<Rank>,
    /// How many have not ended.
    writing: u32,
    gathered: usize,
}

impl Merger {
    /// A merger for `ranks`.
    pub fn new(ranks: &RankSet) -> Self {
        let places = Places::new(ranks);
        let n = places.len();
        Self {
            ranks: places,
            entries: VecDeque::new(),
            first: 0,
            texts: BTreeMap::new(),
            next: vec![0; n],
            partial: BTreeMap::new(),
            ended: vec![false; n],
            leaving: Vec::new(),
            writing: ranks.count(),
            gathered: 0,
        }
    }

    /// Takes what all of `ranks` wrote, which are some of this merger's; calls `emit` with each line
    /// that is complete, without its newline.
    pub fn push(
        &mut self,
        now: Time,
        ranks: &RankSet,
        record: Record<'_>,
        emit: &mut impl FnMut(&RankSet, &[u8]),
    ) {
        let Some(lowest) = ranks.ranks().next() else { return };
        let mut text = self.partial.remove(&lowest).unwrap_or_default();
        text.extend_from_slice(record.head);
        text.extend_from_slice(record.body);
        let mut rest = &text[..];
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (line, more) = rest.split_at(newline);
            self.long_line(now, ranks, line, emit);
            rest = &more[1..];
        }
        while rest.len() > MAX_GATHERED {
            let (line, more) = rest.split_at(MAX_GATHERED);
            self.line(now, ranks, line, emit);
            rest = more;
        }
        if record.end && !rest.is_empty() {
            self.line(now, ranks, rest, emit);
        } else if !rest.is_empty() {
            let rest = text.len() - rest.len();
            text.drain(..rest);
            self.partial.insert(lowest, text);
        }
        while self.gathered > MAX_GATHERED {
            self.emit_first(emit);
        }
    }

    /// `ranks` will write no more; their last record had its end mark.
    pub fn end(&mut self, ranks: &RankSet, emit: &mut impl FnMut(&RankSet, &[u8])) {
        for rank in ranks.ranks() {
            let Some(place) = self.ranks.of(rank) else { continue };
            if std::mem::replace(&mut self.ended[place], true) {
                continue;
            }
            self.writing -= 1;
            self.leaving.push(rank);
            // It is in no entry from there on.
            let last = self.next[place].saturating_sub(self.first);
            for entry in self.entries.iter_mut().take(usize::try_from(last).unwrap_or(usize::MAX)) {
                entry.writing -= u32::from(entry.ranks.contains(rank));
            }
        }
        if let Some(last) = self.entries.iter().rposition(|e| e.writing >= self.writing) {
            self.emit_up_to(last, emit);
        }
    }

    /// Ranks that ended and all of whose lines went out, each told once.
    pub fn take_ended(&mut self) -> RankSet {
        let gone = |rank: &Rank| self.ranks.of(*rank).is_none_or(|at| self.next[at] <= self.first);
        let (told, leaving) = self.leaving.iter().partition::<Vec<Rank>, _>(|rank| gone(rank));
        self.leaving = leaving;
        told.into_iter().collect()
    }

    /// When [`Merger::flush`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.entries.front().map(|e| e.since + PATIENCE)
    }

    /// Lets go what has waited long enough by `now`.
    pub fn flush(&mut self, now: Time, emit: &mut impl FnMut(&RankSet, &[u8])) {
        while self.deadline().is_some_and(|at| at <= now) {
            self.emit_first(emit);
        }
    }

    /// A line of whatever length, cut in the same places by every manager on its way.
    fn long_line(
        &mut self,
        now: Time,
        ranks: &RankSet,
        mut line: &[u8],
        emit: &mut impl FnMut(&RankSet, &[u8]),
    ) {
        while line.len() > MAX_GATHERED {
            let (part, rest) = line.split_at(MAX_GATHERED);
            self.line(now, ranks, part, emit);
            line = rest;
        }
        self.line(now, ranks, line, emit);
    }

    fn line(
        &mut self,
        now: Time,
        ranks: &RankSet,
        text: &[u8],
        emit: &mut impl FnMut(&RankSet, &[u8]),
    ) {
        let places = || ranks.ranks().filter_map(|rank| self.ranks.of(rank));
        let from = places().map(|place| self.next[place]).max().unwrap_or(0);
        let at = self.entry(now, text, from);
        let mut writing = 0;
        for rank in ranks.ranks() {
            let Some(place) = self.ranks.of(rank) else { continue };
            self.next[place] = at + 1;
            writing += u32::from(!self.ended[place]);
        }
        let index = usize::try_from(at - self.first).unwrap_or(usize::MAX);
        let entry = &mut self.entries[index];
        self.gathered -= entry.cost();
        match ranks.ranges() {
            &[(low, high)] if low == high => entry.ranks.insert(Rank(low)),
            _ => entry.ranks.join(ranks),
        }
        self.gathered += entry.cost();
        entry.writing += writing;
        if entry.writing >= self.writing {
            self.emit_up_to(index, emit);
        }
    }

    /// The first entry from number `from` on that has the text, or a new one at the end.
    fn entry(&mut self, now: Time, text: &[u8], from: u64) -> u64 {
        if let Some(numbers) = self.texts.get(text)
            && let Some(&at) = numbers.get(numbers.partition_point(|&n| n < from))
        {
            return at;
        }
        let at = self.first + self.entries.len() as u64;
        let text: Rc<[u8]> = text.into();
        self.texts.entry(Rc::clone(&text)).or_default().push_back(at);
        let entry = Entry { text, ranks: RankSet::none(), writing: 0, since: now };
        self.gathered += entry.cost();
        self.entries.push_back(entry);
        at
    }

    fn emit_up_to(&mut self, last: usize, emit: &mut impl FnMut(&RankSet, &[u8])) {
        for _ in 0..=last {
            self.emit_first(emit);
        }
    }

    fn emit_first(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.first += 1;
        self.gathered -= entry.cost();
        if let Some(numbers) = self.texts.get_mut(&entry.text) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.texts.remove(&entry.text);
            }
        }
        emit(&entry.ranks, &entry.text);
    }
}

/// Ranks numbered from 0 without gaps, for tables.
#[derive(Debug)]
struct Places {
    /// Lowest, highest, and the number of the lowest.
    ranges: Vec<(u32, u32, usize)>,
}

impl Places {
    fn new(ranks: &RankSet) -> Self {
        let mut count = 0;
        let number = |&(low, high): &(u32, u32)| {
            let at = count;
            count += (high - low) as usize + 1;
            (low, high, at)
        };
        Self { ranges: ranks.ranges().iter().map(number).collect() }
    }

    fn len(&self) -> usize {
        self.ranges.last().map_or(0, |&(low, high, at)| at + (high - low) as usize + 1)
    }

    fn of(&self, rank: Rank) -> Option<usize> {
        let at = self.ranges.partition_point(|&(_, high, _)| high < rank.0);
        let &(low, _, number) = self.ranges.get(at).filter(|&&(low, _, _)| low <= rank.0)?;
        Some(number + (rank.0 - low) as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What came out of a merger, and was put into the next one as it would be on a link.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Out(Vec<(RankSet, Vec<u8>)>);

    impl Out {
        fn take(&mut self) -> impl FnMut(&RankSet, &[u8]) {
            |ranks, text| self.0.push((ranks.clone(), text.to_vec()))
        }

        fn text(&self) -> String {
            let lines =
                self.0.iter().map(|(r, t)| format!("{r}: {}\n", String::from_utf8_lossy(t)));
            lines.collect()
        }

        /// The lines of one rank.
        fn of(&self, rank: u32) -> Vec<Vec<u8>> {
            let its = self.0.iter().filter(|(ranks, _)| ranks.contains(Rank(rank)));
            its.map(|(_, text)| text.clone()).collect()
        }
    }

    fn one(rank: u32) -> RankSet {
        [Rank(rank)].into_iter().collect()
    }

    fn line(body: &[u8]) -> Record<'_> {
        Record { begin: true, end: true, head: b"", body }
    }

    #[test]
    fn equal_lines_of_all_ranks_become_one_at_once() {
        let mut merger = Merger::new(&RankSet::below(3));
        let mut out = Out::default();
        for rank in [2, 0, 1] {
            merger.push(Time::ZERO, &one(rank), line(b"hello\n"), &mut out.take());
        }
        assert_eq!(out.text(), "0-2: hello\n");
        assert_eq!(merger.deadline(), None);
        assert!(merger.texts.is_empty() && merger.gathered == 0, "nothing is kept");
    }

    #[test]
    fn lines_that_differ_stay_apart_and_wait_no_longer_than_patience() {
        let mut merger = Merger::new(&RankSet::below(2));
        let mut out = Out::default();
        merger.push(Time::ZERO, &one(0), line(b"a\nsame\n"), &mut out.take());
        merger.push(Time::ZERO, &one(1), line(b"same\n"), &mut out.take());
        assert_eq!(out.text(), "0: a\n0-1: same\n");
        merger.push(Time::ZERO, &one(1), line(b"late\n"), &mut out.take());
        merger.flush(Time::ZERO + PATIENCE, &mut out.take());
        assert_eq!(out.text(), "0: a\n0-1: same\n1: late\n");
    }

    #[test]
    fn a_rank_that_ended_is_not_waited_for_and_its_end_follows_its_last_line() {
        let mut merger = Merger::new(&RankSet::below(3));
        let mut out = Out::default();
        merger.push(Time::ZERO, &one(0), line(b"x\n"), &mut out.take());
        merger.end(&one(0), &mut out.take());
        merger.end(&one(1), &mut out.take());
        assert!(out.0.is_empty());
        assert_eq!(merger.take_ended(), one(1), "rank 0 has a line that waits for rank 2");
        merger.end(&one(2), &mut out.take());
        assert_eq!(out.text(), "0: x\n");
        assert_eq!(merger.take_ended().to_string(), "0,2");
        assert_eq!(merger.take_ended(), RankSet::none());
    }

    #[test]
    fn a_line_of_any_length_is_cut_in_the_same_places_above_and_below() {
        let long = vec![b'x'; 2 * MAX_GATHERED + 5];
        let (mut below, mut above) = (Out::default(), Out::default());
        let mut merger = Merger::new(&one(4));
        for piece in long.chunks(70_000) {
            let record = Record { begin: false, end: false, head: b"", body: piece };
            merger.push(Time::ZERO, &one(4), record, &mut below.take());
        }
        let end = Record { begin: false, end: true, head: b"", body: b"" };
        merger.push(Time::ZERO, &one(4), end, &mut below.take());
        let mut merger = Merger::new(&one(4));
        for (ranks, text) in &below.0 {
            let text = [&text[..], b"\n"].concat();
            merger.push(Time::ZERO, ranks, line(&text), &mut above.take());
        }
        assert_eq!(above, below);
        assert_eq!(below.of(4).concat(), long);
    }

    #[test]
    fn many_ranks_that_all_say_something_else_are_soon_served() {
        let mut merger = Merger::new(&RankSet::below(500));
        let mut out = Out::default();
        for step in 0..40 {
            for rank in 0..500 {
                let text = format!("rank {rank} step {step}\n");
                merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
            }
        }
        merger.end(&RankSet::below(500), &mut out.take());
        assert_eq!(out.0.len(), 500 * 40);
        assert_eq!(out.of(77)[3], b"rank 77 step 3");
    }

    /// Where the ranks of the property below run.
    fn host(rank: u32) -> usize {
        rank as usize % 2
    }

    /// A merger for each of two hosts and one above them.
    struct Tree {
        below: [Merger; 2],
        above: Merger,
    }

    impl Tree {
        fn new() -> Self {
            let of = |at| (0..5).filter(|&r| host(r) == at).map(Rank).collect::<RankSet>();
            Self {
                below: [Merger::new(&of(0)), Merger::new(&of(1))],
                above: Merger::new(&RankSet::below(5)),
            }
        }

        fn pass(&mut self, at: usize, up: Out, out: &mut Out) {
            for (ranks, text) in up.0 {
                let text = [&text[..], b"\n"].concat();
                self.above.push(Time::ZERO, &ranks, line(&text), &mut out.take());
            }
            let ended = self.below[at].take_ended();
            self.above.end(&ended, &mut out.take());
        }

        fn flush(&mut self, out: &mut Out) {
            for at in 0..2 {
                let mut up = Out::default();
                self.below[at].flush(Time::ZERO + PATIENCE, &mut up.take());
                self.pass(at, up, out);
            }
            self.above.flush(Time::ZERO + PATIENCE, &mut out.take());
        }
    }

    proptest! {
        #[test]
        fn each_rank_reads_its_own_lines_in_order_on_one_level_as_on_two(
            pushes in proptest::collection::vec((0u32..5, 0u8..3, 0u8..9), 0..80),
            early in proptest::collection::vec(0u32..5, 0..3),
        ) {
            let mut flat = Merger::new(&RankSet::below(5));
            let mut tree = Tree::new();
            let (mut out, mut top) = (Out::default(), Out::default());
            let mut said = vec![Vec::new(); 5];
            let last = |rank| pushes.iter().rposition(|p| p.0 == rank);
            for (i, &(rank, word, flush)) in pushes.iter().enumerate() {
                let text = [b'a' + word, b'\n'];
                said[rank as usize].push(text[..1].to_vec());
                flat.push(Time::ZERO, &one(rank), line(&text), &mut out.take());
                let mut up = Out::default();
                let below = &mut tree.below[host(rank)];
                below.push(Time::ZERO, &one(rank), line(&text), &mut up.take());
                if early.contains(&rank) && last(rank) == Some(i) {
                    flat.end(&one(rank), &mut out.take());
                    below.end(&one(rank), &mut up.take());
                }
                tree.pass(host(rank), up, &mut top);
                if flush == 0 {
                    flat.flush(Time::ZERO + PATIENCE, &mut out.take());
                    tree.flush(&mut top);
                }
            }
            flat.end(&RankSet::below(5), &mut out.take());
            for at in 0..2 {
                let mut up = Out::default();
                tree.below[at].end(&RankSet::below(5), &mut up.take());
                tree.pass(at, up, &mut top);
            }
            for rank in 0..5 {
                prop_assert_eq!(&out.of(rank), &said[rank as usize], "rank {} on one level", rank);
                prop_assert_eq!(&top.of(rank), &said[rank as usize], "rank {} on two", rank);
            }
            prop_assert_eq!(flat.take_ended(), RankSet::below(5));
            prop_assert_eq!(tree.above.take_ended(), RankSet::below(5));
            prop_assert!(tree.above.gathered == 0 && tree.above.texts.is_empty());
        }
    }
}
