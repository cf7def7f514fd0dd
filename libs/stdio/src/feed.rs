//! Standard input, dealt to its receivers. The buffer is bounded, every receiver gets every byte,
//! and the slowest receiver sets the pace. A receiver that closes its input or exits drops out.
//!
//! Receivers are ranks of this host and child managers, which deal to their own receivers. The set
//! of receiving ranks can change while the job runs. Bytes pushed before the change go to the
//! receivers before the change. Child managers get the change at its position in the stream, so
//! that all managers switch at the same byte.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::input::{MAX_PIECE, MAX_RANKS, Stdin};
use mpd_wire::{Rank, RankSet};

/// Bytes that may be in transit between the sender and the slowest receiver.
pub const WINDOW: usize = 256 * 1024;

/// A receiver of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// A rank of this host.
    Rank(Rank),
    /// The child manager at this tree index.
    Child(usize),
}

impl Receiver {
    /// The receivers that lead to `ranks`, of the ranks of this host and those of each child
    /// manager.
    pub fn of<'a>(
        ranks: &RankSet,
        here: &RankSet,
        children: impl IntoIterator<Item = (usize, &'a RankSet)>,
    ) -> Vec<Self> {
        let here = here.ranks().filter(|&rank| ranks.contains(rank)).map(Self::Rank);
        let touched = |other: &RankSet| other.ranks().any(|rank| ranks.contains(rank));
        let children = children.into_iter().filter(|(_, other)| touched(other));
        here.chain(children.map(|(tree_index, _)| Self::Child(tree_index))).collect()
    }
}

/// One item that a receiver has still to get.
#[derive(Clone, Debug)]
enum Step {
    /// The bytes from one position of the stream to another; `None` is the end of the stream.
    Bytes { from: u64, to: Option<u64> },
    /// A message for the receiver: these ranks get the input that follows.
    Switch(RankSet),
}

/// The items that a receiver has still to get.
#[derive(Debug, Default)]
struct Course {
    steps: VecDeque<Step>,
    /// Bytes that it may still be given. `None` for a rank, whose pipe is its limit.
    credit: Option<usize>,
    /// The number of switches that were sent to it.
    switches: u32,
}

impl Course {
    fn new(receiver: Receiver) -> Self {
        let credit = matches!(receiver, Receiver::Child(_)).then_some(0);
        Self { credit, ..Self::default() }
    }

    fn is_current(&self) -> bool {
        matches!(self.steps.back(), Some(Step::Bytes { to: None, .. }))
    }

    /// The position of the next byte for it.
    fn position(&self) -> Option<u64> {
        self.steps.iter().find_map(|step| match step {
            Step::Bytes { from, .. } => Some(*from),
            Step::Switch(_) => None,
        })
    }

    /// From position `here` on it gets the bytes.
    fn begin(&mut self, here: u64) {
        match self.steps.back_mut() {
            Some(Step::Bytes { to, .. }) if to.is_none_or(|to| to == here) => *to = None,
            _ => self.steps.push_back(Step::Bytes { from: here, to: None }),
        }
    }

    /// From position `here` on it gets no bytes.
    fn cease(&mut self, here: u64) {
        match self.steps.back_mut() {
            Some(Step::Bytes { from, to: None }) if *from == here => {
                self.steps.pop_back();
            }
            Some(Step::Bytes { to: to @ None, .. }) => *to = Some(here),
            Some(Step::Bytes { .. } | Step::Switch(_)) | None => {}
        }
    }

    /// Adds a switch at this position. A switch that was not yet sent, and after which there was no
    /// byte, is replaced.
    fn report(&mut self, ranks: &RankSet) {
        if let Some(Step::Switch(_)) = self.steps.back() {
            self.steps.pop_back();
        }
        self.steps.push_back(Step::Switch(ranks.clone()));
    }
}

/// The input of one job in one of its managers.
#[derive(Debug)]
pub struct Feed {
    window: usize,
    buffer: VecDeque<u8>,
    /// Stream position of the first byte in the buffer.
    base: u64,
    ended: bool,
    courses: BTreeMap<Receiver, Course>,
    /// Receivers that will take no more input.
    gone: BTreeSet<Receiver>,
    /// Bytes that were freed and not yet granted to the sender.
    freed: usize,
    /// The number of switches so far.
    switches: u32,
    /// The number of switches at the time when the sender received the message that no rank
    /// receives.
    unwanted: Option<u32>,
}

impl Feed {
    /// A feed for `receivers` that grants `window` bytes of credit. `others` do not receive now,
    /// but get switches and the end.
    pub fn new(
        receivers: impl IntoIterator<Item = Receiver>,
        others: impl IntoIterator<Item = Receiver>,
        window: usize,
    ) -> Self {
        let mut feed = Self {
            window,
            buffer: VecDeque::new(),
            base: 0,
            ended: false,
            courses: BTreeMap::new(),
            gone: BTreeSet::new(),
            freed: window,
            switches: 0,
            unwanted: None,
        };
        for receiver in others {
            feed.course(receiver);
        }
        for receiver in receivers {
            feed.course(receiver).begin(0);
        }
        // The sender knows that already.
        feed.unwanted = feed.is_unwanted().then_some(0);
        feed
    }

    fn course(&mut self, receiver: Receiver) -> &mut Course {
        self.courses.entry(receiver).or_insert_with(|| Course::new(receiver))
    }

    /// Takes bytes from the sender. Bytes that come while no rank receives are discarded.
    ///
    /// # Errors
    /// When more bytes came than there was credit for. The bytes are not taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooMuchInput> {
        if self.buffer.len() + self.freed + bytes.len() > self.window {
            return Err(TooMuchInput);
        }
        if self.is_unwanted() || self.ended {
            self.freed += bytes.len();
            return Ok(());
        }
        self.buffer.extend(bytes);
        Ok(())
    }

    /// Marks the end of the input.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// From the end of the pushed bytes on, `receivers` get the input; child managers get a switch
    /// to `ranks`. Receivers that are gone stay so.
    ///
    /// # Errors
    /// When the text of `ranks` is too long for a message. Then the call changes nothing.
    pub fn switch(
        &mut self,
        ranks: &RankSet,
        receivers: impl IntoIterator<Item = Receiver>,
    ) -> Result<(), TooManyRanges> {
        if ranks.to_string().len() > MAX_RANKS {
            return Err(TooManyRanges);
        }
        let here = self.position();
        let mut wanted: BTreeSet<Receiver> = receivers.into_iter().collect();
        wanted.retain(|receiver| !self.gone.contains(receiver));
        for &receiver in &wanted {
            self.course(receiver);
        }
        for (receiver, course) in &mut self.courses {
            course.cease(here);
            if matches!(receiver, Receiver::Child(_)) {
                course.report(ranks);
            }
            if wanted.contains(receiver) {
                course.begin(here);
            }
        }
        self.switches += 1;
        self.trim();
        Ok(())
    }

    /// The next item for `receiver`, if one can be given to it now: bytes, of which it may
    /// [take](Feed::took) a part, or a message that it must [be sent](Feed::reported).
    pub fn next(&self, receiver: Receiver) -> Option<Stdin<'_>> {
        let course = self.courses.get(&receiver)?;
        match course.steps.front() {
            Some(Step::Switch(ranks)) => return Some(Stdin::Switch(ranks.clone())),
            Some(&Step::Bytes { from, to }) => {
                let bytes = self.bytes(from, to.unwrap_or(self.position()));
                let most = course.credit.map_or(usize::MAX, |credit| credit.min(MAX_PIECE));
                let bytes = &bytes[..bytes.len().min(most)];
                if !bytes.is_empty() {
                    return Some(Stdin::Bytes(bytes));
                }
                if to.is_some() || from < self.position() {
                    return None;
                }
            }
            None => {}
        }
        self.ended.then_some(Stdin::End)
    }

    /// `receiver` took this many of the next bytes.
    pub fn took(&mut self, receiver: Receiver, bytes: usize) {
        let Some(course) = self.courses.get_mut(&receiver) else { return };
        if let Some(Step::Bytes { from, to }) = course.steps.front_mut() {
            *from += bytes as u64;
            if *to == Some(*from) {
                course.steps.pop_front();
            }
        }
        if let Some(credit) = &mut course.credit {
            *credit = credit.saturating_sub(bytes);
        }
        self.trim();
    }

    /// `receiver` was sent the next message. After the end it is gone.
    pub fn reported(&mut self, receiver: Receiver) {
        let Some(course) = self.courses.get_mut(&receiver) else { return };
        if let Some(Step::Switch(_)) = course.steps.front() {
            course.steps.pop_front();
            course.switches += 1;
        } else if self.ended {
            self.drop_out(receiver);
        }
    }

    /// The manager at tree index `tree_index` takes `bytes` more.
    pub fn grant(&mut self, tree_index: usize, bytes: u32) {
        let course = self.courses.get_mut(&Receiver::Child(tree_index));
        if let Some(credit) = course.and_then(|course| course.credit.as_mut()) {
            *credit = credit.saturating_add(bytes as usize);
        }
    }

    /// `receiver` takes no more input.
    pub fn drop_out(&mut self, receiver: Receiver) {
        self.courses.remove(&receiver);
        self.gone.insert(receiver);
        self.trim();
    }

    /// No rank at or below `tree_index` receives now, until a switch adds one. The manager there had
    /// received `switches` switches when it sent this. A later switch makes its message void, and
    /// it will send the message again.
    pub fn drop_out_child(&mut self, tree_index: usize, switches: u32) {
        let Some(course) = self.courses.get_mut(&Receiver::Child(tree_index)) else { return };
        if course.switches == switches {
            while let Some(Step::Bytes { .. }) = course.steps.front() {
                course.steps.pop_front();
            }
            self.trim();
        }
    }

    /// Whether no receiver would take the bytes that are pushed next. A switch can change this.
    pub fn is_unwanted(&self) -> bool {
        !self.courses.values().any(Course::is_current)
    }

    /// All receivers that may have an item to get.
    pub fn receivers(&self) -> impl Iterator<Item = Receiver> + '_ {
        self.courses.keys().copied()
    }

    /// Credit to grant to the sender, if it is worth a message and a rank receives. After the
    /// sender was informed that no rank receives, a grant, even of 0 bytes, means that a rank
    /// receives again.
    pub fn take_credit(&mut self) -> Option<u32> {
        if self.is_unwanted() || self.ended {
            return None;
        }
        let again = self.unwanted.take().is_some();
        if self.freed < self.window / 4 && !again {
            return None;
        }
        u32::try_from(std::mem::take(&mut self.freed)).ok()
    }

    /// The message that no rank receives, if it is due: the number of switches so far.
    pub fn take_unwanted(&mut self) -> Option<u32> {
        if !self.is_unwanted() || self.ended || self.unwanted == Some(self.switches) {
            return None;
        }
        self.unwanted = Some(self.switches);
        self.unwanted
    }

    /// The position at the end of the pushed bytes.
    fn position(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// The bytes from one position to another, as far as they are contiguous in the buffer.
    fn bytes(&self, from: u64, to: u64) -> &[u8] {
        let offset = |at: u64| usize::try_from(at - self.base).unwrap_or(usize::MAX);
        let (from, to) = (offset(from), offset(to));
        let (front, back) = self.buffer.as_slices();
        if from < front.len() {
            &front[from..to.min(front.len())]
        } else {
            &back[from - front.len()..to - front.len()]
        }
    }

    fn trim(&mut self) {
        let slowest = self.courses.values().filter_map(Course::position).min();
        let slowest = slowest.unwrap_or(self.position());
        let done = usize::try_from(slowest - self.base).unwrap_or(0);
        self.buffer.drain(..done);
        self.base = slowest;
        self.freed += done;
    }
}

/// The sender sent more than it had credit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more standard input than there was credit for")]
pub struct TooMuchInput;

/// A set of ranks with too many ranges for a message to child managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ranks for standard input have too many ranges; use fewer ranges")]
pub struct TooManyRanges;

#[cfg(test)]
mod tests {
    use super::*;

    const R0: Receiver = Receiver::Rank(Rank(0));
    const R1: Receiver = Receiver::Rank(Rank(1));
    const B3: Receiver = Receiver::Child(3);

    fn bytes(feed: &Feed, receiver: Receiver) -> Vec<u8> {
        match feed.next(receiver) {
            Some(Stdin::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn take_all(feed: &mut Feed, receiver: Receiver) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(Stdin::Bytes(bytes)) = feed.next(receiver) {
            taken.extend_from_slice(bytes);
            let n = bytes.len();
            feed.took(receiver, n);
        }
        taken
    }

    #[test]
    fn the_slowest_receiver_sets_the_pace_and_leaving_lifts_it() {
        let mut feed = Feed::new([R0, R1], [], WINDOW);
        assert_eq!(feed.take_credit(), Some(WINDOW as u32));
        feed.push(&vec![b'x'; WINDOW]).unwrap();
        assert_eq!(feed.push(b"y"), Err(TooMuchInput));
        assert_eq!(take_all(&mut feed, R0).len(), WINDOW);
        assert_eq!(feed.take_credit(), None, "rank 1 has read nothing");
        feed.drop_out(R1);
        assert_eq!(feed.take_credit(), Some(WINDOW as u32));
    }

    #[test]
    fn a_receiver_gets_the_end_after_the_last_byte() {
        let mut feed = Feed::new([R0], [R1], WINDOW);
        feed.take_credit();
        feed.push(b"ab").unwrap();
        feed.end();
        assert_eq!(bytes(&feed, R0), b"ab");
        feed.took(R0, 2);
        assert_eq!(feed.next(R0), Some(Stdin::End));
        assert_eq!(feed.next(R1), Some(Stdin::End));
        feed.reported(R0);
        assert_eq!(feed.next(R0), None, "it is reported once");
    }

    #[test]
    fn input_without_a_receiver_is_discarded_and_reported_once() {
        let mut feed = Feed::new([R0], [], WINDOW);
        feed.take_credit();
        assert_eq!(feed.take_unwanted(), None);
        feed.drop_out(R0);
        assert_eq!(feed.take_unwanted(), Some(0));
        assert_eq!(feed.take_unwanted(), None);
        assert_eq!(feed.push(&vec![0; WINDOW]), Ok(()));
        assert_eq!(feed.take_credit(), None);
        feed.switch(&RankSet::all(), [R0, R1]).unwrap();
        assert_eq!(feed.take_credit(), Some(WINDOW as u32), "a switch brought somebody back");
        feed.push(b"more").unwrap();
        assert_eq!((feed.next(R0), bytes(&feed, R1)), (None, b"more".to_vec()));
    }

    #[test]
    fn a_child_manager_gets_no_more_than_it_granted() {
        let mut feed = Feed::new([B3], [], WINDOW);
        feed.take_credit();
        feed.push(b"abcdef").unwrap();
        assert_eq!(feed.next(B3), None);
        feed.grant(3, 4);
        assert_eq!(take_all(&mut feed, B3), b"abcd");
        feed.end();
        assert_eq!(feed.next(B3), None, "the end waits for the bytes before it");
        feed.grant(3, 4);
        assert_eq!(take_all(&mut feed, B3), b"ef");
        assert_eq!(feed.next(B3), Some(Stdin::End));
    }

    #[test]
    fn bytes_pushed_before_a_switch_go_to_the_earlier_receivers() {
        let mut feed = Feed::new([R0, B3], [], WINDOW);
        feed.take_credit();
        feed.grant(3, 100);
        feed.push(b"old").unwrap();
        let ranks: RankSet = "1,7".parse().unwrap();
        feed.switch(&ranks, [R1, B3]).unwrap();
        feed.push(b"new").unwrap();
        assert_eq!(take_all(&mut feed, R0), b"old");
        assert_eq!(take_all(&mut feed, R1), b"new");
        assert_eq!(take_all(&mut feed, B3), b"old");
        assert_eq!(feed.next(B3), Some(Stdin::Switch(ranks)));
        feed.reported(B3);
        assert_eq!(take_all(&mut feed, B3), b"new");
        feed.switch(&RankSet::none(), []).unwrap();
        feed.switch(&RankSet::below(1), [R0]).unwrap();
        assert_eq!(feed.next(B3), Some(Stdin::Switch(RankSet::below(1))), "the last one counts");
    }

    #[test]
    fn a_message_that_no_rank_below_receives_is_void_after_a_later_switch() {
        let mut feed = Feed::new([B3], [], WINDOW);
        feed.take_credit();
        feed.grant(3, 100);
        feed.switch(&RankSet::all(), [B3]).unwrap();
        feed.reported(B3);
        feed.drop_out_child(3, 0);
        assert!(!feed.is_unwanted(), "it did not know of the switch");
        feed.drop_out_child(3, 1);
        assert!(feed.is_unwanted());
        feed.switch(&RankSet::all(), [B3]).unwrap();
        assert!(!feed.is_unwanted());
    }
}
