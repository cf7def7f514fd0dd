//! What `mpirun -d` owns beside its connection: the job's lines, the user's, and what is shown.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use mpd_io::input::Input as Stdin;
use mpd_proto::Time;
use mpd_proto::debug::front::{Front, Input, Output, Settings};
use mpd_proto::message::JobInput;
use nix::sys::signal::{Signal, raise};

use super::NAME;
use super::editor::Event;
use super::lines::Lines;
use super::plain::Plain;
use super::terminal::Terminal;
use super::wish::Wish;
use crate::messages::RETRY;

const PIPES: [Token; 2] = [Token(8), Token(9)];
const STDIN: Token = Token(10);
const WAKE: Token = Token(11);

/// Bytes that may wait to be shown before the job's lines are left where they are.
const MAX_WAITING: usize = 1 << 20;

/// How much of a pipe is read in one turn.
const READS: usize = 16;

/// How often a terminal that is not ours is looked at again.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// What the session is to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Tell the manager.
    Send(JobInput),
    /// End the job at once.
    Kill,
}

#[derive(Debug)]
enum Face {
    Plain(Plain),
    Terminal(Box<Terminal>),
}

/// Where the job's output comes from.
#[derive(Debug)]
struct Pipe {
    stream: Option<Stdin>,
    ready: bool,
    lines: Lines,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    front: Front,
    face: Face,
    pipes: [Pipe; 2],
    stdin: Option<Stdin>,
    stdin_ready: bool,
    typed: Lines,
    /// Lines that were read and not yet taken.
    ahead: VecDeque<String>,
    /// The user's input has ended behind them.
    ended: bool,
    orders: VecDeque<Order>,
}

impl Desk {
    /// The desk of a job of `size` ranks, whose output and errors come from `pipes`.
    ///
    /// # Errors
    /// A file of commands or the terminal cannot be used.
    pub(crate) fn new(
        wish: &Wish,
        size: u32,
        pipes: [OwnedFd; 2],
        registry: &Registry,
    ) -> Result<Self> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let script = wish.script()?;
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
        let [out, err] = pipes;
        let pipes = [Pipe::new(out, registry, PIPES[0])?, Pipe::new(err, registry, PIPES[1])?];
        Ok(Self {
            front: Front::new(Settings { size, terminal, batch: wish.batch, script }),
            face,
            pipes,
            stdin: Some(stdin),
            stdin_ready: true,
            typed: Lines::default(),
            ahead: VecDeque::new(),
            ended: false,
            orders: VecDeque::new(),
        })
    }

    /// Something has happened to a descriptor.
    pub(crate) fn wake(&mut self, token: Token) {
        for (pipe, own) in self.pipes.iter_mut().zip(PIPES) {
            pipe.ready |= token == own;
        }
        self.stdin_ready |= token == STDIN;
    }

    /// Does what can be done now.
    pub(crate) fn turn(&mut self, now: Time) {
        if self.takes_more() {
            self.read_job(now);
        }
        self.read_editor(now);
        self.read_user(now);
        self.front.handle_timeout(now);
        self.perform(now);
        match &mut self.face {
            Face::Plain(plain) => plain.flush(),
            Face::Terminal(terminal) => terminal.turn(now),
        }
    }

    /// How long there is nothing to do: until a time, or until so long from now.
    pub(crate) fn wait(&self) -> (Option<Time>, Option<Duration>) {
        let mut waits = Vec::new();
        if self.takes_more() && self.pipes.iter().any(|pipe| pipe.ready && pipe.stream.is_some()) {
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
        let due = [self.front.poll_timeout(), due].into_iter().flatten().min();
        (due, waits.into_iter().min())
    }

    /// ^C.
    pub(crate) fn interrupt(&mut self, now: Time) {
        self.tell(now, Input::Interrupt);
    }

    /// ^Z: stops this process alone, and comes back when it goes on.
    pub(crate) fn stop(&mut self) {
        match &mut self.face {
            Face::Terminal(terminal) => terminal.stop(),
            Face::Plain(_) => drop(raise(Signal::SIGSTOP)),
        }
    }

    /// The programs can be started again.
    pub(crate) fn restarted(&mut self, now: Time) {
        self.tell(now, Input::Restarted);
    }

    /// A line of ours for the user.
    pub(crate) fn note(&mut self, text: &str) {
        let line = format!("{NAME}: {}\n", mpd_io::logging::one_line(text));
        match &mut self.face {
            Face::Plain(plain) => plain.complain(line.as_bytes()),
            Face::Terminal(terminal) => terminal.print(line.as_bytes()),
        }
    }

    /// What the session is to do next.
    pub(crate) fn next_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The job is over: shows what is left of its words. Our exit code, if the job's own means nothing.
    pub(crate) fn close(&mut self, now: Time) -> Option<u8> {
        const PATIENCE: Duration = Duration::from_secs(2);
        const STEP: Duration = Duration::from_millis(5);
        self.pipes.iter_mut().for_each(|pipe| pipe.ready = true);
        while self.pipes.iter().any(|pipe| pipe.ready && pipe.stream.is_some()) {
            self.read_job(now);
        }
        self.tell(now, Input::JobEnded);
        let mut left = PATIENCE;
        match &mut self.face {
            Face::Terminal(terminal) => terminal.close(),
            Face::Plain(plain) => {
                while plain.waiting() > 0 && left > Duration::ZERO {
                    std::thread::sleep(STEP);
                    left = left.saturating_sub(STEP);
                    plain.flush();
                }
            }
        }
        self.front.exit_code()
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
        let mut buffer = vec![0; 64 * 1024];
        for at in [0, 1] {
            for _ in 0..READS {
                let Some(stream) = self.pipes[at].stream.as_ref().filter(|_| self.pipes[at].ready)
                else {
                    break;
                };
                let read = stream.read(&mut buffer);
                let mut said = Vec::new();
                match read {
                    Ok(n @ 1..) => {
                        self.pipes[at].lines.push(&buffer[..n], |line| said.push(line.to_vec()))
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.pipes[at].ready = false,
                    Ok(0) | Err(_) => {
                        self.pipes[at].lines.finish(|line| said.push(line.to_vec()));
                        self.pipes[at].stream = None;
                    }
                }
                for line in said {
                    self.hear(now, at, &line);
                }
            }
        }
    }

    /// A line of the debuggers, or what they complain of beside.
    fn hear(&mut self, now: Time, at: usize, line: &[u8]) {
        match at {
            0 => self.tell(now, Input::Said(line)),
            _ => self.note(&String::from_utf8_lossy(line)),
        }
    }

    // ----- the user -----

    fn read_editor(&mut self, now: Time) {
        loop {
            let Face::Terminal(terminal) = &self.face else { return };
            let Some(event) = terminal.next_event() else { return };
            // What is typed from here on is the program's.
            self.stdin_ready = true;
            match event {
                Event::Line(line) => self.tell(now, Input::Line(&line)),
                Event::Interrupt => self.tell(now, Input::Interrupt),
                Event::End => self.tell(now, Input::EndOfInput),
                Event::Complete(text) => self.tell(now, Input::Complete(&text)),
            }
        }
    }

    /// Whether standard input is to be read now: never what the editor is to read.
    fn wants_input(&self) -> bool {
        match &self.face {
            Face::Plain(_) => self.front.takes_lines() && self.ahead.is_empty() && !self.ended,
            Face::Terminal(terminal) => !terminal.is_editing(),
        }
    }

    fn has_line(&self) -> bool {
        match &self.face {
            Face::Plain(_) => self.front.takes_lines() && (!self.ahead.is_empty() || self.ended),
            Face::Terminal(_) => !self.ahead.is_empty(),
        }
    }

    fn read_user(&mut self, now: Time) {
        while self.has_line() {
            match self.ahead.pop_front() {
                Some(line) => self.tell(now, Input::Line(&line)),
                None => return self.tell(now, Input::EndOfInput),
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
                self.tell(now, Input::EndOfInput);
            }
            Ok(0) | Err(_) => {
                self.typed.finish(&mut each);
                (self.stdin, self.ended) = (None, true);
            }
        }
    }

    // ----- the front -----

    fn tell(&mut self, now: Time, input: Input<'_>) {
        self.front.handle(now, input);
        self.perform(now);
    }

    fn perform(&mut self, now: Time) {
        while let Some(output) = self.front.poll_output() {
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
                    self.orders.push_back(Order::Send(JobInput::Debug { ranks, line }));
                }
                (Output::Restart, _) => self.orders.push_back(Order::Send(JobInput::Restart)),
                (Output::Kill, _) => self.orders.push_back(Order::Kill),
                // The terminal is left as it was when the session ends.
                (Output::NoPrompt, _)
                | (Output::Prompt | Output::Completions(_), Face::Plain(_)) => {}
            }
        }
    }
}

impl Pipe {
    fn new(fd: OwnedFd, registry: &Registry, token: Token) -> Result<Self> {
        let stream = Stdin::new(fd).context("the job's output")?;
        register(registry, &stream, token).context("the job's output")?;
        Ok(Self { stream: Some(stream), ready: true, lines: Lines::default() })
    }
}

fn register(registry: &Registry, stream: &Stdin, token: Token) -> io::Result<()> {
    if stream.is_always_ready() {
        return Ok(());
    }
    match registry.register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE) {
        // /dev/null and its like are always ready.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}
