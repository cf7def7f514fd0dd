//! The driver of one rank's gdb: it takes commands of the console and returns lines for the
//! console. docs/debugger.md, "Driver of gdb", describes both.
//!
//! gdb's records tell whether the program runs; the driver never guesses it from text. After every
//! stop the driver sends gdb a harmless command. gdb's answer shows that all text of the stop has
//! arrived. Only then does the driver send the mark. Equal lines of several ranks are merged, so
//! the driver removes needless differences (process ids) from gdb's texts.
//!
//! While a command runs the program in the foreground, gdb reads no other command. An interrupt and
//! a kill are then signals to the program.

mod commands;
mod kill;
mod lines;
mod pending_text;
mod program;
mod records;
mod resume;
mod texts;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use self::commands::Command;
use self::kill::Killing;
use self::lines::Lines;
use self::pending_text::PendingText;
use self::program::Terminal;
use crate::mi::{MAX_LINE, MAX_TAIL};
use mpd_sansio::{Time, UNDRAINED};
use mpd_stdio::silence::Task;

/// Bytes of a line to the console, without its first byte and newline.
pub const MAX_TEXT: usize = 64 << 10;

/// Bytes of a command.
pub const MAX_COMMAND: usize = 256 << 10;

/// Commands that may wait for the one in progress.
pub const MAX_QUEUE: usize = 256;

/// The time in which gdb must exit.
pub const LEAVE: Duration = Duration::from_secs(3);

/// The time in which gdb must report the end of a killed program. After it the driver sends gdb's
/// own `kill`.
pub const DIES: Duration = Duration::from_secs(2);

/// How gdb is set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// A process to attach to; `None`: gdb was started with the program.
    pub attach: Option<u32>,
    /// Path of the program's terminal.
    pub terminal: Vec<u8>,
    /// The command line with which gdb executes the program.
    pub wrapper: Vec<u8>,
    /// gdb ends when its program has ended.
    pub once: bool,
    /// Variables that gdb sets for itself, each with the value that the program gets.
    pub variables: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// An input of a driver.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Bytes from the console.
    Commands(&'a [u8]),
    /// Bytes of gdb's standard output.
    Gdb(&'a [u8]),
    /// Bytes of gdb's standard error.
    Complaints(&'a [u8]),
    /// Output of the program.
    Program(&'a [u8]),
    /// The program's output is not read now. Its silence does not end a piece of a line.
    Unread,
    /// Threads of gdb and of the program that are ready to run, at a time when [`Driver::awaits_look`].
    /// The program's output was read after this look at them.
    Look(&'a [Task]),
    /// gdb has exited; the text says how, as in `was killed by SIGKILL`.
    GdbEnded(&'a str),
    /// The session has no user any longer.
    Quit,
    /// The driver received a signal for the program.
    Signal(i32),
}

/// An action for the owner of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write to gdb's standard input.
    ToGdb(Vec<u8>),
    /// Write a line, newline included, to the console.
    Say(Vec<u8>),
    /// The command of this number is answered, and this is the state. All lines came before.
    Mark(u32, Vec<u8>),
    /// Type at the program's terminal.
    Type(Vec<u8>),
    /// Send a signal to a process.
    Signal(u32, i32),
    /// Stop this process: by SIGINT if it accepts that, otherwise by SIGSTOP.
    Interrupt(u32),
    /// Interrupt gdb itself, by SIGINT.
    InterruptGdb,
    KillGdb,
    /// The driver is finished: exit with 0.
    End,
}

/// The number of SIGKILL on all systems.
const KILL: i32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// gdb answers the settings. Texts are sent up to the answer to the first setting.
    Starting {
        first: u32,
        last: u32,
        silent: bool,
    },
    Ready,
    /// gdb has the command to exit, because of this command of the console.
    Leaving {
        serial: Option<u32>,
        until: Option<Time>,
    },
    /// gdb has exited.
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    Idle,
    Running,
    /// The place and the reason, as a mark gives them.
    Stopped(Vec<u8>),
    Exited(u32),
    Died(String),
}

/// A command that gdb is executing.
#[derive(Debug)]
struct Pending {
    serial: u32,
    token: u32,
    kind: Kind,
    /// gdb has answered; the program has still to stop.
    waits: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Cli(Cli),
    /// A kill of a program that does not run.
    Kill,
    Complete,
    /// The list of threads. The thread with this system number comes first.
    Threads {
        first: Option<u32>,
    },
    /// Frames of the first of these threads.
    Frames(VecDeque<u32>),
}

/// Properties of a command for gdb's command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cli {
    background: bool,
    launches: bool,
    attaches: bool,
    kills: bool,
    /// Whether a printed `>` is no prompt.
    prints: bool,
    was_running: bool,
    reported_of_lines: bool,
}

/// The driver. The owner drains [`Driver::poll_output`] after each call.
#[derive(Debug)]
pub struct Driver {
    phase: Phase,
    attach: Option<u32>,
    once: bool,
    program: Program,
    /// The debugged process, and whether it was started elsewhere.
    process: Option<(u32, bool)>,
    queue: VecDeque<Command>,
    pending: Option<Pending>,
    /// Interrupts and kills. The mark of the stop that they cause answers them.
    unanswered: Vec<u32>,
    interrupt_wanted: bool,
    killing: Killing,
    /// The last command that ran the program, up to the next stop.
    resumed: Option<u32>,
    /// The token of the query after a failed run.
    recheck: Option<u32>,
    /// The token of the query after the last stop.
    sync: Option<u32>,
    /// The token of the query after an interrupt of gdb. Its answer shows that the command in
    /// progress is answered as well.
    check: Option<u32>,
    last_serial: u32,
    next_token: u32,
    commands: Lines,
    gdb: Lines,
    complaints: Lines,
    pending_text: PendingText,
    terminal: Terminal,
    outputs: VecDeque<Output>,
}

impl Driver {
    /// A driver whose gdb was just started with this [`Setup`].
    pub fn new(setup: &Setup) -> Self {
        let mut driver = Self {
            phase: Phase::Ready,
            attach: setup.attach,
            once: setup.once,
            program: Program::Idle,
            process: None,
            queue: VecDeque::new(),
            pending: None,
            unanswered: Vec::new(),
            interrupt_wanted: false,
            killing: Killing::default(),
            resumed: None,
            recheck: None,
            sync: None,
            check: None,
            last_serial: 0,
            next_token: 1,
            // The serial number and the word come before the text.
            commands: Lines::new(MAX_COMMAND + 32, 0),
            gdb: Lines::new(MAX_LINE, MAX_TAIL),
            complaints: Lines::new(MAX_TEXT, 0),
            pending_text: PendingText::default(),
            terminal: Terminal::default(),
            outputs: VecDeque::new(),
        };
        driver.set_up(setup);
        driver
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Commands(bytes) => {
                for line in self.commands.push(bytes) {
                    self.command_line(&line.text);
                }
            }
            Input::Gdb(bytes) => {
                for line in self.gdb.push(bytes) {
                    self.gdb_line(&line);
                }
            }
            Input::Complaints(bytes) => {
                for line in self.complaints.push(bytes) {
                    self.report(b'~', &line.text);
                }
            }
            Input::Program(bytes) => self.terminal.output(now, bytes, &mut self.outputs),
            Input::Unread => self.terminal.unread(now),
            Input::Look(threads) => self.terminal.look(now, threads, &mut self.outputs),
            Input::GdbEnded(how) => self.gdb_ended(how),
            Input::Quit => self.quit(None),
            Input::Signal(signal) => self.signal_program(signal),
        }
        if let Phase::Leaving { until: until @ None, .. } = &mut self.phase {
            *until = Some(now + LEAVE);
        }
        self.watch_kill(now);
    }

    /// Does the work that is due at the time given by [`Driver::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.kill_timeout(now);
        if let Phase::Leaving { until: Some(until), .. } = &mut self.phase
            && *until <= now
        {
            *until = now + LEAVE;
            self.outputs.push_back(Output::KillGdb);
        }
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether the program may be silent in the middle of a line: [`Input::Look`] is wanted.
    pub fn awaits_look(&self, now: Time) -> bool {
        self.terminal.deadline().is_some_and(|at| at <= now)
    }

    /// The time at which [`Driver::handle_timeout`] or [`Input::Look`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let leave = match self.phase {
            Phase::Leaving { until, .. } => until,
            _ => None,
        };
        [leave, self.killing.deadline(), self.terminal.deadline()].into_iter().flatten().min()
    }

    /// Whether there is a program that may read typed lines.
    pub const fn has_program(&self) -> bool {
        matches!(self.program, Program::Running | Program::Stopped(_))
    }

    fn interrupt_program(&mut self) {
        if let Some((pid, _)) = self.process {
            self.outputs.push_back(Output::Interrupt(pid));
        }
    }

    fn signal_program(&mut self, signal: i32) {
        if let Some((pid, _)) = self.process {
            self.outputs.push_back(Output::Signal(pid, signal));
        }
    }

    /// gdb's texts are complete up to here: an unfinished line counts as a line now.
    fn finish_texts(&mut self) {
        self.pending_text.finish(&mut self.outputs);
    }

    /// Sends a line of the driver itself.
    fn report(&mut self, kind: u8, text: &[u8]) {
        self.finish_texts();
        pending_text::say(kind, text, &mut self.outputs);
    }

    fn mark(&mut self, serial: u32) {
        let mut text = Vec::new();
        match (&self.phase, &self.program) {
            (Phase::Ended, _) => text.extend(b"ended"),
            (_, Program::Idle) => text.extend(b"idle"),
            (_, Program::Running) => text.extend(b"running"),
            (_, Program::Stopped(place)) => {
                text.extend(b"stopped ");
                text.extend(place);
            }
            (_, Program::Exited(code)) => text.extend(format!("exited {code}").bytes()),
            (_, Program::Died(signal)) => text.extend(format!("died {signal}").bytes()),
        }
        self.outputs.push_back(Output::Mark(serial, text));
    }

    /// Answers a command, and those that waited for the same stop. All texts were sent before.
    fn answer(&mut self, serial: Option<u32>) {
        self.finish_texts();
        let mut serials = std::mem::take(&mut self.unanswered);
        serials.extend(serial);
        // The mark of a command that came while the program ran said "running"; its serial gets the
        // new state too.
        serials.push(self.last_serial);
        serials.sort_unstable();
        serials.dedup();
        self.interrupt_wanted = false;
        if self.program != Program::Running {
            self.terminal.pause(&mut self.outputs);
        }
        for serial in serials {
            self.mark(serial);
        }
    }

    fn gdb_ended(&mut self, how: &str) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        self.finish_texts();
        self.terminal.finish(&mut self.outputs);
        self.process = None;
        let pending = self.pending.take().map(|pending| pending.serial);
        self.unanswered.extend(pending);
        self.unanswered.extend(self.queue.drain(..).map(|command| command.serial));
        match phase {
            Phase::Leaving { serial, .. } => {
                self.last_serial = self.last_serial.max(serial.unwrap_or(0));
                self.answer(serial);
                self.outputs.push_back(Output::End);
            }
            _ => {
                let text = format!("gdb {how}; this rank cannot be debugged any more");
                self.report(b'!', text.as_bytes());
                self.answer(None);
            }
        }
    }
}
