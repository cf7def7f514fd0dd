//! The launcher shim of a rank: a process between the manager and the program. It is used only if the rank has a
//! terminal, if its crashes are traced, or if it runs under gdb. [`mpd_debug::shim`] decides; here are the descriptors.
//!
//! | file | subject |
//! |---|---|
//! | [`plan`] | the command line: which abilities this shim has |
//! | [`program`] | the program: its start, on a terminal or traced or both |
//! | [`session`], [`gdb`], [`interrupt`] | one gdb and its driver: for the program, or for the stacks of a crash |
//! | [`starter`] | the process that becomes the program, where something must happen before |
//! | [`target`] | the process to attach to for a rank behind a shim |
//!
//! Descriptor 3 is the control socket to the manager. Standard input and output are the program's, or the terminal's
//! other end. Under gdb, standard output has the lines of gdb and of the program.
//!
//! One loop over `poll`. What the manager does not take stays here up to a bound, then with gdb and the program, which
//! wait. The shim ends as its program did. If the shim is killed, the kernel kills the program, and gdb.

mod gdb;
mod interrupt;
pub(crate) mod plan;
mod program;
mod session;
pub(crate) mod starter;
mod target;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_debug::shim::{Input, Output, Plan, Shim};
use mpd_io::adopt_inherited;
use mpd_io::clock::Clock;
use mpd_io::files::output::Output as Stream;
use mpd_io::network::control::{Control, Received};
use mpd_io::network::outgoing::Outgoing;
use mpd_io::process::signals::{self, Signals};
use mpd_io::process::spawn::Fate;
use mpd_sansio::Pump;
use mpd_wire::message::{ProgramEnd, ShimOrder};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use self::gdb::Debuggee;
use self::program::{Happened, Program};
use self::session::{DriverMessage, Session};
use mpd_io::wait;
use mpd_io::wait::is_ready;

/// The number of the control socket.
const CONTROL: i32 = 3;

/// Most bytes that wait for standard output before gdb and the program are no longer read.
const MAX_WAITING: usize = 256 << 10;

/// How long the last reports may wait for the manager.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs as the shim of `OPTION… -- NAME PROGRAM [ARGUMENT…]`.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let (plan, words) = plan::parse(words)?;
    let control = adopt_inherited(CONTROL).context("no control socket")?;
    let signals = catch(&plan).context("cannot catch signals")?;
    let mut process = Process {
        control: Some(Control::adopt(control)),
        signals,
        clock: Clock::start(),
        pump: Pump::new(Shim::new(plan.abilities())),
        program: Program::default(),
        words: words.to_vec(),
        connection: None,
        gdb: None,
        lines: Lines { stdout: None, waiting: Outgoing::default(), taken: 0 },
        known: Known::default(),
        over: None,
        plan,
    };
    if process.plan.debugs {
        process.debug()?;
    }
    let end = process.serve()?;
    Ok(end_as(&end))
}

/// Catches signals. A shim whose program is in its group blocks all signals except SIGCHLD, since the program gets
/// them too.
fn catch(plan: &Plan) -> Result<Signals> {
    let shares_group = plan.terminal.is_none() && !plan.debugs;
    let mut wanted = vec![libc::SIGCHLD];
    let mut blocked = SigSet::empty();
    if shares_group {
        blocked = SigSet::all();
        blocked.remove(Signal::SIGCHLD);
        blocked.thread_block()?;
    } else {
        wanted.extend(signals::for_programs());
    }
    if plan.terminal.is_some() {
        wanted.extend([libc::SIGTSTP, libc::SIGCONT, libc::SIGWINCH]);
    }
    Ok(Signals::catch_amid(&wanted, &blocked)?)
}

struct Process {
    /// `None` when the manager is gone.
    control: Option<Control>,
    signals: Signals,
    clock: Clock,
    pump: Pump<Shim>,
    plan: Plan,
    /// `NAME PROGRAM [ARGUMENT…]`
    words: Vec<OsString>,
    program: Program,
    /// The PMI connection for the next run.
    connection: Option<OwnedFd>,
    gdb: Option<Session>,
    lines: Lines,
    known: Known,
    over: Option<ProgramEnd>,
}

/// Lines of gdb and of its program, for standard output.
struct Lines {
    /// `None` if standard output has no reader.
    stdout: Option<Stream>,
    waiting: Outgoing,
    /// Bytes that standard output has accepted.
    taken: u64,
}

/// Facts that the machine already knows.
#[derive(Default)]
struct Known {
    drained: bool,
    lost: bool,
}

impl Process {
    /// Starts gdb for the program, or for the process to attach to.
    fn debug(&mut self) -> Result<()> {
        let stdout = Stream::new(adopt_inherited(1)?).context("standard output")?;
        self.lines.stdout = Some(stdout);
        let debuggee = match self.plan.attach.map(target::of).transpose()? {
            Some(pid) => Debuggee::Process(pid),
            None => Debuggee::Program(self.words.get(1..).unwrap_or_default()),
        };
        self.gdb =
            Some(Session::start(OsStr::from_bytes(&self.plan.gdb), debuggee, self.plan.once)?);
        Ok(())
    }

    fn serve(mut self) -> Result<ProgramEnd> {
        loop {
            self.settle();
            self.flush();
            if let Some(end) = self.over.take_if(|_| self.lines.waiting.is_empty()) {
                self.finish();
                return Ok(end);
            }
            self.wait()?;
            let now = self.clock.now();
            if self.pump.machine().poll_timeout().is_some_and(|at| at <= now) {
                self.pump.handle_timeout(now);
                self.settle();
            }
            self.read_control();
            self.take_signals();
            self.reap()?;
            self.check_start();
            self.turn_gdb();
            self.turn_terminal();
        }
    }

    // ----- waiting -----

    fn wait(&self) -> Result<()> {
        let has_room = self.lines.has_room();
        let mut wanted: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::new();
        wanted.push((self.signals.as_fd(), PollFlags::POLLIN));
        if let Some(control) = &self.control {
            let flags = if control.has_waiting() { PollFlags::POLLOUT } else { PollFlags::empty() };
            wanted.push((control.as_fd(), flags | PollFlags::POLLIN));
        }
        wanted.extend(self.program.starter().map(|fd| (fd, PollFlags::POLLIN)));
        wanted.extend(self.program.terminal().map(|it| (it.as_fd(), PollFlags::POLLIN)));
        wanted.extend(self.gdb.iter().flat_map(|gdb| gdb.wants(has_room)));
        if let Some(stdout) = self.lines.stdout.as_ref().filter(|_| self.writable() > 0) {
            wanted.push((stdout.as_fd(), PollFlags::POLLOUT));
        }
        let mut fds: Vec<_> = wanted.into_iter().map(|(fd, f)| PollFd::new(fd, f)).collect();
        let due = [
            self.pump.machine().poll_timeout().map(|at| self.clock.until(at)),
            self.gdb.as_ref().and_then(|gdb| gdb.wait(&self.clock, has_room)),
            self.program.terminal().and_then(mpd_io::terminal::pty_relay::PtyRelay::wait),
        ];
        wait::wait(&mut fds, due.into_iter().flatten().min()).context("poll")?;
        Ok(())
    }

    // ----- receiving -----

    fn post(&mut self, input: Input) {
        self.pump.post(input);
        self.settle();
    }

    fn read_control(&mut self) {
        while let Some(control) = &self.control {
            match control.receive() {
                Ok(Received::Message(ShimOrder::Connect, Some(connection))) => {
                    self.connection = Some(connection);
                    self.post(Input::Connected);
                }
                Ok(Received::Message(order, _)) => self.post(Input::Order(order)),
                Ok(Received::Nothing) => return,
                Ok(Received::Closed) | Err(_) => {
                    self.control = None;
                    self.post(Input::ManagerGone);
                }
            }
        }
    }

    fn take_signals(&mut self) {
        for signal in self.signals.pending() {
            if signal != libc::SIGCHLD {
                self.post(Input::Signal(signal));
            }
        }
    }

    fn reap(&mut self) -> Result<()> {
        loop {
            let gdb = self.gdb.as_ref().and_then(Session::pid);
            match self.program.reap(gdb)? {
                Some(Happened::Crashed { pid, tid, signal }) => {
                    let (pid, tid) = (pid.as_raw().unsigned_abs(), tid.as_raw().unsigned_abs());
                    self.post(Input::Crashed { pid, tid, signal });
                }
                Some(Happened::Ended(fate)) => {
                    self.check_start();
                    self.post(Input::Ended(end_of(fate)));
                }
                Some(Happened::OtherEnded(pid, fate)) => self.other_ended(pid, fate),
                None => return Ok(()),
            }
        }
    }

    fn other_ended(&mut self, pid: Pid, fate: Fate) {
        if let Some(gdb) = self.gdb.as_mut().filter(|gdb| gdb.pid() == Some(pid)) {
            gdb.reaped(fate);
        }
    }

    fn check_start(&mut self) {
        let Some(starter) = self.program.starter() else { return };
        if !matches!(is_ready(starter, PollFlags::POLLIN), Ok(true)) {
            return;
        }
        match self.program.started() {
            Some(Ok(pid)) => self.post(Input::Started(pid.as_raw().unsigned_abs())),
            Some(Err((step, errno))) => self.post(Input::NotStarted(step, errno)),
            None => {}
        }
    }

    fn turn_gdb(&mut self) {
        let now = self.clock.now();
        let room = match self.plan.debugs {
            true => MAX_WAITING.saturating_sub(self.lines.waiting.len()),
            false => usize::MAX,
        };
        let Some(gdb) = &mut self.gdb else { return };
        gdb.turn(now, room);
        while let Some(message) = self.gdb.as_mut().and_then(Session::next_message) {
            match message {
                DriverMessage::Line(line) if self.plan.debugs => {
                    self.lines.waiting.buffer().extend(line)
                }
                DriverMessage::Line(mut line) => {
                    line.pop();
                    self.post(Input::DebuggerLine(line));
                }
                DriverMessage::Mark(serial, state) => {
                    let after = self.lines.taken + self.lines.waiting.len() as u64;
                    self.post(Input::Marked { after, serial, state });
                }
                DriverMessage::Over => {
                    self.gdb = None;
                    self.post(Input::GdbEnded);
                }
            }
        }
    }

    fn turn_terminal(&mut self) {
        let Some(relay) = self.program.relay() else { return };
        relay.turn();
        let (is_over, is_lost) = (relay.is_over(), relay.lost().is_some());
        if is_lost && !std::mem::replace(&mut self.known.lost, true) {
            self.post(Input::OutputLost);
        }
        if is_over && !std::mem::replace(&mut self.known.drained, true) {
            self.post(Input::Drained);
        }
    }

    // ----- acting -----

    fn settle(&mut self) {
        while let Some(output) = self.pump.next(self.clock.now()) {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        let now = self.clock.now();
        match output {
            Output::Start => self.start(),
            Output::PassConnection => {
                if let (Some(gdb), Some(connection)) = (&self.gdb, self.connection.take()) {
                    // The socket is closed here, so that the manager detects when the program closes its end.
                    gdb.pass(&connection);
                }
            }
            Output::Attach(pid) => self.attach(pid),
            Output::Command(bytes) => self.with_gdb(|gdb| gdb.command(now, &bytes)),
            Output::SignalDebugged(signal) => self.with_gdb(|gdb| gdb.signal(now, signal)),
            Output::QuitGdb => self.with_gdb(|gdb| gdb.quit(now)),
            Output::KillGdb => self.with_gdb(|gdb| gdb.kill()),
            Output::Signal(signal) => self.program.signal(signal),
            Output::Resize(columns, lines) => match self.program.relay() {
                Some(relay) => drop(relay.resize((columns, lines))),
                // The program starts with this connection.
                None => self.plan.terminal = Some((columns, lines)),
            },
            Output::LetDie(pid, signal) => self.program.let_die(pid, signal),
            Output::Drain => self.program.relay().into_iter().for_each(|it| it.end_program()),
            Output::Report(report) => {
                if let Some(control) = &mut self.control
                    && let Err(e) = control.send(&report, None)
                {
                    log::warn!("a report is lost: {e}");
                }
            }
            Output::Exit(end) => self.over = Some(end),
        }
    }

    fn with_gdb(&mut self, act: impl FnOnce(&mut Session)) {
        if let Some(gdb) = &mut self.gdb {
            act(gdb);
        }
    }

    fn start(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        match self.program.start(&self.plan, &self.words, connection) {
            Ok(Some(pid)) => self.pump.post(Input::Started(pid.as_raw().unsigned_abs())),
            Ok(None) => {}
            Err((step, errno)) => self.pump.post(Input::NotStarted(step, errno)),
        }
    }

    /// Attaches gdb to a crashed process.
    fn attach(&mut self, pid: u32) {
        match Session::start(OsStr::from_bytes(&self.plan.gdb), Debuggee::Process(pid), false) {
            Ok(gdb) => self.gdb = Some(gdb),
            Err(e) => {
                self.pump.post(Input::DebuggerLine(format!("!{e:#}").into_bytes()));
                self.pump.post(Input::GdbEnded);
            }
        }
    }

    // ----- sending -----

    /// The number of bytes of lines that may be written now.
    fn writable(&self) -> usize {
        let limit = self.pump.machine().output_limit().saturating_sub(self.lines.taken);
        self.lines.waiting.len().min(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn flush(&mut self) {
        if let Some(control) = &mut self.control
            && control.flush().is_err()
        {
            self.control = None;
            self.post(Input::ManagerGone);
        }
        if self.lines.write(self.writable()).is_err() {
            self.post(Input::OutputLost);
        }
    }

    /// Waits a limited time until the manager has read the last reports. Then releases the rest of the program.
    fn finish(mut self) {
        let until = self.clock.now() + LAST_WORDS;
        while let Some(control) = &mut self.control
            && control.flush().is_ok()
            && control.has_waiting()
            && self.clock.now() < until
        {
            let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLOUT)];
            let _ = wait::wait(&mut fds, Some(self.clock.until(until)));
        }
        self.program.let_go();
    }
}

impl Lines {
    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    /// Writes up to `bytes` bytes to standard output, as many as it accepts. Without a reader they are dropped.
    fn write(&mut self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0
            && let Some(stdout) = &self.stdout
        {
            match stdout.write(&self.waiting.waiting()[..bytes]) {
                Ok(count) => {
                    bytes -= count;
                    self.taken += count as u64;
                    self.waiting.advance(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    self.stdout = None;
                    self.waiting.advance(self.waiting.len());
                    return Err(error);
                }
            }
        }
        if self.stdout.is_none() {
            self.waiting.advance(self.waiting.len());
        }
        Ok(())
    }
}

fn end_of(fate: Fate) -> ProgramEnd {
    match fate {
        Fate::Exited(code) => ProgramEnd::Exited(code),
        Fate::Killed { signal, core } => {
            ProgramEnd::Killed { signal: u8::try_from(signal).unwrap_or(0), core }
        }
        // It did not end; this is not requested.
        Fate::Stopped => ProgramEnd::Exited(0),
    }
}

/// Ends this process as the program ended.
fn end_as(end: &ProgramEnd) -> ExitCode {
    match end {
        ProgramEnd::Exited(code) => ExitCode::from(*code),
        ProgramEnd::Killed { signal, .. } => {
            signals::die_of((*signal).into());
            ExitCode::from(128_u8.saturating_add(*signal))
        }
        ProgramEnd::NotStarted { step, errno } => {
            ExitCode::from(ProgramEnd::code_of_failure(step, *errno))
        }
    }
}
