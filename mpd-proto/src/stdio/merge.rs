//! Equal lines of several ranks become one line with the set of ranks: `0-7: text`.
//!
//! Every manager of a job merges what the ranks of its host write and what those below have merged, and
//! passes it on; the root shows it. The order of each rank's own lines is kept. Lines wait in a pile,
//! oldest first; the first goes out when no rank that still writes can join it any more: all have said
//! it, or something that came later. What others might join goes out when it has waited long enough or
//! too much has gathered.
//!
//! How long is enough depends on the others. A rank on a busy machine may be behind by its turn on the CPU,
//! and is waited for: from its last word, or from its start, a second for each level of the tree. After
//! that it is late, and lines wait for late ones only [`PATIENCE`], until they say the same as others
//! again: who writes alone waits long once. Ranks that are asked something ([`Merger::ask`]) are waited for, and answer
//! with a line that begins with [`MARK`]; when all have, everything goes out at once, and they are late until they
//! are asked again. A rank that is far ahead of those that are not late is best not read for a while, or
//! its lines would go out alone: [`Merger::holds_back`].

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::id::Rank;
use crate::rankset::RankSet;
use crate::stdio::leaf::Record;
use crate::time::Time;

/// How long a line waits for late ranks to say the same, in each manager on its way.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// How long it waits for those that are not late, for each level of the tree: who is below may have waited.
pub const PROMPT_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that may wait; beyond, the oldest lines go out. A line of more is cut.
pub const MAX_GATHERED: usize = 256 * 1024;

/// Bytes that wait from which on ranks that are ahead are held back.
const HOLD_BACK: usize = MAX_GATHERED / 4;

/// Most bytes of a rank that should be pushed at once, so that it does not get far ahead.
pub const AT_ONCE: usize = 8 * 1024;

/// First byte of the line that ends the answer of a rank that was asked something.
pub const MARK: u8 = b'=';

/// What an entry takes beside its text, about.
const ENTRY_BYTES: usize = 64;

/// What a range of ranks takes.
const RANGE_BYTES: usize = 8;

#[derive(Debug)]
struct Entry {
    text: Rc<[u8]>,
    ranks: RankSet,
    since: Time,
}

impl Entry {
    fn cost(&self) -> usize {
        self.text.len() + ENTRY_BYTES + RANGE_BYTES * self.ranks.ranges().len()
    }
}

/// How far a rank is.
#[derive(Clone, Debug, Default)]
struct Course {
    /// Sequence number of the first entry that its next line may join; of one that went out if it said
    /// nothing for long.
    next: u64,
    ended: bool,
    /// A line went without it, and it has not said the same as others since.
    late: bool,
    /// It has not yet answered.
    asked: bool,
    /// When it last wrote, or began; none if it has not begun.
    heard: Option<Time>,
}

/// How many ranks that have not ended may first of all join one entry.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    all: u32,
    /// Those of them that are not late.
    prompt: u32,
}

impl Due {
    fn add(&mut self, course: &Course) {
        self.all += u32::from(!course.ended);
        self.prompt += u32::from(!course.ended && !course.late);
    }

    fn remove(&mut self, course: &Course) {
        self.all -= u32::from(!course.ended);
        self.prompt -= u32::from(!course.ended && !course.late);
    }
}

/// Gathers lines of one output stream of some ranks.
#[derive(Debug)]
pub struct Merger {
    places: Places,
    courses: Vec<Course>,
    entries: VecDeque<Entry>,
    /// For each entry and for the one that comes behind them.
    due: VecDeque<Due>,
    /// Sequence number of the first entry.
    first: u64,
    /// Sequence numbers of the entries with a text.
    texts: BTreeMap<Rc<[u8]>, VecDeque<u64>>,
    /// Bytes of a line not yet ended, by the lowest rank that writes it.
    partial: BTreeMap<Rank, Vec<u8>>,
    /// Ranks that ended and whose end was not yet told.
    leaving: Vec<Rank>,
    gathered: usize,
    /// Ranks that have not yet answered.
    asked: u32,
    /// The last of them has.
    complete: bool,
    /// With ranks that are not late.
    patience: Duration,
    /// Not before then one of them may have become late.
    again: Time,
}

impl Merger {
    /// A merger for `ranks`, in a manager with so many levels of others below it.
    pub fn new(ranks: &RankSet, levels: u32) -> Self {
        let places = Places::new(ranks);
        Self {
            courses: vec![Course::default(); places.len()],
            places,
            entries: VecDeque::new(),
            due: VecDeque::from([Due { all: ranks.count(), prompt: ranks.count() }]),
            first: 0,
            texts: BTreeMap::new(),
            partial: BTreeMap::new(),
            leaving: Vec::new(),
            gathered: 0,
            asked: 0,
            complete: false,
            patience: PROMPT_PATIENCE * (levels + 1),
            again: Time::ZERO,
        }
    }

    /// These ranks have begun: from now on something is expected of them.
    pub fn begin(&mut self, now: Time, ranks: &RankSet) {
        for rank in ranks.ranks() {
            if let Some(place) = self.places.of(rank) {
                self.courses[place].heard.get_or_insert(now);
            }
        }
    }

    /// These ranks were asked something: they are waited for until they have answered.
    pub fn ask(&mut self, now: Time, ranks: &RankSet) {
        for rank in ranks.ranks() {
            let Some(place) = self.places.of(rank) else { continue };
            let at = self.index(self.courses[place].next);
            self.due[at].remove(&self.courses[place]);
            let course = &mut self.courses[place];
            (course.late, course.heard) = (false, Some(now));
            let is_new = !course.ended && !std::mem::replace(&mut course.asked, true);
            self.asked += u32::from(is_new);
            self.due[at].add(&self.courses[place]);
        }
    }

    /// Whether what `ranks` wrote had better wait: much has gathered, they can add nothing to the first
    /// of it, and others are expected to. Ends with a [`push`](Merger::push), [`end`](Merger::end) or
    /// [`flush`](Merger::flush), whose deadline is set.
    pub fn holds_back(&self, ranks: &RankSet) -> bool {
        self.gathered >= HOLD_BACK
            && self.due[0].prompt > 0
            && self.places_of(ranks).all(|place| self.courses[place].next > self.first)
    }

    /// Takes what all of `ranks` wrote, which are some of this merger's; calls `emit` with each line
    /// that goes out, without its newline.
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
        loop {
            // Every manager on the way cuts long lines in the same places.
            let most = rest.len().min(MAX_GATHERED + 1);
            let (length, newline) = match memchr::memchr(b'\n', &rest[..most]) {
                Some(at) => (at, 1),
                None if rest.len() > MAX_GATHERED => (MAX_GATHERED, 0),
                None => break,
            };
            self.line(now, ranks, &rest[..length], emit);
            rest = &rest[length + newline..];
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
            let Some(place) = self.places.of(rank) else { continue };
            if !self.courses[place].ended {
                let at = self.index(self.courses[place].next);
                self.due[at].remove(&self.courses[place]);
                self.courses[place].ended = true;
                self.answered(place);
                self.leaving.push(rank);
            }
        }
        self.emit_complete(emit);
    }

    /// Ranks that ended and all of whose lines went out, each told once.
    pub fn take_ended(&mut self) -> RankSet {
        let gone = |rank: &Rank| {
            self.places.of(*rank).is_none_or(|place| self.courses[place].next <= self.first)
        };
        let (told, leaving) = self.leaving.iter().partition::<Vec<Rank>, _>(|rank| gone(rank));
        self.leaving = leaving;
        told.into_iter().collect()
    }

    /// When [`Merger::flush`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.entries.front()?;
        Some(match self.due[0].prompt {
            0 => first.since + PATIENCE,
            _ => self.again.max(first.since + self.patience),
        })
    }

    /// Lets go what has waited long enough by `now`.
    pub fn flush(&mut self, now: Time, emit: &mut impl FnMut(&RankSet, &[u8])) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        while self.deadline().is_some_and(|at| at <= now) {
            if self.due[0].prompt > 0 {
                self.find_late(now);
                if self.due[0].prompt > 0 {
                    break;
                }
            }
            self.emit_first(emit);
        }
        for course in self.courses.iter_mut().filter(|course| course.next < self.first) {
            self.due[0].remove(course);
            course.late = true;
            self.due[0].add(course);
        }
        self.emit_complete(emit);
    }

    /// Those who could join the first line and have said nothing for long are late.
    fn find_late(&mut self, now: Time) {
        let Some(since) = self.entries.front().map(|first| first.since) else { return };
        let mut again: Option<Time> = None;
        for course in self.courses.iter_mut().filter(|course| course.next <= self.first) {
            if course.ended || course.late {
                continue;
            }
            let due = course.heard.unwrap_or(now).max(since) + self.patience;
            if due <= now {
                self.due[0].remove(course);
                course.late = true;
                self.due[0].add(course);
            } else {
                again = Some(again.map_or(due, |again| again.min(due)));
            }
        }
        self.again = again.unwrap_or(now);
    }

    fn line(
        &mut self,
        now: Time,
        ranks: &RankSet,
        text: &[u8],
        emit: &mut impl FnMut(&RankSet, &[u8]),
    ) {
        let from = self.places_of(ranks).map(|place| self.courses[place].next).max().unwrap_or(0);
        let at = match self.find(text, from) {
            Some(at) => {
                self.note_join(ranks);
                at
            }
            None => self.add(now, text),
        };
        for rank in ranks.ranks() {
            let Some(place) = self.places.of(rank) else { continue };
            let (old, new) = (self.index(self.courses[place].next), self.index(at + 1));
            self.due[old].remove(&self.courses[place]);
            self.courses[place].next = at + 1;
            self.courses[place].heard = Some(now);
            self.due[new].add(&self.courses[place]);
        }
        let index = self.index(at);
        let entry = &mut self.entries[index];
        self.gathered -= entry.cost();
        match ranks.ranges() {
            &[(low, high)] if low == high => entry.ranks.insert(Rank(low)),
            _ => entry.ranks.join(ranks),
        }
        self.gathered += entry.cost();
        if text.first() == Some(&MARK) {
            self.mark(ranks);
        }
        self.emit_complete(emit);
    }

    /// These ranks have answered, if they were asked.
    fn mark(&mut self, ranks: &RankSet) {
        for rank in ranks.ranks() {
            let Some(place) = self.places.of(rank) else { continue };
            let at = self.index(self.courses[place].next);
            self.due[at].remove(&self.courses[place]);
            self.courses[place].late |= self.answered(place);
            self.due[at].add(&self.courses[place]);
        }
    }

    fn answered(&mut self, place: usize) -> bool {
        let is_answer = std::mem::take(&mut self.courses[place].asked);
        self.asked -= u32::from(is_answer);
        self.complete |= is_answer && self.asked == 0;
        is_answer
    }

    /// `ranks` say the same as others: they are worth waiting for.
    fn note_join(&mut self, ranks: &RankSet) {
        for rank in ranks.ranks() {
            let Some(place) = self.places.of(rank) else { continue };
            let at = self.index(self.courses[place].next);
            self.due[at].remove(&self.courses[place]);
            self.courses[place].late = false;
            self.due[at].add(&self.courses[place]);
        }
    }

    /// The first entry from number `from` on that has the text.
    fn find(&self, text: &[u8], from: u64) -> Option<u64> {
        let numbers = self.texts.get(text)?;
        numbers.get(numbers.partition_point(|&number| number < from)).copied()
    }

    /// Puts an entry of nobody behind the others.
    fn add(&mut self, now: Time, text: &[u8]) -> u64 {
        let at = self.first + self.entries.len() as u64;
        let text: Rc<[u8]> = text.into();
        self.texts.entry(Rc::clone(&text)).or_default().push_back(at);
        let entry = Entry { text, ranks: RankSet::none(), since: now };
        self.gathered += entry.cost();
        self.entries.push_back(entry);
        self.due.push_back(Due::default());
        at
    }

    /// Lets go what nobody can join any more; everything, if all that were asked have answered.
    fn emit_complete(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        let all = std::mem::take(&mut self.complete);
        while (all || self.due[0].all == 0) && !self.entries.is_empty() {
            self.emit_first(emit);
        }
    }

    fn emit_first(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.first += 1;
        self.gathered -= entry.cost();
        if let Some(due) = self.due.pop_front() {
            self.due[0].all += due.all;
            self.due[0].prompt += due.prompt;
        }
        if let Some(numbers) = self.texts.get_mut(&entry.text) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.texts.remove(&entry.text);
            }
        }
        emit(&entry.ranks, &entry.text);
    }

    /// Where the entry of that number is, or the first if that one went out.
    fn index(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    fn places_of(&self, ranks: &RankSet) -> impl Iterator<Item = usize> {
        ranks.ranks().filter_map(|rank| self.places.of(rank))
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
impl Merger {
    /// A merger with nobody below, whose ranks have begun.
    pub(crate) fn begun(ranks: &RankSet) -> Self {
        let mut merger = Self::new(ranks, 0);
        merger.begin(Time::ZERO, ranks);
        merger
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
        let mut merger = Merger::begun(&RankSet::below(3));
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
        let mut merger = Merger::begun(&RankSet::below(2));
        let mut out = Out::default();
        merger.push(Time::ZERO, &one(0), line(b"a\nsame\n"), &mut out.take());
        merger.push(Time::ZERO, &one(1), line(b"same\n"), &mut out.take());
        assert_eq!(out.text(), "0: a\n0-1: same\n");
        merger.push(Time::ZERO, &one(1), line(b"late\n"), &mut out.take());
        merger.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
        assert_eq!(out.text(), "0: a\n0-1: same\n1: late\n");
    }

    #[test]
    fn who_has_begun_is_waited_for_by_the_second_from_its_last_word_and_late_ranks_hardly() {
        let (begin, second) = (Time::ZERO + PROMPT_PATIENCE * 60, PROMPT_PATIENCE);
        let mut merger = Merger::new(&RankSet::below(2), 1);
        let mut out = Out::default();
        merger.push(Time::ZERO, &one(0), line(b"a\nb\nc\n"), &mut out.take());
        merger.flush(begin, &mut out.take());
        assert!(out.0.is_empty(), "rank 1 has not begun");
        merger.begin(begin, &RankSet::below(2));
        merger.flush(begin + second, &mut out.take());
        merger.push(begin + second, &one(1), line(b"a\n"), &mut out.take());
        merger.flush(begin + second * 5 / 2, &mut out.take());
        assert_eq!(out.text(), "0-1: a\n", "rank 1 spoke a second and a half ago");
        merger.flush(begin + second * 6, &mut out.take());
        assert_eq!(out.text(), "0-1: a\n0: b\n0: c\n", "two seconds: one below may have waited");
        let now = begin + second * 6;
        merger.push(now, &one(0), line(b"d\n"), &mut out.take());
        assert_eq!(merger.deadline(), Some(now + PATIENCE), "rank 1 is late");
        merger.push(now, &one(1), line(b"d\n"), &mut out.take());
        merger.push(now, &one(0), line(b"e\n"), &mut out.take());
        assert_eq!(merger.deadline(), Some(now + 2 * second), "and is no more");
    }

    #[test]
    fn what_is_asked_of_some_goes_out_when_they_have_answered_whatever_others_might_say() {
        let mut merger = Merger::begun(&RankSet::below(4));
        let mut out = Out::default();
        let asked = RankSet::from_ranges(vec![(0, 1)]);
        merger.ask(Time::ZERO, &asked);
        merger.push(Time::ZERO, &one(0), line(b"~a\n=1 stopped\n"), &mut out.take());
        assert!(out.0.is_empty(), "rank 1 may say the same");
        merger.push(Time::ZERO, &one(1), line(b"~a\n~b\n=1 stopped\n"), &mut out.take());
        assert_eq!(out.text(), "0-1: ~a\n0: =1 stopped\n1: ~b\n1: =1 stopped\n");
        // What is said later and was not asked for waits a little: others may say it, too.
        out.0.clear();
        merger.push(Time::ZERO, &one(1), line(b"~late\n"), &mut out.take());
        merger.ask(Time::ZERO, &one(2));
        merger.push(Time::ZERO, &one(2), line(b"=2 idle\n"), &mut out.take());
        assert_eq!(out.text(), "1: ~late\n2: =2 idle\n");
        assert_eq!((merger.asked, merger.gathered), (0, 0));
    }

    #[test]
    fn a_rank_that_ended_is_not_waited_for_and_its_end_follows_its_last_line() {
        let mut merger = Merger::begun(&RankSet::below(3));
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
        let mut merger = Merger::begun(&one(4));
        for piece in long.chunks(70_000) {
            let record = Record { begin: false, end: false, head: b"", body: piece };
            merger.push(Time::ZERO, &one(4), record, &mut below.take());
        }
        let end = Record { begin: false, end: true, head: b"", body: b"" };
        merger.push(Time::ZERO, &one(4), end, &mut below.take());
        let mut merger = Merger::begun(&one(4));
        for (ranks, text) in &below.0 {
            let text = [&text[..], b"\n"].concat();
            merger.push(Time::ZERO, ranks, line(&text), &mut above.take());
        }
        assert_eq!(above, below);
        assert_eq!(below.of(4).concat(), long);
    }

    #[test]
    fn what_nobody_can_join_any_more_goes_out_at_once() {
        let mut merger = Merger::begun(&RankSet::below(3));
        let mut out = Out::default();
        for rank in [0, 1, 2, 0] {
            let text = format!("I am {rank}\n");
            merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
        }
        assert_eq!(out.text(), "0: I am 0\n1: I am 1\n", "2 and the second 0 may be joined by 1");
    }

    #[test]
    fn a_rank_far_ahead_is_held_back_until_those_behind_have_caught_up() {
        let mut merger = Merger::begun(&RankSet::below(2));
        let mut out = Out::default();
        let text: Vec<u8> = (0..9000).flat_map(|n| format!("step {n}\n").into_bytes()).collect();
        let mut pieces = [text.chunks(AT_ONCE), text.chunks(AT_ONCE)];
        while !merger.holds_back(&one(0)) {
            let body = pieces[0].next().unwrap();
            let record = Record { begin: false, end: false, head: b"", body };
            merger.push(Time::ZERO, &one(0), record, &mut out.take());
        }
        assert!(out.0.is_empty() && !merger.holds_back(&one(1)) && merger.deadline().is_some());
        for n in 0..12 {
            let rank = if merger.holds_back(&one(0)) { 1 } else { n % 2 };
            let Some(body) = pieces[rank as usize].next() else { continue };
            let record = Record { begin: false, end: false, head: b"", body };
            merger.push(Time::ZERO, &one(rank), record, &mut out.take());
        }
        assert!(out.0.len() > 1000 && out.0.iter().all(|(ranks, _)| ranks.count() == 2));
    }

    #[test]
    fn who_writes_alone_is_held_back_once() {
        let mut merger = Merger::begun(&RankSet::below(2));
        let mut out = Out::default();
        let text = vec![b'\n'; HOLD_BACK];
        merger.push(Time::ZERO, &one(0), line(&text[..2000]), &mut out.take());
        assert!(merger.holds_back(&one(0)));
        merger.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
        merger.push(Time::ZERO, &one(0), line(&text), &mut out.take());
        assert!(!merger.holds_back(&one(0)), "rank 1 is not waited for");
        merger.push(Time::ZERO, &one(1), line(b"\n"), &mut out.take());
        assert!(merger.holds_back(&one(0)), "it says the same again");
    }

    #[test]
    fn many_ranks_that_all_say_something_else_are_soon_served() {
        let mut merger = Merger::begun(&RankSet::below(500));
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
                below: [Merger::begun(&of(0)), Merger::begun(&of(1))],
                above: Merger::begun(&RankSet::below(5)),
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
                self.below[at].flush(Time::ZERO + PROMPT_PATIENCE, &mut up.take());
                self.pass(at, up, out);
            }
            self.above.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
        }
    }

    proptest! {
        #[test]
        fn each_rank_reads_its_own_lines_in_order_on_one_level_as_on_two(
            pushes in proptest::collection::vec((0u32..5, 0u8..3, 0u8..9), 0..80),
            early in proptest::collection::vec(0u32..5, 0..3),
        ) {
            let mut flat = Merger::begun(&RankSet::below(5));
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
                    flat.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
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
