//! The driver of one rank's gdb: commands of the console in, lines for it out. What both look like is in
//! PROTOCOL.md, "Driver of a debugger".
//!
//! Whether the program runs is known from gdb's records, never guessed from text. After every stop gdb
//! is asked something harmless: its answer comes when everything that belongs to the stop was said, and
//! only then the mark is. Lines of several ranks are merged where they are equal, so what differs
//! without need (process ids) is taken out of gdb's texts.
//!
//! While a command has the program run in the foreground, gdb reads no other: an interrupt and a kill
//! are signals to the program then.

mod commands;
mod kill;
mod lines;
mod program;
mod records;
mod resume;
mod said;
mod texts;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use self::commands::Command;
use self::kill::Killing;
use self::lines::Lines;
use self::program::Terminal;
use self::said::Said;
use crate::mi::{MAX_LINE, MAX_TAIL};
use mpd_machine::{Time, UNDRAINED};

/// Bytes of a line to or from the console, its first one and newline not counted.
pub const MAX_TEXT: usize = 64 << 10;

/// Commands that may wait for the one in hand.
pub const MAX_QUEUE: usize = 256;

/// How long an unfinished line of the program stands still before it is said.
pub const STILL: Duration = Duration::from_millis(200);

/// How long gdb may take to leave.
pub const LEAVE: Duration = Duration::from_secs(3);

/// How long gdb may take to tell the end of a program that was killed, before it is told to kill it.
pub const DIES: Duration = Duration::from_secs(2);

/// How gdb is set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// A process to attach to; none: gdb was started with the program.
    pub attach: Option<u32>,
    /// Path of the program's terminal.
    pub terminal: Vec<u8>,
    /// What gdb executes the program with: a command line.
    pub wrapper: Vec<u8>,
    /// Variables that gdb sets for itself, and what the program is to see of each.
    pub variables: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What happens to a driver.
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
    /// gdb is gone; how, as `was killed by SIGKILL`.
    GdbEnded(&'a str),
    /// Nobody is there to debug for any more.
    Quit,
    /// A signal for the program came to the driver.
    Signal(i32),
}

/// What the owner of a driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write to gdb's standard input.
    ToGdb(Vec<u8>),
    /// Write a line, newline included, to the console.
    Say(Vec<u8>),
    /// Type at the program's terminal.
    Type(Vec<u8>),
    /// Send a signal to a process.
    Signal(u32, i32),
    /// Have this process stop, by SIGINT if it takes that, else by SIGSTOP.
    Interrupt(u32),
    /// Interrupt gdb itself, by SIGINT.
    InterruptGdb,
    /// Kill gdb.
    KillGdb,
    /// Everything is over: exit with 0.
    End,
}

/// SIGKILL, everywhere.
const KILL: i32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Settings are being made; texts are said up to the answer to the first.
    Starting {
        first: u32,
        last: u32,
        silent: bool,
    },
    Ready,
    /// gdb was told to leave, by this command.
    Leaving {
        serial: Option<u32>,
        until: Option<Time>,
    },
    /// gdb is gone.
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    Idle,
    Running,
    /// Where and why, as a mark says it.
    Stopped(Vec<u8>),
    Exited(u32),
    Died(String),
}

/// A command in the hands of gdb.
#[derive(Debug)]
struct Pending {
    serial: u32,
    token: u32,
    kind: Kind,
    /// Answered by gdb; the program has to stop.
    waits: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Cli(Cli),
    /// Of a program that does not run.
    Kill,
    Complete,
    /// Which threads there are. The one that the system knows by that number comes first.
    Threads {
        first: Option<u32>,
    },
    /// Frames of the first of these threads.
    Frames(VecDeque<u32>),
}

/// What is known of a command of gdb's command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cli {
    background: bool,
    launches: bool,
    attaches: bool,
    kills: bool,
    /// A `>` that it prints is no prompt.
    prints: bool,
    was_running: bool,
    told_of_lines: bool,
}

/// The driver. After each call drain [`Driver::poll_output`].
#[derive(Debug)]
pub struct Driver {
    phase: Phase,
    attach: Option<u32>,
    program: Program,
    /// The process that is debugged, and whether it was started elsewhere.
    process: Option<(u32, bool)>,
    queue: VecDeque<Command>,
    pending: Option<Pending>,
    /// Interrupts and kills whose marks are those of the stop that they cause.
    unanswered: Vec<u32>,
    interrupt_wanted: bool,
    killing: Killing,
    /// The last command that has had the program run, up to the next stop.
    resumed: Option<u32>,
    /// The question behind a run that has failed.
    recheck: Option<u32>,
    /// The question behind the last stop.
    sync: Option<u32>,
    /// The question behind an interrupt of gdb: when that is answered, so is what was in hand.
    check: Option<u32>,
    last_serial: u32,
    next_token: u32,
    commands: Lines,
    gdb: Lines,
    complaints: Lines,
    said: Said,
    terminal: Terminal,
    outputs: VecDeque<Output>,
}

impl Driver {
    /// A driver whose gdb was just started; see [`Setup`].
    pub fn new(setup: &Setup) -> Self {
        let mut driver = Self {
            phase: Phase::Ready,
            attach: setup.attach,
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
            // Serial and word stand before the text.
            commands: Lines::new(MAX_TEXT + 32, 0),
            gdb: Lines::new(MAX_LINE, MAX_TAIL),
            complaints: Lines::new(MAX_TEXT, 0),
            said: Said::default(),
            terminal: Terminal::default(),
            outputs: VecDeque::new(),
        };
        driver.set_up(setup);
        driver
    }

    /// Something has happened.
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
                    self.tell(b'~', &line.text);
                }
            }
            Input::Program(bytes) => self.terminal.output(now, bytes, &mut self.outputs),
            Input::GdbEnded(how) => self.gdb_ended(how),
            Input::Quit => self.quit(None),
            Input::Signal(signal) => self.signal_program(signal),
        }
        if let Phase::Leaving { until: until @ None, .. } = &mut self.phase {
            *until = Some(now + LEAVE);
        }
        self.watch_kill(now);
    }

    /// The time that [`Driver::poll_timeout`] told has come.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.terminal.timeout(now, &mut self.outputs);
        self.kill_timeout(now);
        if let Phase::Leaving { until: Some(until), .. } = &mut self.phase
            && *until <= now
        {
            *until = now + LEAVE;
            self.outputs.push_back(Output::KillGdb);
        }
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Driver::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let leave = match self.phase {
            Phase::Leaving { until, .. } => until,
            _ => None,
        };
        [leave, self.killing.deadline(), self.terminal.deadline()].into_iter().flatten().min()
    }

    /// Whether there is a program that may read what is typed.
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

    /// gdb's texts are complete up to here: what of them is no whole line is one now.
    fn finish_texts(&mut self) {
        self.said.finish(&mut self.outputs);
    }

    /// Says a line of our own.
    fn tell(&mut self, kind: u8, text: &[u8]) {
        self.finish_texts();
        said::say(kind, text, &mut self.outputs);
    }

    fn mark(&mut self, serial: u32) {
        let mut text = format!("={serial} ").into_bytes();
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
        text.push(b'\n');
        self.outputs.push_back(Output::Say(text));
    }

    /// Answers a command, and those that waited for the same; all texts are said.
    fn answer(&mut self, serial: Option<u32>) {
        self.finish_texts();
        let mut serials = std::mem::take(&mut self.unanswered);
        serials.extend(serial);
        // One that came while it ran was told so: it hears the new state, too.
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
                self.tell(b'!', text.as_bytes());
                self.answer(None);
            }
        }
    }
}
