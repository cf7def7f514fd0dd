//! Output of the program: lines, and pieces of lines that do not end for a while.

use std::collections::VecDeque;

use super::{MAX_TEXT, Output, pending_text};
use mpd_sansio::Time;
use mpd_stdio::silence::{MAX_HOLD_TIME, Task, Unfinished};

/// The output of the program's terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    partial: Vec<u8>,
    /// A piece of the line was sent.
    is_open: bool,
    /// When the present piece is sent.
    piece: Unfinished,
}

impl Default for Terminal {
    fn default() -> Self {
        // No other rank waits for the end of the line.
        let piece = Unfinished::new(MAX_HOLD_TIME);
        Self { partial: Vec::new(), is_open: false, piece }
    }
}

impl Terminal {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.piece.deadline()
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
        if bytes.contains(&b'\n') || self.partial.is_empty() {
            self.piece.end();
        }
        if !self.partial.is_empty() {
            self.piece.goes_on(now);
        }
    }

    /// The terminal is not read now: the program may have written the rest of its line.
    pub(super) fn unread(&mut self, now: Time) {
        self.piece.restart(now);
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
        pending_text::say(b'>', &self.partial, outputs);
        self.partial.clear();
        self.is_open = false;
    }

    /// The deadline may have passed. These threads of the program are ready to run.
    pub(super) fn look(&mut self, now: Time, threads: &[Task], outputs: &mut VecDeque<Output>) {
        let is_due = self.deadline().is_some_and(|deadline| deadline <= now);
        if is_due && self.piece.is_over(now, threads) {
            self.pause(outputs);
        }
    }

    /// Sends the present part of an unfinished line.
    pub(super) fn pause(&mut self, outputs: &mut VecDeque<Output>) {
        self.piece.end();
        if !self.partial.is_empty() {
            pending_text::say(b'+', &self.partial, outputs);
            self.partial.clear();
            self.is_open = true;
        }
    }

    /// Nothing more of an unfinished line will come.
    pub(super) fn finish(&mut self, outputs: &mut VecDeque<Output>) {
        self.piece.end();
        if self.is_open || !self.partial.is_empty() {
            self.end_line(outputs);
        }
    }
}
