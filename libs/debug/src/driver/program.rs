//! Output of the program: lines, and pieces of lines that do not end for a while.

use std::collections::VecDeque;

use super::{MAX_TEXT, Output, STILL, said};
use mpd_machine::Time;

/// The output of the program's terminal.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    partial: Vec<u8>,
    /// A piece of the line was sent.
    is_open: bool,
    deadline: Option<Time>,
}

impl Terminal {
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    pub(super) fn output(&mut self, now: Time, bytes: &[u8], outputs: &mut VecDeque<Output>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', text)) => {
                    self.extend(text, outputs);
                    if self.partial.last() == Some(&b'\r') {
                        self.partial.pop();
                    }
                    self.end_line(outputs);
                }
                _ => self.extend(piece, outputs),
            }
        }
        self.deadline = (!self.partial.is_empty()).then(|| now + STILL);
    }

    /// The terminal is not read now: the program may have written the rest of its line.
    pub(super) fn unread(&mut self, now: Time) {
        self.deadline = self.deadline.map(|_| now + STILL);
    }

    fn extend(&mut self, mut text: &[u8], outputs: &mut VecDeque<Output>) {
        while self.partial.len() + text.len() > MAX_TEXT {
            let (now, later) = text.split_at(MAX_TEXT - self.partial.len());
            self.partial.extend(now);
            self.pause(outputs);
            text = later;
        }
        self.partial.extend(text);
    }

    fn end_line(&mut self, outputs: &mut VecDeque<Output>) {
        said::say(b'>', &self.partial, outputs);
        self.partial.clear();
        self.is_open = false;
    }

    pub(super) fn timeout(&mut self, now: Time, outputs: &mut VecDeque<Output>) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.pause(outputs);
        }
    }

    /// Sends the present part of an unfinished line.
    pub(super) fn pause(&mut self, outputs: &mut VecDeque<Output>) {
        self.deadline = None;
        if !self.partial.is_empty() {
            said::say(b'+', &self.partial, outputs);
            self.partial.clear();
            self.is_open = true;
        }
    }

    /// Nothing more of an unfinished line will come.
    pub(super) fn finish(&mut self, outputs: &mut VecDeque<Output>) {
        self.deadline = None;
        if self.is_open || !self.partial.is_empty() {
            self.end_line(outputs);
        }
    }
}
