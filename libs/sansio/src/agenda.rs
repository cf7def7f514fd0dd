//! The errands of a machine that asks its owner and continues with the answer.

use std::collections::VecDeque;
use std::fmt::Debug;

/// What a machine has still to do, and its open question. It has at most one, and no errand begins before the answer. So
/// the order of questions and outputs is the order of the owner's system calls.
///
/// `E` are the errands. `W` says what the machine continues with when the answer has come.
#[derive(Debug)]
pub struct Agenda<E, W> {
    errands: VecDeque<E>,
    waiting: Option<W>,
}

impl<E, W> Default for Agenda<E, W> {
    fn default() -> Self {
        Self { errands: VecDeque::new(), waiting: None }
    }
}

impl<E, W: Debug> Agenda<E, W> {
    /// Adds errands before all others, in their order.
    pub fn follow<const N: usize>(&mut self, errands: [E; N]) {
        for errand in errands.into_iter().rev() {
            self.errands.push_front(errand);
        }
    }

    /// Adds an errand behind all others.
    pub fn add(&mut self, errand: E) {
        self.errands.push_back(errand);
    }

    /// The next errand; `None` while a question is open, and when all is done.
    pub fn next_errand(&mut self) -> Option<E> {
        if self.waiting.is_some() { None } else { self.errands.pop_front() }
    }

    /// Notes that a question was asked.
    ///
    /// # Panics
    /// In debug builds, if another one is open.
    pub fn ask(&mut self, waiting: W) {
        self.check_answered();
        self.waiting = Some(waiting);
    }

    /// The answer has come. What the machine continues with; `None` without an open question.
    pub const fn answered(&mut self) -> Option<W> {
        self.waiting.take()
    }

    /// Checks that the owner gives no other input before the answer.
    ///
    /// # Panics
    /// In debug builds, if a question is open.
    pub fn check_answered(&self) {
        debug_assert!(self.waiting.is_none(), "{:?} is not answered", self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_errand_begins_before_the_answer_and_those_that_follow_come_first() {
        let mut agenda = Agenda::default();
        agenda.add(3);
        agenda.follow([1, 2]);
        assert_eq!(agenda.next_errand(), Some(1));
        agenda.ask("one");
        assert_eq!(agenda.next_errand(), None);
        assert_eq!(agenda.answered(), Some("one"));
        assert_eq!((agenda.next_errand(), agenda.next_errand()), (Some(2), Some(3)));
        assert_eq!((agenda.next_errand(), agenda.answered()), (None, None));
    }
}
