//! Standard input on its way to ranks of this host and to managers below.

use mpd_wire::Rank;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{JobNews, Up};

use super::Stdio;
use super::facts::Facts;
use super::input::Written;
use super::output::{Action, Level, Output};
use super::patterns::receivers;
use crate::feed::Receiver;
use crate::input::Stdin;

/// Whether one rank alone receives input, and is no debugger.
fn is_only_receiver(spec: &JobSpec) -> bool {
    spec.debug.is_none() && spec.stdin.ranks().nth(1).is_none()
}

fn unread_text(bytes: u64) -> String {
    format!(
        "the job did not read its standard input, of which it got {bytes} bytes; -s none leaves it to others, like a loop \
         that reads lines"
    )
}

impl Stdio {
    /// Takes encoded input from the parent.
    pub(super) fn take_encoded(&mut self, facts: &Facts<'_>, payload: &[u8]) {
        match Stdin::decode(payload) {
            Ok(input) => self.take_input(facts, &input),
            Err(e) => self.log(Level::Warn, format!("the parent sent {e}")),
        }
    }

    /// Takes input of the console or of the parent.
    pub(super) fn take_input(&mut self, facts: &Facts<'_>, input: &Stdin<'_>) {
        let refused = match input {
            Stdin::Bytes(bytes) => self.feed.push(bytes).err().map(|e| e.to_string()),
            Stdin::Switch(ranks) => {
                let receivers = receivers(facts.order, ranks);
                self.feed.switch(ranks, receivers).err().map(|e| e.to_string())
            }
            Stdin::End => {
                self.feed.end();
                None
            }
        };
        if let Some(problem) = refused {
            self.log(Level::Warn, format!("standard input: {problem}"));
        }
        for receiver in self.feed.receivers().collect::<Vec<_>>() {
            match receiver {
                Receiver::Rank(rank) => self.feeding.push_back(rank),
                Receiver::Child(tree_index) => self.feed_child(facts, tree_index),
            }
        }
        self.offer_credit(facts);
        self.review_feeding(facts);
    }

    /// Notes that the standard input of a rank has become writable.
    pub fn mark_writable(&mut self, rank: Rank) {
        self.writable.push(rank);
    }

    /// Passes input to ranks whose pipes are writable.
    pub fn feed_ready(&mut self, facts: &Facts<'_>) {
        let ranks = std::mem::take(&mut self.writable);
        self.feeding.extend(ranks.into_iter().filter(|rank| self.streams.contains_key(rank)));
        self.review_feeding(facts);
    }

    /// The next bytes of input, and the rank that may get them.
    pub(super) fn next_input(&self) -> Option<(Rank, &[u8])> {
        let rank = *self.feeding.front()?;
        match self.feed.next(Receiver::Rank(rank)) {
            Some(Stdin::Bytes(bytes)) => Some((rank, bytes)),
            Some(Stdin::Switch(_) | Stdin::End) | None => None,
        }
    }

    /// Ends the turns of ranks that accept no input, and of those for which there is none.
    fn review_feeding(&mut self, facts: &Facts<'_>) {
        while let Some(&rank) = self.feeding.front() {
            let receiver = Receiver::Rank(rank);
            match self.streams.get(&rank).map(|streams| streams.has_input) {
                None => self.end_turn_of_front(facts),
                Some(false) => {
                    self.end_feeding(facts, receiver);
                    self.end_turn_of_front(facts);
                }
                Some(true) => match self.feed.next(receiver) {
                    Some(Stdin::Bytes(_)) => return,
                    Some(Stdin::Switch(_)) => self.feed.reported(receiver),
                    Some(Stdin::End) => {
                        self.end_input(rank);
                        self.feed.reported(receiver);
                        self.end_turn_of_front(facts);
                    }
                    None => self.end_turn_of_front(facts),
                },
            }
        }
    }

    /// Takes the result of a write to a rank.
    pub(super) fn fed(&mut self, facts: &Facts<'_>, rank: Rank, written: &Written) {
        match written {
            Written::Bytes(count) => self.feed.took(Receiver::Rank(rank), *count),
            Written::Full => self.end_turn_of_front(facts),
            Written::Closed | Written::Failed(_) => {
                self.end_feeding(facts, Receiver::Rank(rank));
                self.end_turn_of_front(facts);
            }
        }
        self.review_feeding(facts);
    }

    fn end_turn_of_front(&mut self, facts: &Facts<'_>) {
        self.feeding.pop_front();
        self.offer_credit(facts);
    }

    /// Sends to a child as much as it has given credit for.
    pub(super) fn feed_child(&mut self, facts: &Facts<'_>, tree_index: usize) {
        let receiver = Receiver::Child(tree_index);
        while let Some(input) = self.feed.next(receiver) {
            self.pending.push_back(Output::StdinPiece(tree_index, input.encode()));
            match input {
                Stdin::Bytes(bytes) => {
                    let length = bytes.len();
                    self.feed.took(receiver, length);
                }
                Stdin::Switch(_) | Stdin::End => self.feed.reported(receiver),
            }
        }
        self.offer_credit(facts);
    }

    /// Reports that a rank has ended and has read nothing of its input, of which it got some bytes.
    pub(super) fn report_unread(&mut self, facts: &Facts<'_>, bytes: u64) {
        if is_only_receiver(facts.spec) {
            self.emit(Output::Notice(unread_text(bytes)));
        }
    }

    fn end_input(&mut self, rank: Rank) {
        if let Some(streams) = self.streams.get_mut(&rank)
            && std::mem::take(&mut streams.has_input)
        {
            self.emit(Output::Act(Action::EndInput(rank)));
        }
    }

    /// Ends the input of a receiver.
    pub(super) fn end_feeding(&mut self, facts: &Facts<'_>, receiver: Receiver) {
        if let Receiver::Rank(rank) = receiver
            && self.streams.contains_key(&rank)
        {
            self.end_input(rank);
            // Spawned ranks get no input, and their number is unlimited. So the feed does not remember them.
            if !facts.is_first(rank) {
                return;
            }
        }
        self.feed.drop_out(receiver);
        self.offer_credit(facts);
    }

    /// Gives credit to the sender of input, or reports that no rank accepts input.
    pub(super) fn offer_credit(&mut self, facts: &Facts<'_>) {
        if let Some(bytes) = self.feed.take_credit() {
            self.emit(match facts.is_root() {
                true => Output::ToConsole(JobNews::StdinCredit { bytes }),
                false => Output::ToParent(Up::StdinCredit { bytes }),
            });
        }
        if let Some(switches) = self.feed.take_unwanted() {
            self.emit(match facts.is_root() {
                true => Output::ToConsole(JobNews::StdinUnwanted),
                false => Output::ToParent(Up::StdinUnwanted { switches }),
            });
        }
    }
}
