//! `mpirun -stacks`: requests the stacks of all ranks from their debuggers, and prints them when
//! the debuggers have ended. [`mpd_debug::survey::Survey`] makes the decisions.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Result;
use mio::{Registry, Token};
use mpd_debug::numbers::Numbers;
use mpd_debug::survey::{Output, Survey};
use mpd_sansio::Time;
use mpd_wire::message::JobInput;
use nix::sys::signal::{Signal, raise};

use super::beside::{Beside, SessionAction, named};
use super::options::Form;
use super::pipes::{From, Pipes};

/// Most notes that are kept for the end.
const MAX_NOTES: usize = 100;

/// A running survey.
#[derive(Debug)]
pub(super) struct Asking {
    survey: Survey,
    form: Form,
    pipes: Pipes,
    notes: Vec<String>,
    /// Requests to the session, in order.
    orders: VecDeque<SessionAction>,
    /// Whether the user has interrupted the survey.
    interrupted: bool,
}

impl Asking {
    /// A survey of the ranks with these labels, whose debuggers write to `pipes`.
    pub(super) fn new(
        form: Form,
        (numbers, now): (Numbers, Time),
        pipes: [OwnedFd; 2],
        registry: &Registry,
    ) -> Result<Self> {
        let survey = Survey::new(numbers, now);
        let pipes = Pipes::new(pipes, registry)?;
        let (notes, orders) = (Vec::new(), VecDeque::new());
        Ok(Self { survey, form, pipes, notes, orders, interrupted: false })
    }

    fn read(&mut self, now: Time) {
        for (from, line) in self.pipes.read() {
            match from {
                From::Debuggers => {
                    self.survey.debugger_line(now, &line);
                    self.perform();
                }
                From::Complaints => self.note(&String::from_utf8_lossy(&line)),
            }
        }
    }

    fn perform(&mut self) {
        while let Some(output) = self.survey.poll_output() {
            self.orders.push_back(match output {
                Output::Send { ranks, line } => {
                    SessionAction::Send(JobInput::Debug { ranks, line })
                }
                Output::Kill => SessionAction::Kill,
            });
        }
    }

    fn render(&self) -> String {
        let stacks = self.survey.stacks();
        match self.form {
            Form::Text => stacks.text(),
            Form::Json => serde_json::to_string_pretty(&stacks.calls()).unwrap_or_default() + "\n",
        }
    }
}

impl Beside for Asking {
    fn wake(&mut self, token: Token) {
        self.pipes.wake(token);
    }

    fn turn(&mut self, now: Time) {
        self.read(now);
        self.survey.handle_timeout(now);
        self.perform();
    }

    fn wait(&self) -> (Option<Time>, Option<Duration>) {
        let ready = self.pipes.are_ready().then_some(Duration::ZERO);
        (Some(self.survey.poll_timeout()), ready)
    }

    fn interrupt(&mut self, _: Time) {
        self.interrupted = true;
    }

    fn stop(&mut self) {
        let _ = raise(Signal::SIGSTOP);
    }

    fn restarted(&mut self, _: Time) {}

    fn note(&mut self, text: &str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(mpd_io::files::logging::one_line(text));
        }
    }

    fn next_order(&mut self) -> Option<SessionAction> {
        self.orders.pop_front()
    }

    fn close(&mut self, now: Time) -> Option<u8> {
        self.pipes.end();
        while self.pipes.are_ready() {
            self.read(now);
        }
        let mut errors = io::stderr().lock();
        for note in &self.notes {
            let _ = writeln!(errors, "mpirun: {note}");
        }
        if self.interrupted || !self.survey.has_stacks() && !self.notes.is_empty() {
            return None;
        }
        // Standard output may have no reader.
        let _ = io::stdout().lock().write_all(self.render().as_bytes());
        let missing = self.survey.missing();
        for (ranks, why) in &missing {
            let _ = writeln!(errors, "mpirun: no stacks of {}: {why}", named(ranks));
        }
        Some(u8::from(!missing.is_empty()))
    }
}
