//! Equal lines of several ranks become one line with the set of ranks: `0-7: text`.
//!
//! Every manager of a job merges the lines of the ranks of its host and the merged lines of its
//! children. It passes the result on; the root shows it. The order of each rank's own lines is
//! kept. Entries (a line and its ranks) wait in a queue, the oldest first. The first entry is
//! emitted when no rank that still writes can join it any longer: each rank has either joined it or
//! written something later. An entry that others might join is emitted when it has waited long
//! enough or the queue is too large.
//!
//! The waiting time depends on the other ranks. A rank on a busy machine may be behind because it
//! waits for the CPU. The merger waits for it from its latest line, or from its start, one second
//! for each level of the tree. Then the rank is late. Lines wait for late ranks only for
//! [`PATIENCE`], until these write the same as others again. A rank that writes alone therefore
//! waits for the long time only once.
//!
//! On a very busy machine, a rank may get no CPU in that time. Then the merger waits longer, at most [`MAX_PATIENCE`]
//! (`excuse.rs`).
//!
//! The merger also waits for ranks that were asked for an answer ([`Merger::ask`]). An answer ends
//! with a line that begins with [`MARK`]. When all asked ranks have answered, everything is emitted
//! at once. Equal lines are then joined where the order of each rank allows it (`arrange.rs`). The
//! ranks count as late until they are asked again.
//!
//! The owner should not read a rank for a while that is far ahead of the ranks that are not late.
//! Otherwise its lines would be emitted alone: [`Merger::holds_back`].

mod arrange;
mod excuse;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::line_splitter::Record;
use mpd_sansio::Time;
use mpd_wire::{Rank, RankSet};

use self::excuse::Excuse;
pub use self::excuse::{ANSWER_TIME, MAX_PATIENCE, QUESTION_INTERVAL};

/// The time that a line waits for late ranks to write the same, in each manager on its way.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// The time that it waits for ranks that are not late, for each level of the tree: lines of child
/// managers may have waited there.
pub const PROMPT_PATIENCE: Duration = Duration::from_secs(1);

/// A longer line is cut into lines of this length.
pub const MAX_LINE: usize = 256 * 1024;

/// Bytes that may wait for each rank, besides two lines. Beyond this the oldest lines are emitted.
const GATHERED_PER_RANK: usize = 16 * 1024;

/// Most ranks for which bytes may wait.
const MAX_GATHERING: u32 = 512;

/// Most bytes of a rank that should be pushed at once, so that it does not get far ahead.
pub const AT_ONCE: usize = 8 * 1024;

/// First byte of the line that ends the answer of an asked rank.
pub const MARK: u8 = b'=';

/// First bytes of lines that programs wrote, in the output of ranks that are asked. Such lines keep
/// the order in which they came.
const OUTPUT: [u8; 2] = [b'>', b'+'];

/// Bytes of an entry besides its text, approximately.
const ENTRY_BYTES: usize = 64;

/// Bytes of a range of ranks.
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

    /// Whether the entry is a program's line, among ranks that are asked.
    fn is_output(&self) -> bool {
        self.text.first().is_some_and(|kind| OUTPUT.contains(kind))
    }
}

/// The progress of a rank.
#[derive(Clone, Debug, Default)]
struct Course {
    /// Sequence number of the first entry that its next line may join. If the rank wrote nothing
    /// for long, that entry may have been emitted.
    next: u64,
    ended: bool,
    /// An entry was emitted without this rank, and it has not written the same as others since.
    late: bool,
    /// It has not yet answered.
    asked: bool,
    /// The time at which it last wrote, or began; `None` if it has not begun.
    received: Option<Time>,
    /// Why the merger waits longer for it.
    excuse: Option<Box<Excuse>>,
}

impl Course {
    /// When the rank is late, if it does not join an entry of that time.
    fn due(&self, now: Time, since: Time, patience: Duration) -> Time {
        let due = self.received.unwrap_or(now).max(since) + patience;
        self.excuse.as_ref().map_or(due, |excuse| due.max(excuse.until))
    }
}

/// The number of ranks that have not ended and for which one entry is the first that they may join.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    all: u32,
    /// The ranks among them that are not late.
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

/// Collects lines of one output stream of some ranks.
#[derive(Debug)]
pub struct Merger {
    positions: RankPositions,
    courses: Vec<Course>,
    entries: VecDeque<Entry>,
    /// One for each entry, and one for the entry that follows them.
    due: VecDeque<Due>,
    /// Sequence number of the first entry.
    first: u64,
    /// Sequence numbers of the entries with a text.
    texts: BTreeMap<Rc<[u8]>, VecDeque<u64>>,
    /// Bytes of a line not yet ended, by the lowest rank that writes it.
    partial: BTreeMap<Rank, Vec<u8>>,
    /// Ranks that ended and whose end was not yet passed on.
    leaving: Vec<Rank>,
    gathered: usize,
    /// Most bytes that wait; beyond them the oldest lines are emitted.
    most: usize,
    /// If so many entries wait, ranks that are ahead are held back. An entry grows while ranks join it in any order.
    ahead: usize,
    /// Ranks that have not yet answered.
    asked: u32,
    /// The last of them has answered.
    complete: bool,
    /// The waiting time for ranks that are not late.
    patience: Duration,
    /// No rank can become late before this time.
    again: Time,
    /// No question about ranks is asked before this time.
    next_question: Time,
}

impl Merger {
    /// A merger for `ranks`, in a manager with this many levels of managers below it.
    pub fn new(ranks: &RankSet, levels: u32) -> Self {
        let positions = RankPositions::new(ranks);
        let gathering = ranks.count().min(MAX_GATHERING) as usize;
        let most = 2 * MAX_LINE + GATHERED_PER_RANK * gathering;
        let largest = ENTRY_BYTES + RANGE_BYTES * gathering.div_ceil(2);
        Self {
            courses: vec![Course::default(); positions.len()],
            positions,
            entries: VecDeque::new(),
            due: VecDeque::from([Due { all: ranks.count(), prompt: ranks.count() }]),
            first: 0,
            texts: BTreeMap::new(),
            partial: BTreeMap::new(),
            leaving: Vec::new(),
            gathered: 0,
            most,
            ahead: most / 2 / largest,
            asked: 0,
            complete: false,
            patience: PROMPT_PATIENCE * (levels + 1),
            again: Time::ZERO,
            next_question: Time::ZERO,
        }
    }

    /// These ranks have begun: from now on lines wait for them.
    pub fn begin(&mut self, now: Time, ranks: &RankSet) {
        for rank in ranks.ranks() {
            if let Some(position) = self.positions.of(rank) {
                self.courses[position].received.get_or_insert(now);
            }
        }
    }

    /// These ranks were asked: lines wait for them until they have answered.
    pub fn ask(&mut self, now: Time, ranks: &RankSet) {
        for rank in ranks.ranks() {
            let Some(position) = self.positions.of(rank) else { continue };
            let at = self.index(self.courses[position].next);
            self.due[at].remove(&self.courses[position]);
            let course = &mut self.courses[position];
            (course.late, course.received) = (false, Some(now));
            let is_new = !course.ended && !std::mem::replace(&mut course.asked, true);
            self.asked += u32::from(is_new);
            self.due[at].add(&self.courses[position]);
        }
    }

    /// Whether the output of `ranks` should not be read now: much is waiting, these ranks cannot
    /// join the first entry, and others are expected to. A [`push`](Merger::push),
    /// [`end`](Merger::end) or [`flush`](Merger::flush) ends this state. The deadline for `flush`
    /// is set.
    pub fn holds_back(&self, ranks: &RankSet) -> bool {
        let is_much = self.gathered >= self.most / 4 || self.entries.len() >= self.ahead;
        is_much
            && self.due[0].prompt > 0
            && self.positions_of(ranks).all(|position| self.courses[position].next > self.first)
    }

    /// Takes the output that all of `ranks` wrote, which are ranks of this merger. Calls `emit`
    /// with each line that is emitted, without its newline.
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
            let most = rest.len().min(MAX_LINE + 1);
            let (length, newline) = match memchr::memchr(b'\n', &rest[..most]) {
                Some(at) => (at, 1),
                None if rest.len() > MAX_LINE => (MAX_LINE, 0),
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
        while self.gathered > self.most {
            self.emit_first(emit);
        }
    }

    /// `ranks` will write no more. Their last record had its end mark.
    pub fn end(&mut self, ranks: &RankSet, emit: &mut impl FnMut(&RankSet, &[u8])) {
        for rank in ranks.ranks() {
            let Some(position) = self.positions.of(rank) else { continue };
            if !self.courses[position].ended {
                let at = self.index(self.courses[position].next);
                self.due[at].remove(&self.courses[position]);
                self.courses[position].ended = true;
                self.answered(position);
                self.leaving.push(rank);
            }
        }
        self.emit_complete(emit);
    }

    /// Ranks that ended and whose lines were all emitted. Each rank is returned once.
    pub fn take_ended(&mut self) -> RankSet {
        let gone = |rank: &Rank| {
            self.positions
                .of(*rank)
                .is_none_or(|position| self.courses[position].next <= self.first)
        };
        let (reported, leaving) = self.leaving.iter().partition::<Vec<Rank>, _>(|rank| gone(rank));
        self.leaving = leaving;
        reported.into_iter().collect()
    }

    /// When [`Merger::flush`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.entries.front()?;
        Some(match self.due[0].prompt {
            0 => first.since + PATIENCE,
            _ => self.again.max(first.since + self.patience),
        })
    }

    /// Emits the entries that have waited long enough by `now`.
    pub fn flush(&mut self, now: Time, emit: &mut impl FnMut(&RankSet, &[u8])) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut entries = Vec::new();
        while self.deadline().is_some_and(|at| at <= now) {
            if self.due[0].prompt > 0 {
                self.find_late(now);
                if self.due[0].prompt > 0 {
                    break;
                }
            }
            entries.extend(self.take_first());
        }
        if self.asked > 0 {
            entries = arrange::arranged(entries, &self.positions);
        }
        entries.iter().for_each(|entry| emit(&entry.ranks, &entry.text));
        for course in self.courses.iter_mut().filter(|course| course.next < self.first) {
            self.due[0].remove(course);
            course.late = true;
            self.due[0].add(course);
        }
        self.emit_complete(emit);
    }

    /// Ranks that could join the first entry and wrote nothing for long become late.
    fn find_late(&mut self, now: Time) {
        let Some(since) = self.entries.front().map(|first| first.since) else { return };
        let mut again: Option<Time> = None;
        for course in self.courses.iter_mut().filter(|course| course.next <= self.first) {
            if course.ended || course.late {
                continue;
            }
            let due = course.due(now, since, self.patience);
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
        let from =
            self.positions_of(ranks).map(|position| self.courses[position].next).max().unwrap_or(0);
        let at = match self.find(text, from) {
            Some(at) => {
                self.note_join(ranks);
                at
            }
            None => self.add(now, text),
        };
        for rank in ranks.ranks() {
            let Some(position) = self.positions.of(rank) else { continue };
            let (old, new) = (self.index(self.courses[position].next), self.index(at + 1));
            self.due[old].remove(&self.courses[position]);
            self.courses[position].next = at + 1;
            self.courses[position].received = Some(now);
            self.courses[position].excuse = None;
            self.due[new].add(&self.courses[position]);
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
            let Some(position) = self.positions.of(rank) else { continue };
            let at = self.index(self.courses[position].next);
            self.due[at].remove(&self.courses[position]);
            self.courses[position].late |= self.answered(position);
            self.due[at].add(&self.courses[position]);
        }
    }

    fn answered(&mut self, position: usize) -> bool {
        let is_answer = std::mem::take(&mut self.courses[position].asked);
        self.asked -= u32::from(is_answer);
        self.complete |= is_answer && self.asked == 0;
        is_answer
    }

    /// `ranks` write the same as others, so they are no longer late.
    fn note_join(&mut self, ranks: &RankSet) {
        for rank in ranks.ranks() {
            let Some(position) = self.positions.of(rank) else { continue };
            let at = self.index(self.courses[position].next);
            self.due[at].remove(&self.courses[position]);
            self.courses[position].late = false;
            self.due[at].add(&self.courses[position]);
        }
    }

    /// The first entry from number `from` on that has the text.
    fn find(&self, text: &[u8], from: u64) -> Option<u64> {
        let numbers = self.texts.get(text)?;
        numbers.get(numbers.partition_point(|&number| number < from)).copied()
    }

    /// Adds an entry without ranks at the end of the queue.
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

    /// Emits the entries that no rank can join any longer. Entries of answers that others will soon
    /// give as well remain. If all asked ranks have answered, everything is emitted.
    fn emit_complete(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        if std::mem::take(&mut self.complete) {
            return self.emit_all(emit);
        }
        while self.due[0].all == 0
            && self.entries.front().is_some_and(|first| self.asked == 0 || first.is_output())
        {
            self.emit_first(emit);
        }
    }

    fn emit_all(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        let all = std::iter::from_fn(|| self.take_first()).collect();
        let all = arrange::arranged(all, &self.positions);
        all.iter().for_each(|entry| emit(&entry.ranks, &entry.text));
    }

    fn emit_first(&mut self, emit: &mut impl FnMut(&RankSet, &[u8])) {
        if let Some(entry) = self.take_first() {
            emit(&entry.ranks, &entry.text);
        }
    }

    fn take_first(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
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
        Some(entry)
    }

    /// The index of the entry with this number, or of the first entry if it was emitted.
    fn index(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    fn positions_of(&self, ranks: &RankSet) -> impl Iterator<Item = usize> {
        ranks.ranks().filter_map(|rank| self.positions.of(rank))
    }
}

/// The positions of ranks: indices of tables, from 0 without gaps, in the order of the ranks.
#[derive(Debug)]
struct RankPositions {
    /// Lowest rank, highest rank, and the index of the lowest.
    ranges: Vec<(u32, u32, usize)>,
}

impl RankPositions {
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

    /// All ranks, in the order of their positions.
    fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.ranges.iter().flat_map(|&(low, high, _)| (low..=high).map(Rank))
    }

    fn of(&self, rank: Rank) -> Option<usize> {
        let at = self.ranges.partition_point(|&(_, high, _)| high < rank.0);
        let &(low, _, number) = self.ranges.get(at).filter(|&&(low, _, _)| low <= rank.0)?;
        Some(number + (rank.0 - low) as usize)
    }
}

#[cfg(test)]
impl Merger {
    /// A merger without managers below, whose ranks have begun.
    pub(crate) fn begun(ranks: &RankSet) -> Self {
        let mut merger = Self::new(ranks, 0);
        merger.begin(Time::ZERO, ranks);
        merger
    }
}

#[cfg(test)]
mod tests;
