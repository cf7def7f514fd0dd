//! The way out for texts of clients to the user, and for their events to other hosts. While too much of them is under way,
//! further ones wait as requests without an answer. So they count for the budget of their rank, whose client is not read
//! beyond it.

use std::time::Duration;

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::one_line;
use pmix_proto::{Answer, Operation, Status};

use super::logs::{Room, Text};
use super::waiter::Waiter;
use super::{Pmix, Timer};
use crate::turn::Turn;

/// Longest text of a library for the user.
const MAX_LOG: usize = 4096;

/// When the way out is looked at again.
const AGAIN: Duration = Duration::from_millis(10);

impl Pmix {
    /// Notes what may be sent in this turn.
    pub(crate) const fn note_room(&mut self, room: Room) {
        self.logs.room = room;
    }

    /// Sends a text or an event, behind those that wait.
    pub(super) fn send_out(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        operation: Operation,
    ) {
        match operation {
            Operation::Log { mut text, .. } => {
                text.truncate(MAX_LOG);
                self.logs.texts.push_back(Text { waiter: Some(waiter), rank, text });
            }
            Operation::Notify(event) => self.logs.events.push_back((waiter, rank, event)),
            _ => return,
        }
        self.send_waiting(turn);
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn send_waiting(&mut self, turn: &mut Turn<'_>) {
        while let Some((waiter, rank, event)) = self.logs.next_event() {
            self.forward(turn, waiter, rank, event);
        }
        while let Some(Text { waiter, rank, text }) = self.logs.next_text() {
            if let Some(waiter) = waiter {
                self.answer(waiter, Answer::Done(Status::SUCCESS));
            }
            pass_on_text(turn, rank, &text);
        }
        if !(self.logs.texts.is_empty() && self.logs.events.is_empty()) {
            self.timers.set(Timer::Out, turn.now() + AGAIN);
        }
    }
}

/// Shows the user a text of a library, line by line.
fn pass_on_text(turn: &mut Turn<'_>, rank: Rank, text: &[u8]) {
    let name = turn.job.name_of(rank);
    let text = String::from_utf8_lossy(text);
    let is_rule = |line: &str| line.bytes().all(|byte| byte == b'-' || byte == b' ');
    for line in text.lines().filter(|line| !is_rule(line)) {
        turn.post(Input::Notice(format!("rank {name}: {}", one_line(line.trim()))));
    }
}
