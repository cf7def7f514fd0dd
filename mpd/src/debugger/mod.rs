//! The driver of one rank's gdb, a process of its own in the rank's place. All decisions are
//! `mpd_debug::driver`'s; here are the descriptors.
//!
//! One loop over `poll`. What the console does not take stays with us up to a bound, then with gdb and
//! the program, which wait.

mod gdb;
mod interrupt;
mod target;
pub(crate) mod wrapper;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_debug::driver::{Driver, Input, Output, Setup};
use mpd_io::clock::Clock;
use mpd_io::outgoing::Outgoing;
use mpd_io::output::Output as Stream;
use mpd_io::passing::{self, Passed};
use mpd_io::signals::{self, Signals};
use mpd_io::{adopt_inherited, plain_terminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use self::gdb::{Debuggee, Gdb};

/// Bytes that wait for the console before nothing more is read of gdb and the program.
const MAX_WAITING: usize = 256 << 10;

/// Bytes of the program that are read before gdb is listened to, if there are so many: more than a
/// terminal holds, so that what was written before a stop is always said before it.
const AHEAD: usize = 256 << 10;

/// Bytes that wait for the program to read them.
const MAX_TYPED: usize = 1 << 20;

const READ: usize = 64 << 10;

/// Where the manager passes PMI connections.
const CONTROL: i32 = 3;

/// Variables that gdb sets for itself, and would for its program.
const SET_BY_GDB: [&str; 2] = ["LINES", "COLUMNS"];

/// Drives gdb until it is told to quit.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let Some((gdb, words)) = words.split_first() else { bail!("no gdb to drive") };
    let debuggee = Debuggee::from_words(words)?;
    let control = adopt_inherited(CONTROL).ok();
    // SIGTERM is for us, all others are for the program.
    let watched: Vec<i32> = signals::for_programs().chain([libc::SIGCHLD]).collect();
    let signals = Signals::catch(&watched).context("cannot catch signals")?;
    let terminal = plain_terminal::open().context("no terminal for the program")?;
    let variable = |name: &str| {
        let value = std::env::var_os(name).map(OsString::into_vec);
        (name.as_bytes().to_vec(), value)
    };
    let setup = Setup {
        attach: debuggee.process().map(target::of).transpose()?,
        terminal: terminal.slave.as_os_str().as_bytes().to_vec(),
        wrapper: Gdb::wrapper().into_bytes(),
        variables: SET_BY_GDB.map(variable).into(),
    };
    let process = Process {
        driver: Driver::new(&setup),
        clock: Clock::start(),
        gdb: Gdb::start(gdb, &debuggee)?,
        stdin: Some(adopt_inherited(0)?.into()),
        stdout: Stream::new(adopt_inherited(1)?).context("standard output")?,
        lines: Outgoing::default(),
        control,
        terminal: terminal.master.into(),
        typed: Outgoing::default(),
        terminal_is_open: true,
        held: Vec::new(),
        ahead: 0,
        signals,
        is_over: false,
    };
    process.run()
}

struct Process {
    driver: Driver,
    clock: Clock,
    gdb: Gdb,
    stdin: Option<File>,
    stdout: Stream,
    lines: Outgoing,
    control: Option<OwnedFd>,
    terminal: File,
    typed: Outgoing,
    /// Somebody may have the other end open.
    terminal_is_open: bool,
    /// Said by gdb; the program's output before it is to be read first.
    held: Vec<u8>,
    ahead: usize,
    signals: Signals,
    is_over: bool,
}

impl Process {
    fn run(mut self) -> Result<ExitCode> {
        self.perform();
        while !(self.is_over && self.lines.is_empty()) {
            self.wait()?;
            if self.driver.poll_timeout().is_some_and(|at| at <= self.clock.now()) {
                self.driver.handle_timeout(self.clock.now());
                self.perform();
            }
            // A connection comes before the command that is to use it.
            self.read_control();
            self.read_signals();
            if self.lines.len() < MAX_WAITING {
                self.read_gdb();
            }
            self.read_commands()?;
            self.flush_terminal();
            self.flush_lines();
            self.gdb.flush();
        }
        Ok(ExitCode::SUCCESS)
    }

    fn wait(&self) -> Result<()> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let mut add = |fd, flags| add(&mut fds, fd, flags);
        let has_room = self.lines.len() < MAX_WAITING;
        add(self.stdin.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        add(self.control.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        add(self.gdb.stdin().map(AsFd::as_fd), PollFlags::POLLOUT);
        add((!self.lines.is_empty()).then(|| self.stdout.as_fd()), PollFlags::POLLOUT);
        if has_room && self.gdb.is_there() {
            add(Some(self.gdb.output.as_fd()), PollFlags::POLLIN);
            add(Some(self.gdb.complaints.as_fd()), PollFlags::POLLIN);
        }
        if has_room && self.terminal_is_open {
            add(Some(self.terminal.as_fd()), PollFlags::POLLIN);
        }
        if self.can_type() {
            add(Some(self.terminal.as_fd()), PollFlags::POLLOUT);
        }
        match poll(&mut fds, self.patience(has_room)) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error).context("poll"),
        }
    }

    fn patience(&self, has_room: bool) -> PollTimeout {
        if has_room && !self.held.is_empty() {
            return PollTimeout::ZERO;
        }
        let Some(at) = self.driver.poll_timeout() else { return PollTimeout::NONE };
        // The next millisecond, so that the time has come then.
        let left = self.clock.until(at).as_millis().saturating_add(1);
        PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX))
    }

    fn handle(&mut self, input: Input<'_>) {
        self.driver.handle(self.clock.now(), input);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(output) = self.driver.poll_output() {
            match output {
                Output::ToGdb(bytes) => self.gdb.input.buffer().extend(bytes),
                Output::Say(line) => self.lines.buffer().extend(line),
                Output::Type(bytes) => self.type_soon(&bytes),
                Output::Signal(pid, signal) => send(pid, signal),
                Output::Interrupt(pid) => send(pid, interrupt::signal_for(pid)),
                Output::InterruptGdb => self.gdb.signal(Signal::SIGINT),
                Output::KillGdb => self.gdb.signal(Signal::SIGKILL),
                Output::End => self.is_over = true,
            }
        }
    }

    /// Nobody types so much without a program that reads it.
    fn type_soon(&mut self, bytes: &[u8]) {
        if self.typed.len() < MAX_TYPED {
            self.typed.buffer().extend(bytes);
        }
    }

    fn read_control(&mut self) {
        while let Some(control) = &self.control {
            match passing::receive(control) {
                // However the program is started next, it finds the newest one. Ours is closed: the manager
                // sees the end of the program's.
                Ok(Passed::Message(_, Some(connection))) => self.gdb.pass(&connection),
                Ok(Passed::Message(_, None)) => {}
                Ok(Passed::Nothing) => return,
                Ok(Passed::Closed) | Err(_) => {
                    self.control = None;
                    self.handle(Input::Quit);
                }
            }
        }
    }

    fn read_signals(&mut self) {
        for signal in self.signals.pending() {
            match signal {
                libc::SIGCHLD => {}
                libc::SIGTERM => self.handle(Input::Quit),
                signal => self.handle(Input::Signal(signal)),
            }
        }
    }

    /// gdb's records are taken when the program's output before them was.
    fn read_gdb(&mut self) {
        // Its end is looked for first: all that it said can be read then.
        let end = self.gdb.reap();
        loop {
            let mut is_empty = true;
            if self.held.is_empty() {
                let bytes = some(&self.gdb.output);
                is_empty = bytes.is_empty();
                self.held = bytes;
                self.ahead = 0;
                // A program that was just started has opened its terminal.
                self.terminal_is_open |= !is_empty;
                self.take_up_to_a_start();
            }
            let complaints = some(&self.gdb.complaints);
            if !complaints.is_empty() {
                self.handle(Input::Complaints(&complaints));
            }
            while self.terminal_is_open && self.read_terminal() && self.ahead < AHEAD {
                if self.lines.len() >= MAX_WAITING && end.is_none() {
                    return;
                }
            }
            let held = std::mem::take(&mut self.held);
            if !held.is_empty() {
                is_empty = false;
                self.handle(Input::Gdb(&held));
            }
            if end.is_none() || is_empty {
                break;
            }
        }
        if let Some(how) = end {
            self.handle(Input::GdbEnded(&how));
        }
    }

    /// What was said before the program went on, was said before what it has written since.
    fn take_up_to_a_start(&mut self) {
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
            self.handle(Input::Gdb(&before));
        }
    }

    /// Whether there may be more.
    fn read_terminal(&mut self) -> bool {
        let mut buffer = [0; READ];
        match self.terminal.read(&mut buffer) {
            Ok(0) => self.terminal_is_open = false,
            Ok(count) => {
                self.ahead += count;
                self.handle(Input::Program(&buffer[..count]));
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => self.terminal_is_open &= !plain_terminal::is_closed(&error),
        }
        false
    }

    fn read_commands(&mut self) -> Result<()> {
        let Some(mut stdin) = self.stdin.as_ref() else { return Ok(()) };
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO).unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut buffer = [0; READ];
        match stdin.read(&mut buffer) {
            Ok(0) => self.stdin = None,
            Ok(count) => {
                self.read_control();
                self.handle(Input::Commands(&buffer[..count]));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("standard input"),
        }
        Ok(())
    }

    /// Before it runs, the program's wrapper has not made the terminal's settings.
    fn can_type(&self) -> bool {
        self.terminal_is_open && !self.typed.is_empty() && self.driver.has_program()
    }

    fn flush_terminal(&mut self) {
        if self.can_type() {
            // What nobody reads any more is not missed.
            if self.typed.flush(&mut self.terminal).is_err() {
                self.terminal_is_open = false;
            }
        }
    }

    fn flush_lines(&mut self) {
        while !self.lines.is_empty() {
            match self.stdout.write(self.lines.waiting()) {
                Ok(count) => self.lines.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.lines.advance(self.lines.len());
                    self.handle(Input::Quit);
                    return;
                }
            }
        }
    }
}

fn add<'a>(fds: &mut Vec<PollFd<'a>>, fd: Option<BorrowedFd<'a>>, flags: PollFlags) {
    fds.extend(fd.map(|fd| PollFd::new(fd, flags)));
}

/// What can be read now, a bounded part of it.
fn some(mut from: impl Read) -> Vec<u8> {
    let mut buffer = vec![0; READ];
    let count = from.read(&mut buffer).unwrap_or(0);
    buffer.truncate(count);
    buffer
}

fn send(pid: u32, signal: i32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    // It may be gone just now.
    let _ = signals::send(Pid::from_raw(pid), signal);
}
