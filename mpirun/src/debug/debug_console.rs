//! The debug console of `mpirun -d`: lines of the job, lines of the user, and the display.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::{Registry, Token, Waker};
use mpd_debug::numbers::Numbers;
use mpd_debug::prompt::{Input, Output, Prompt, Settings};
use mpd_io::files::input::Input as Stdin;
use mpd_sansio::Time;
use mpd_wire::message::JobInput;
use nix::sys::signal::{Signal, raise};

use super::beside::{Beside, NAME, SessionAction, register};
use super::editor::Event;
use super::lines::Lines;
use super::options::DebugOptions;
use super::pipes::{From, Pipes};
use super::plain::Plain;
use super::terminal::Terminal;
use crate::messages::RETRY;
use crate::patience::wait_until;

const STDIN: Token = Token(10);
const WAKE: Token = Token(11);

/// The job's lines are not read while more bytes than this wait to be shown.
const MAX_WAITING: usize = 1 << 20;

/// Interval between checks whether this process has the terminal.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum Face {
    Plain(Plain),
    Terminal(Box<Terminal>),
}

/// The debug console of a session.
#[derive(Debug)]
pub(crate) struct DebugConsole {
    prompt: Prompt,
    face: Face,
    pipes: Pipes,
    stdin: Option<Stdin>,
    stdin_ready: bool,
    typed: Lines,
    /// Lines that were read and not yet taken.
    ahead: VecDeque<String>,
    /// Whether the user's input ends after these lines.
    ended: bool,
    orders: VecDeque<SessionAction>,
}

impl DebugConsole {
    /// The debug console of a job whose ranks have these labels. Its output and errors are read
    /// from `pipes`.
    ///
    /// # Errors
    /// A file of commands or the terminal cannot be used.
    pub(super) fn new(
        options: &DebugOptions,
        numbers: Numbers,
        pipes: [OwnedFd; 2],
        registry: &Registry,
    ) -> Result<Self> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let script = options.script()?;
        let stdin = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .and_then(Stdin::new)
            .context("standard input")?;
        register(registry, &stdin, STDIN).context("standard input")?;
        let face = match terminal {
            true => Face::Terminal(Box::new(Terminal::open(Waker::new(registry, WAKE)?)?)),
            false => Face::Plain(Plain::new()),
        };
        let (batch, attached) = (options.batch, options.attached);
        Ok(Self {
            prompt: Prompt::new(Settings { numbers, attached, terminal, batch, script }),
            face,
            pipes: Pipes::new(pipes, registry)?,
            stdin: Some(stdin),
            stdin_ready: true,
            typed: Lines::default(),
            ahead: VecDeque::new(),
            ended: false,
            orders: VecDeque::new(),
        })
    }

    // ----- the job -----

    fn takes_more(&self) -> bool {
        let waiting = match &self.face {
            Face::Plain(plain) => plain.waiting(),
            Face::Terminal(terminal) => terminal.waiting(),
        };
        waiting < MAX_WAITING
    }

    fn read_job(&mut self, now: Time) {
        for (from, line) in self.pipes.read() {
            match from {
                From::Debuggers => self.report(now, Input::DebuggerLine(&line)),
                From::Complaints => self.note(&String::from_utf8_lossy(&line)),
            }
        }
    }

    // ----- the user -----

    fn read_editor(&mut self, now: Time) {
        loop {
            let Face::Terminal(terminal) = &self.face else { return };
            let Some(event) = terminal.next_event() else { return };
            // Input from now on belongs to the program.
            self.stdin_ready = true;
            match event {
                Event::Line(line) => self.report(now, Input::Line(&line)),
                Event::Interrupt => self.report(now, Input::Interrupt),
                Event::End => self.report(now, Input::EndOfInput),
                Event::Complete(text) => self.report(now, Input::Complete(&text)),
            }
        }
    }

    /// Whether to read standard input now. Input for the line editor is not read here.
    fn wants_input(&self) -> bool {
        match &self.face {
            Face::Plain(_) => self.prompt.takes_lines() && self.ahead.is_empty() && !self.ended,
            Face::Terminal(terminal) => !terminal.is_editing(),
        }
    }

    fn has_line(&self) -> bool {
        match &self.face {
            Face::Plain(_) => self.prompt.takes_lines() && (!self.ahead.is_empty() || self.ended),
            Face::Terminal(_) => !self.ahead.is_empty(),
        }
    }

    fn read_user(&mut self, now: Time) {
        while self.has_line() {
            match self.ahead.pop_front() {
                Some(line) => self.report(now, Input::Line(&line)),
                None => return self.report(now, Input::EndOfInput),
            }
        }
        let Some(stdin) = &self.stdin else { return };
        if !self.stdin_ready || !self.wants_input() || stdin.is_in_background() {
            return;
        }
        let mut buffer = [0; 4096];
        let ahead = &mut self.ahead;
        let mut each = |line: &[u8]| ahead.push_back(String::from_utf8_lossy(line).into_owned());
        match stdin.read(&mut buffer) {
            Ok(n @ 1..) => self.typed.push(&buffer[..n], each),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.stdin_ready = false,
            Ok(0) if matches!(self.face, Face::Terminal(_)) => {
                self.stdin_ready = false;
                self.report(now, Input::EndOfInput);
            }
            Ok(0) | Err(_) => {
                self.typed.finish(&mut each);
                (self.stdin, self.ended) = (None, true);
            }
        }
    }

    // ----- the prompt -----

    fn report(&mut self, now: Time, input: Input<'_>) {
        self.prompt.handle(now, input);
        self.perform(now);
    }

    fn perform(&mut self, now: Time) {
        while let Some(output) = self.prompt.poll_output() {
            match (output, &mut self.face) {
                (Output::Print(bytes), Face::Plain(plain)) => plain.print(&bytes),
                (Output::Complain(bytes), Face::Plain(plain)) => plain.complain(&bytes),
                (Output::Print(bytes) | Output::Complain(bytes), Face::Terminal(terminal)) => {
                    terminal.print(&bytes);
                }
                (Output::Ask(text), Face::Plain(plain)) => plain.complain(text.as_bytes()),
                (Output::Ask(text), Face::Terminal(terminal)) => terminal.print(text.as_bytes()),
                (Output::Note(text), _) => self.note(&text),
                (Output::Prompt, Face::Terminal(terminal)) => terminal.prompt(now),
                (Output::Completions(found), Face::Terminal(terminal)) => terminal.complete(found),
                (Output::Send { ranks, line }, _) => {
                    self.orders.push_back(SessionAction::Send(JobInput::Debug { ranks, line }));
                }
                (Output::Restart, _) => {
                    self.orders.push_back(SessionAction::Send(JobInput::Restart))
                }
                (Output::Kill, _) => self.orders.push_back(SessionAction::Kill),
                // At the end of the session the terminal is left unchanged.
                (Output::NoPrompt, _)
                | (Output::Prompt | Output::Completions(_), Face::Plain(_)) => {}
            }
        }
    }
}

impl Beside for DebugConsole {
    fn wake(&mut self, token: Token) {
        self.pipes.wake(token);
        self.stdin_ready |= token == STDIN;
    }

    fn turn(&mut self, now: Time) {
        if self.takes_more() {
            self.read_job(now);
        }
        self.read_editor(now);
        self.read_user(now);
        self.prompt.handle_timeout(now);
        self.perform(now);
        match &mut self.face {
            Face::Plain(plain) => plain.flush(),
            Face::Terminal(terminal) => terminal.turn(now),
        }
    }

    fn wait(&self) -> (Option<Time>, Option<Duration>) {
        let mut waits = Vec::new();
        if self.takes_more() && self.pipes.are_ready() {
            waits.push(Duration::ZERO);
        }
        if self.has_line() {
            waits.push(Duration::ZERO);
        }
        if let (Some(stdin), true) = (&self.stdin, self.stdin_ready && self.wants_input()) {
            waits.push(if stdin.is_in_background() { BACKGROUND_INTERVAL } else { Duration::ZERO });
        }
        let due = match &self.face {
            Face::Plain(plain) => {
                waits.extend((plain.waiting() > 0).then_some(RETRY));
                None
            }
            Face::Terminal(terminal) => {
                waits.extend((terminal.waiting() > 0).then_some(RETRY));
                terminal.due()
            }
        };
        let due = [self.prompt.poll_timeout(), due].into_iter().flatten().min();
        (due, waits.into_iter().min())
    }

    fn interrupt(&mut self, now: Time) {
        self.report(now, Input::Interrupt);
    }

    fn stop(&mut self) {
        match &mut self.face {
            Face::Terminal(terminal) => terminal.stop(),
            Face::Plain(_) => drop(raise(Signal::SIGSTOP)),
        }
    }

    fn restarted(&mut self, now: Time) {
        self.report(now, Input::Restarted);
    }

    fn note(&mut self, text: &str) {
        let line = format!("{NAME}: {}\n", mpd_io::files::logging::one_line(text));
        match &mut self.face {
            Face::Plain(plain) => plain.complain(line.as_bytes()),
            Face::Terminal(terminal) => terminal.print(line.as_bytes()),
        }
    }

    fn next_order(&mut self) -> Option<SessionAction> {
        self.orders.pop_front()
    }

    fn close(&mut self, now: Time) -> Option<u8> {
        const PATIENCE: Duration = Duration::from_secs(2);
        self.pipes.end();
        while self.pipes.are_ready() {
            self.read_job(now);
        }
        self.report(now, Input::JobEnded);
        match &mut self.face {
            Face::Terminal(terminal) => terminal.close(),
            Face::Plain(plain) => wait_until(PATIENCE, || {
                plain.flush();
                plain.waiting() == 0
            }),
        }
        self.prompt.exit_code()
    }
}
