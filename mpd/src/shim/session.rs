//! One gdb with its driver: the descriptors of [`mpd_debug::driver`]. A program that gdb starts has a plain terminal.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_debug::driver::{Driver, Input, Output, Setup};
use mpd_io::clock::Clock;
use mpd_io::network::outgoing::Outgoing;
use mpd_io::process::signals;
use mpd_io::process::spawn::Fate;
use mpd_io::process::usage;
use mpd_io::terminal::plain_terminal;
use mpd_sansio::Time;
use mpd_stdio::silence::Task;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::gdb::{Debuggee, Gdb};
use super::interrupt;

/// Most bytes of the program that are read before gdb's next record: more than the buffer of a terminal. So output
/// before a stop is always sent before the stop.
const AHEAD: usize = 256 << 10;

/// Most bytes that wait for the program to read them.
const MAX_TYPED: usize = 1 << 20;

const READ: usize = 64 << 10;

/// Variables that gdb sets for itself and would set for its program.
const SET_BY_GDB: [&str; 2] = ["LINES", "COLUMNS"];

#[derive(Debug)]
pub(super) enum DriverMessage {
    /// A line, newline included.
    Line(Vec<u8>),
    /// A mark: the number of a command, and the state.
    Mark(u32, Vec<u8>),
    /// gdb has ended, and nothing more comes.
    Over,
}

pub(super) struct Session {
    driver: Driver,
    gdb: Gdb,
    terminal: Terminal,
    /// Records of gdb that wait until the earlier output of the program is read.
    held: Vec<u8>,
    ahead: usize,
    messages: VecDeque<DriverMessage>,
    /// Bytes of the lines in `messages`.
    bytes: usize,
}

/// The program's terminal.
struct Terminal {
    master: File,
    typed: Outgoing,
    /// Whether a process may have the other end open.
    is_open: bool,
}

impl Session {
    /// Starts gdb. With `once` it ends when its program has ended.
    ///
    /// # Errors
    /// There is no terminal, or no gdb.
    pub(super) fn start(path: &OsStr, debuggee: Debuggee<'_>, once: bool) -> Result<Self> {
        let terminal = plain_terminal::open().context("no terminal for the program")?;
        let variable = |name: &str| {
            let value = std::env::var_os(name).map(OsString::into_vec);
            (name.as_bytes().to_vec(), value)
        };
        let attach = match debuggee {
            Debuggee::Program(_) => None,
            Debuggee::Process(pid) => Some(pid),
        };
        let setup = Setup {
            attach,
            terminal: terminal.slave.as_os_str().as_bytes().to_vec(),
            wrapper: Gdb::wrapper().into_bytes(),
            once,
            variables: SET_BY_GDB.map(variable).into(),
        };
        let mut session = Self {
            driver: Driver::new(&setup),
            gdb: Gdb::start(path, debuggee)?,
            terminal: Terminal {
                master: terminal.master.into(),
                typed: Outgoing::default(),
                is_open: true,
            },
            held: Vec::new(),
            ahead: 0,
            messages: VecDeque::new(),
            bytes: 0,
        };
        session.perform();
        Ok(session)
    }

    /// The events to wait for. `has_room`: more lines are accepted.
    pub(super) fn wants(&self, has_room: bool) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut wanted = Vec::new();
        wanted.extend(self.gdb.stdin().map(|fd| (fd.as_fd(), PollFlags::POLLOUT)));
        if has_room && self.gdb.is_there() {
            wanted.push((self.gdb.output.as_fd(), PollFlags::POLLIN));
            wanted.push((self.gdb.complaints.as_fd(), PollFlags::POLLIN));
        }
        let terminal = self.terminal.master.as_fd();
        if has_room && self.terminal.is_open {
            wanted.push((terminal, PollFlags::POLLIN));
        }
        if self.can_type() {
            wanted.push((terminal, PollFlags::POLLOUT));
        }
        wanted
    }

    /// The time after which a turn is due without an event.
    pub(super) fn wait(&self, clock: &Clock, has_room: bool) -> Option<Duration> {
        if has_room && !self.held.is_empty() || self.gdb.fate.is_some() {
            return Some(Duration::ZERO);
        }
        self.driver.poll_timeout().map(|at| clock.until(at))
    }

    /// Reads and writes as much as possible, up to about `room` bytes of lines.
    pub(super) fn turn(&mut self, now: Time, room: usize) {
        // The program's output is read between the look at its threads and the decision.
        let look = self.driver.awaits_look(now).then(|| self.ready_threads());
        match room {
            0 => self.handle(now, Input::Unread),
            room => self.read_gdb(now, room),
        }
        if let Some(threads) = look {
            self.handle(now, Input::Look(&threads));
        }
        if self.driver.poll_timeout().is_some_and(|at| at <= now) {
            self.driver.handle_timeout(now);
            self.perform();
        }
        self.flush_terminal();
        self.gdb.flush();
    }

    /// The threads of gdb and of the program that are ready to run.
    fn ready_threads(&self) -> Vec<Task> {
        self.gdb.pid.map(usage::ready).unwrap_or_default()
    }

    /// The next message of the driver.
    pub(super) fn next_message(&mut self) -> Option<DriverMessage> {
        let message = self.messages.pop_front()?;
        if let DriverMessage::Line(line) = &message {
            self.bytes -= line.len();
        }
        Some(message)
    }

    pub(super) fn command(&mut self, now: Time, bytes: &[u8]) {
        self.handle(now, Input::Commands(bytes));
    }

    pub(super) fn signal(&mut self, now: Time, signal: i32) {
        self.handle(now, Input::Signal(signal));
    }

    pub(super) fn quit(&mut self, now: Time) {
        self.handle(now, Input::Quit);
    }

    pub(super) fn kill(&self) {
        self.gdb.signal(Signal::SIGKILL);
    }

    /// Passes the connection for the program's next run.
    pub(super) fn pass(&self, connection: &OwnedFd) {
        self.gdb.pass(connection);
    }

    /// The process of gdb, until it is reaped.
    pub(super) const fn pid(&self) -> Option<Pid> {
        self.gdb.pid
    }

    /// Notes that gdb was reaped.
    pub(super) fn reaped(&mut self, fate: Fate) {
        self.gdb.reaped(fate);
    }

    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.driver.handle(now, input);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(output) = self.driver.poll_output() {
            match output {
                Output::ToGdb(bytes) => self.gdb.input.buffer().extend(bytes),
                Output::Say(line) => {
                    self.bytes += line.len();
                    self.messages.push_back(DriverMessage::Line(line));
                }
                Output::Mark(serial, state) => {
                    self.messages.push_back(DriverMessage::Mark(serial, state))
                }
                Output::Type(bytes) => self.terminal.type_soon(&bytes),
                Output::Signal(pid, signal) => send(pid, signal),
                Output::Interrupt(pid) => send(pid, interrupt::signal_for(pid)),
                Output::InterruptGdb => self.gdb.signal(Signal::SIGINT),
                Output::KillGdb => self.gdb.signal(Signal::SIGKILL),
                Output::End => self.messages.push_back(DriverMessage::Over),
            }
        }
    }

    /// Reads records of gdb. The program's output before a record is read first.
    fn read_gdb(&mut self, now: Time, room: usize) {
        // The end of gdb is checked first, so that all its output can be read afterwards.
        let end = self.gdb.take_end();
        loop {
            let mut is_empty = true;
            if self.held.is_empty() {
                let bytes = some(&self.gdb.output);
                is_empty = bytes.is_empty();
                self.held = bytes;
                self.ahead = 0;
                // A program that was just started has opened its terminal.
                self.terminal.is_open |= !is_empty;
                self.take_up_to_a_start(now);
            }
            let complaints = some(&self.gdb.complaints);
            if !complaints.is_empty() {
                self.handle(now, Input::Complaints(&complaints));
            }
            while self.terminal.is_open && self.read_terminal(now) && self.ahead < AHEAD {
                if self.bytes >= room && end.is_none() {
                    return;
                }
            }
            let held = std::mem::take(&mut self.held);
            if !held.is_empty() {
                is_empty = false;
                self.handle(now, Input::Gdb(&held));
            }
            if end.is_none() || is_empty {
                break;
            }
        }
        if let Some(how) = end {
            self.handle(now, Input::GdbEnded(&how));
        }
    }

    /// Handles the records before the program was continued. They precede the output that it has written since.
    fn take_up_to_a_start(&mut self, now: Time) {
        let lines = self.held.split_inclusive(|byte| *byte == b'\n');
        let (mut at, mut start) = (0, 0);
        for line in lines {
            at += line.len();
            if line.starts_with(b"*running,") {
                start = at;
            }
        }
        if start > 0 {
            let rest = self.held.split_off(start);
            let before = std::mem::replace(&mut self.held, rest);
            self.handle(now, Input::Gdb(&before));
        }
    }

    /// Reads the terminal. Whether more data may wait.
    fn read_terminal(&mut self, now: Time) -> bool {
        let mut buffer = [0; READ];
        match self.terminal.master.read(&mut buffer) {
            Ok(0) => self.terminal.is_open = false,
            Ok(count) => {
                self.ahead += count;
                self.handle(now, Input::Program(&buffer[..count]));
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => self.terminal.is_open &= !plain_terminal::is_closed(&error),
        }
        false
    }

    /// Whether input may be written to the terminal. Before the program runs, the settings of the terminal are not
    /// made.
    fn can_type(&self) -> bool {
        let terminal = &self.terminal;
        terminal.is_open && !terminal.typed.is_empty() && self.driver.has_program()
    }

    fn flush_terminal(&mut self) {
        // Without a reader the bytes are dropped.
        if self.can_type() && self.terminal.typed.flush(&mut self.terminal.master).is_err() {
            self.terminal.is_open = false;
        }
    }
}

impl Terminal {
    /// Queues input. Input beyond the bound is dropped, since the program does not read.
    fn type_soon(&mut self, bytes: &[u8]) {
        if self.typed.len() < MAX_TYPED {
            self.typed.buffer().extend(bytes);
        }
    }
}

/// Reads a bounded amount of the available data.
fn some(mut from: impl Read) -> Vec<u8> {
    let mut buffer = vec![0; READ];
    let count = from.read(&mut buffer).unwrap_or(0);
    buffer.truncate(count);
    buffer
}

fn send(pid: u32, signal: i32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    // The process may have just ended.
    let _ = signals::send(Pid::from_raw(pid), signal);
}
