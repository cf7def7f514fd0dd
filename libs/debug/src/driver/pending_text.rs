//! gdb's texts: pieces of text become lines, and errors are separated from other text.

use std::collections::VecDeque;

use super::texts::{self, Normal};
use super::{MAX_TEXT, Output};

/// Sends lines of this kind. Long lines are cut.
pub(super) fn say(kind: u8, text: &[u8], outputs: &mut VecDeque<Output>) {
    let empty = [text];
    let pieces: &mut dyn Iterator<Item = &[u8]> =
        if text.is_empty() { &mut empty.into_iter() } else { &mut text.chunks(MAX_TEXT) };
    for piece in pieces {
        let mut line = Vec::with_capacity(piece.len() + 2);
        line.push(kind);
        line.extend(piece);
        line.push(b'\n');
        outputs.push_back(Output::Say(line));
    }
}

/// Texts of gdb that were not sent yet.
#[derive(Debug, Default)]
pub(super) struct PendingText {
    /// Text of the console stream, up to the end of a line.
    console: Vec<u8>,
    /// An empty line of the console stream waits, and may be left out.
    is_parted: bool,
    /// Text of the log, until the answer shows whether it is an error.
    log: Vec<u8>,
    /// The program is being killed: the driver reports its death in its own text.
    pub(super) killing: bool,
}

impl PendingText {
    pub(super) fn console(&mut self, text: &[u8], outputs: &mut VecDeque<Output>) {
        self.release_log(b'~', outputs);
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', rest)) => {
                    self.console.extend(rest);
                    self.end_line(outputs);
                }
                _ => self.console.extend(piece),
            }
            if self.console.len() >= MAX_TEXT {
                self.end_line(outputs);
            }
        }
    }

    fn end_line(&mut self, outputs: &mut VecDeque<Output>) {
        let line = std::mem::take(&mut self.console);
        if self.killing && texts::is_of_a_kill(&line) {
            return;
        }
        let line = match texts::normal(&line) {
            Normal::Same => line,
            Normal::Instead(line) => line,
            Normal::Nothing => return,
        };
        if self.is_parted && texts::is_parted(&line) {
            self.is_parted = false;
        }
        self.part(outputs);
        match line.is_empty() {
            true => self.is_parted = true,
            false => say(b'~', &line, outputs),
        }
    }

    /// Sends the empty line that waits.
    fn part(&mut self, outputs: &mut VecDeque<Output>) {
        if std::mem::take(&mut self.is_parted) {
            say(b'~', b"", outputs);
        }
    }

    /// Takes text of the log. It is kept while an answer may show that it is an error.
    pub(super) fn log(&mut self, text: &[u8], keep: bool, outputs: &mut VecDeque<Output>) {
        self.finish_console(outputs);
        self.log.extend(text);
        if !keep || self.log.len() >= MAX_TEXT {
            self.release_log(b'~', outputs);
        }
    }

    /// Sends an error.
    pub(super) fn error(&mut self, message: &[u8], outputs: &mut VecDeque<Output>) {
        self.forget_error(message, outputs);
        for line in message.trim_ascii_end().split(|byte| *byte == b'\n') {
            say(b'!', line, outputs);
        }
    }

    /// Sends the log without this error, which is the last text of the log.
    pub(super) fn forget_error(&mut self, message: &[u8], outputs: &mut VecDeque<Output>) {
        self.finish_console(outputs);
        let log = self.log.trim_ascii_end();
        let before = log.strip_suffix(message.trim_ascii_end()).unwrap_or(log).len();
        self.log.truncate(before);
        self.release_log(b'~', outputs);
    }

    /// Sends the log as lines of this kind.
    pub(super) fn release_log(&mut self, kind: u8, outputs: &mut VecDeque<Output>) {
        let log = std::mem::take(&mut self.log);
        if !log.is_empty() {
            for line in log.strip_suffix(b"\n").unwrap_or(&log).split(|byte| *byte == b'\n') {
                say(kind, line, outputs);
            }
        }
    }

    fn finish_console(&mut self, outputs: &mut VecDeque<Output>) {
        if !self.console.is_empty() {
            self.end_line(outputs);
        }
        self.part(outputs);
    }

    /// Sends everything, including unfinished lines.
    pub(super) fn finish(&mut self, outputs: &mut VecDeque<Output>) {
        self.finish_console(outputs);
        self.release_log(b'~', outputs);
    }

    /// Drops the text that was not sent.
    pub(super) fn clear(&mut self) {
        self.console.clear();
        self.is_parted = false;
        self.log.clear();
    }
}
