//! The handling of gdb's records.

use std::collections::VecDeque;

use super::lines::Line;
use super::{Driver, Kind, Output, Pending, Phase, Program, texts};
use crate::mi::{Async, Fields, Record, Stream, Value};
use crate::stacks;

/// Most threads and frames of a program that are shown.
const MAX_THREADS: usize = 256;
const MAX_FRAMES: usize = 256;

impl Driver {
    pub(super) fn gdb_line(&mut self, line: &Line) {
        let record =
            if line.is_cut { Record::parse_torn(&line.text) } else { Record::parse(&line.text) };
        match record {
            Record::Prompt | Record::Stream(Stream::Target, _) => {}
            Record::Stream(Stream::Console, text) => self.console_text(&text),
            Record::Stream(Stream::Log, text) => self.log_text(&text),
            Record::Result { token: Some(token), class, fields } => {
                self.result(token, &class, &fields);
            }
            Record::Result { token: None, .. } => {}
            Record::Async { kind: Async::Exec, class, fields } => match &class[..] {
                "running" => self.running(),
                "stopped" => self.stopped(&fields),
                _of_no_interest => {}
            },
            Record::Async { kind: Async::Notify, class, fields } => match &class[..] {
                "thread-group-started" => self.process_began(&fields),
                "thread-group-exited" => self.process_ended(),
                _of_no_interest => {}
            },
            Record::Async { kind: Async::Status, .. } => {}
            Record::Torn(record) => self.torn(*record),
            Record::Other(text) => self.other(&text),
        }
    }

    /// Text of the first attachment differs from rank to rank. The mark after it contains all
    /// necessary information.
    fn is_silent(&self) -> bool {
        matches!(self.phase, Phase::Starting { silent: true, .. } | Phase::Leaving { .. })
            || self.pending.as_ref().is_some_and(|pending| pending.serial == 0)
    }

    fn console_text(&mut self, text: &[u8]) {
        if self.is_silent() {
            return;
        }
        if text == b">"
            && let Some(Pending { kind: Kind::Cli(cli), waits: false, .. }) = &mut self.pending
            && !cli.prints
        {
            self.outputs.push_back(Output::ToGdb(b"end\n".to_vec()));
            if !std::mem::replace(&mut cli.reported_of_lines, true) {
                let why = "commands of several lines cannot be typed here: write them to a file, then source FILE";
                self.report(b'!', why.as_bytes());
            }
            return;
        }
        // The program has ended: its output comes before this text.
        if text.starts_with(b"[Inferior ") || text.starts_with(b"\nProgram terminated") {
            self.terminal.finish(&mut self.outputs);
        }
        self.pending_text.console(text, &mut self.outputs);
    }

    fn log_text(&mut self, text: &[u8]) {
        if self.is_silent() || self.killing.explains_errors() {
            return;
        }
        let starts = matches!(self.phase, Phase::Starting { .. });
        let keep = self.pending.as_ref().is_some_and(|pending| !pending.waits);
        self.pending_text.log(text, keep || starts, &mut self.outputs);
        if starts {
            self.pending_text.release_log(b'!', &mut self.outputs);
        }
    }

    /// Output of a program that gdb runs. If its line has no newline, an answer may follow it in
    /// the same line.
    fn other(&mut self, line: &[u8]) {
        let token = self.pending.as_ref().map(|pending| format!("{}^", pending.token));
        let at = token.and_then(|token| memchr::memmem::find(line, token.as_bytes()));
        if let Some(at) = at.filter(|at| *at > 0) {
            let answer = Line { text: line[at..].to_vec(), is_cut: false };
            if !matches!(Record::parse(&answer.text), Record::Other(_)) {
                self.pending_text.console(&line[..at], &mut self.outputs);
                return self.gdb_line(&answer);
            }
        }
        if !self.is_silent() {
            self.pending_text.console(line, &mut self.outputs);
            self.pending_text.console(b"\n", &mut self.outputs);
        }
    }

    /// Handles a record with missing parts. A stop counts with its known parts. A command with such
    /// an answer gets an error, and is otherwise complete.
    fn torn(&mut self, record: Record) {
        match record {
            Record::Result { token: Some(token), class, .. } => {
                let why = format!("gdb has answered \"{class}\", and more than can be read here");
                let why = ("msg".to_owned(), Value::Text(why.into_bytes()));
                self.result(token, "error", &Fields(vec![why]));
            }
            Record::Async { fields, .. } => self.stopped(&fields),
            Record::Result { token: None, .. }
            | Record::Prompt
            | Record::Stream(..)
            | Record::Torn(_)
            | Record::Other(_) => {}
        }
    }

    fn running(&mut self) {
        self.program = Program::Running;
        if std::mem::take(&mut self.interrupt_wanted) {
            self.interrupt_program();
        }
    }

    fn process_began(&mut self, fields: &Fields) {
        let attached = match &self.pending {
            Some(Pending { kind: Kind::Cli(cli), .. }) => cli.attaches,
            _ => false,
        };
        let pid = fields.text("pid").and_then(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        if let Some(pid) = pid {
            self.process = Some((pid, attached));
        }
        // It is attached when it has stopped, which gdb does not report before the answer.
        if attached {
            self.program = Program::Running;
        }
    }

    pub(super) fn process_ended(&mut self) {
        self.process = None;
        self.terminal.finish(&mut self.outputs);
        self.program = Program::Idle;
    }

    fn stopped(&mut self, fields: &Fields) {
        let reason = fields.text("reason").unwrap_or(b"?");
        let signal = String::from_utf8_lossy(fields.text("signal-name").unwrap_or(b"?"));
        self.program = match reason {
            _ if reason.starts_with(b"exited") && self.killing.is_on => {
                self.killed();
                Program::Idle
            }
            b"exited-normally" => Program::Exited(0),
            b"exited" => {
                Program::Exited(fields.text("exit-code").and_then(texts::octal).unwrap_or(0))
            }
            b"exited-signalled" => Program::Died(signal.to_string()),
            _ => {
                let mut place = fields.get("frame").map_or_else(|| b"? ?".to_vec(), place);
                place.push(b' ');
                place.extend(word(reason));
                if reason == b"signal-received" {
                    place.push(b' ');
                    place.extend(signal.bytes());
                }
                Program::Stopped(place)
            }
        };
        self.resumed = None;
        if matches!(self.phase, Phase::Leaving { .. }) {
            return;
        }
        if self.killing.is_on {
            // Another event stopped the program before: gdb has still to detect that it is dead.
            self.have_gdb_kill();
            return;
        }
        if signal == "SIGSTOP" && !self.unanswered.is_empty() {
            self.forget_signal();
        }
        self.sync = Some(self.send_mi(b"gdb-show confirm"));
    }

    fn result(&mut self, token: u32, class: &str, fields: &Fields) {
        if self.sync == Some(token) {
            self.sync = None;
            return self.settled();
        }
        if let Phase::Starting { first, last, silent } = &mut self.phase {
            *silent |= token == *first;
            if token == *last {
                self.pending_text.clear();
                self.begin();
            } else if token == *first {
                self.finish_texts();
            }
            return;
        }
        if self.kill_answered(token) {
            return;
        }
        if self.recheck == Some(token) {
            return self.rechecked(fields);
        }
        if self.resumed == Some(token) && class == "error" {
            return self.resume_failed();
        }
        if self.check == Some(token) {
            self.check = None;
            if let Some(lost) = self.pending.take_if(|p| !p.waits && p.token < token) {
                self.report(b'!', b"this command did not come to gdb: something else has read it");
                self.done(lost.serial);
            }
            return;
        }
        let Some(pending) = self.pending.take_if(|p| p.token == token && !p.waits) else { return };
        if pending.kind == Kind::Kill {
            self.process_ended();
            self.killed();
            return self.done(pending.serial);
        }
        if class == "error" {
            let message = fields.text("msg").unwrap_or_default();
            if let Kind::Frames(threads) = pending.kind {
                self.pending_text.forget_error(message, &mut self.outputs);
                let thread = threads.front().copied().unwrap_or_default();
                let unread = stacks::unread(thread, &String::from_utf8_lossy(message));
                return self.report_stack(pending.serial, threads, unread.as_bytes());
            }
            self.pending_text.error(message, &mut self.outputs);
            return self.done(pending.serial);
        }
        match pending.kind {
            Kind::Cli(_) => self.cli_answered(pending, class),
            // `kill_stopped`'s answer is handled above, with any result.
            Kind::Kill => {}
            Kind::Complete => {
                for (_, text) in fields.get("matches").map_or(&[][..], Value::fields) {
                    self.report(b'?', text.text().unwrap_or_default());
                }
                self.done(pending.serial);
            }
            Kind::Threads { first } => {
                let threads = threads(fields, first);
                self.ask_for_frames(pending.serial, threads);
            }
            Kind::Frames(threads) => self.report_stack(pending.serial, threads, &stack(fields)),
        }
    }

    fn cli_answered(&mut self, mut pending: Pending, class: &str) {
        let Kind::Cli(cli) = &pending.kind else { return };
        if class == "running" {
            self.resumed = Some(pending.token);
            self.running();
        }
        let (background, was_running, kills) = (cli.background, cli.was_running, cli.kills);
        self.finish_texts();
        // gdb reports it only together with process ids.
        if kills && self.process.is_none() {
            self.report(b'~', b"[program killed]");
        }
        let began = class == "running" || !was_running;
        if began && self.program == Program::Running && !background {
            pending.waits = true;
            self.pending = Some(pending);
            self.foreground_began();
        } else if began && self.sync.is_some() && !background {
            // The program has already stopped; more text of that stop may still come.
            pending.waits = true;
            self.pending = Some(pending);
        } else {
            self.done(pending.serial);
        }
    }

    fn done(&mut self, serial: u32) {
        self.answer(Some(serial));
        self.advance();
    }

    /// All text of a stop has arrived.
    pub(super) fn settled(&mut self) {
        self.answer_stop();
        if self.once && matches!(self.program, Program::Exited(_) | Program::Died(_)) {
            self.quit(None);
        }
    }

    fn answer_stop(&mut self) {
        if self.program == Program::Running {
            return;
        }
        match self.pending.take_if(|pending| pending.waits) {
            Some(pending) => self.done(pending.serial),
            // The mark of the command in progress gives the state.
            None if self.pending.is_some() => {}
            None => {
                self.answer(None);
                self.advance();
            }
        }
    }

    /// Sends the stack of the first of these threads, and asks for that of the next one.
    fn report_stack(&mut self, serial: u32, mut threads: VecDeque<u32>, stack: &[u8]) {
        self.report(b'#', stack);
        threads.pop_front();
        self.ask_for_frames(serial, threads);
    }

    fn ask_for_frames(&mut self, serial: u32, threads: VecDeque<u32>) {
        let Some(thread) = threads.front() else { return self.done(serial) };
        let last = MAX_FRAMES - 1;
        let token =
            self.send_mi(format!("stack-list-frames --thread {thread} 0 {last}").as_bytes());
        self.hold(serial, token, Kind::Frames(threads));
    }
}

/// gdb's numbers of the threads, in order, after the thread that has the system number `first`.
fn threads(fields: &Fields, first: Option<u32>) -> VecDeque<u32> {
    let thread = |value: &Value| {
        let id: u32 = text(value, "id")?.parse().ok()?;
        let is_first = first.is_some() && text(value, "target-id").and_then(tid) == first;
        Some((!is_first, id))
    };
    let threads = fields.get("threads").map_or(&[][..], Value::fields);
    let mut ids: Vec<(bool, u32)> = threads.iter().filter_map(|(_, value)| thread(value)).collect();
    ids.sort_unstable();
    ids.into_iter().map(|(_, id)| id).take(MAX_THREADS).collect()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    std::str::from_utf8(value.get(name)?.text()?).ok()
}

/// The system's number of a thread that gdb names `Thread 0x7f… (LWP 7)`, `LWP 7` or `process 7`.
fn tid(target: &str) -> Option<u32> {
    target.trim_end_matches(')').rsplit(' ').next()?.parse().ok()
}

/// The stack on one line, the outermost frame first.
fn stack(fields: &Fields) -> Vec<u8> {
    let frames = fields.get("stack").map_or(&[][..], Value::fields);
    let texts: Vec<Vec<u8>> = frames.iter().rev().map(|(_, value)| frame(value)).collect();
    texts.join(&b'\t')
}

fn frame(value: &Value) -> Vec<u8> {
    let text = |name| value.get(name).and_then(Value::text).filter(|text| !text.is_empty());
    let mut line = text("func").unwrap_or(b"??").to_vec();
    match (text("file"), text("line"), text("from")) {
        (Some(file), Some(number), _) => {
            line.extend([b" at ", file, b":", number].concat());
        }
        (_, _, Some(library)) => line.extend([b" in ", library].concat()),
        (_, _, None) => {}
    }
    line.retain(|byte| !matches!(byte, b'\t' | b'\n'));
    line
}

/// `FUNC FILE:LINE`, with `?` for unknown parts.
pub(super) fn place(frame: &Value) -> Vec<u8> {
    let text = |name| frame.get(name).and_then(Value::text).filter(|text| !text.is_empty());
    let mut place = text("func").map_or_else(|| b"?".to_vec(), word);
    place.push(b' ');
    match (text("file"), text("line")) {
        (Some(file), Some(line)) => place.extend([&word(file)[..], b":", line].concat()),
        _ => place.push(b'?'),
    }
    place
}

/// A text as one word of a mark.
fn word(text: &[u8]) -> Vec<u8> {
    text.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect()
}
