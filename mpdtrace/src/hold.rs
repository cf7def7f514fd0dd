//! Holds slots while a command runs: the loop of `mpdalloc`.
//!
//! The slots belong to the connection to the daemon. If the daemon dies, the loop returns to the next one.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_alloc::data::{AllocEnd, AllocId, AllocNews, AllocRequest, Part, Why};
use mpd_alloc::exchange::{Ask, Reply};
use mpd_io::console::{Console, ConsoleError};
use mpd_io::signals::{self, Signals};
use mpd_io::slots::{self, VARIABLE};
use mpd_io::terminal;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::ask::AskError;
use crate::cli::RingOptions;
use crate::slots::{RECONNECT, parts};
use crate::tool;

/// Between attempts to reach a new daemon.
const AGAIN: Duration = Duration::from_millis(300);

const NAME: &str = "mpdalloc";

/// They are caught and not blocked, since the command would inherit blocked ones.
const CAUGHT: [i32; 7] = [
    libc_of(Signal::SIGCHLD),
    libc_of(Signal::SIGTERM),
    libc_of(Signal::SIGHUP),
    libc_of(Signal::SIGINT),
    libc_of(Signal::SIGQUIT),
    libc_of(Signal::SIGUSR1),
    libc_of(Signal::SIGUSR2),
];

/// Requests slots, runs the command when they are there, and returns its exit code.
///
/// # Errors
/// The daemon refuses the request or is not there; the command cannot be started.
pub fn run(
    (options, quiet): (&RingOptions, bool),
    request: AllocRequest,
    command: &[OsString],
) -> Result<ExitCode> {
    let signals = Signals::catch_unless_ignored(&CAUGHT).context("cannot catch signals")?;
    let boxed = Box::new(request.clone());
    let console = slots::ask(&options.rundir()?, &Ask::Allocate { request: boxed })?;
    let mut hold = Hold {
        options,
        quiet,
        request,
        command,
        signals,
        daemon: Ok(console),
        state: State::Asking,
        child: None,
        is_over: false,
    };
    loop {
        if let Some(code) = hold.turn()? {
            return Ok(code);
        }
    }
}

/// What the allocation has become.
#[derive(Debug)]
enum State {
    /// The daemon has not named the request yet.
    Asking,
    Waiting(AllocId, Option<u64>),
    Granted(AllocId),
}

#[derive(Debug)]
struct Hold<'a> {
    options: &'a RingOptions,
    /// Nothing is printed about the queue and the slots.
    quiet: bool,
    request: AllocRequest,
    command: &'a [OsString],
    signals: Signals,
    /// The connection, or the time at which it was lost.
    daemon: Result<Console, Instant>,
    state: State,
    child: Option<Child>,
    /// The slots are gone.
    is_over: bool,
}

impl Hold<'_> {
    /// Waits for a message, a signal or the time for an attempt, and handles it. Returns the exit code at the end.
    fn turn(&mut self) -> Result<Option<ExitCode>> {
        self.wait()?;
        for signal in self.signals.pending() {
            self.signalled(signal)?;
        }
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait().context("cannot wait for the command")?
        {
            return Ok(Some(self.ended(status)));
        }
        self.read()?;
        Ok((self.is_over && self.child.is_none()).then(|| tool::code(true)))
    }

    fn wait(&self) -> Result<()> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let mut patience = PollTimeout::NONE;
        match &self.daemon {
            _ if self.is_over => {}
            Ok(console) => fds.push(PollFd::new(console.as_fd(), PollFlags::POLLIN)),
            Err(_) => patience = PollTimeout::try_from(AGAIN).unwrap_or(PollTimeout::NONE),
        }
        match poll(&mut fds, patience) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait"),
        }
    }

    /// While the command runs, the terminal's signals are for the command alone, and the others are passed on.
    fn signalled(&self, signal: i32) -> Result<()> {
        let is_of_terminal =
            signal == libc_of(Signal::SIGINT) || signal == libc_of(Signal::SIGQUIT);
        match &self.child {
            _ if signal == libc_of(Signal::SIGCHLD) => {}
            // The terminal has sent it to the command too.
            Some(_) if is_of_terminal && terminal::is_ours() => {}
            Some(child) => send(child, signal),
            None => {
                signals::die_of(signal);
                bail!("ended by signal {signal}");
            }
        }
        Ok(())
    }

    /// Handles the messages of the daemon that are there.
    fn read(&mut self) -> Result<()> {
        while !self.is_over {
            let Ok(console) = &mut self.daemon else { return self.reconnect() };
            match slots::answer(console, Some(Duration::ZERO)) {
                Ok(Reply::News(news)) => self.happened(news)?,
                Ok(_) => return Err(AskError::UNFIT.into()),
                Err(ConsoleError::Silent(_)) => return Ok(()),
                Err(ConsoleError::Closed | ConsoleError::System(_)) => self.lose_daemon()?,
                Err(error) if self.child.is_none() => return Err(error.into()),
                Err(error) => self.over(&error.to_string()),
            }
        }
        Ok(())
    }

    fn lose_daemon(&mut self) -> Result<()> {
        if matches!(self.state, State::Asking) {
            bail!("the daemon ended");
        }
        tool::warn(NAME, "the daemon of this host ended; waiting for the next one");
        self.daemon = Err(Instant::now());
        Ok(())
    }

    /// Tries to return to a new daemon.
    fn reconnect(&mut self) -> Result<()> {
        let Err(since) = self.daemon else { return Ok(()) };
        let (id, ticket, granted) = match &self.state {
            State::Asking => return Ok(()),
            State::Waiting(id, ticket) => (id.clone(), *ticket, false),
            State::Granted(id) => (id.clone(), None, true),
        };
        let request = Box::new(self.request.clone());
        let resume = Ask::Resume { id, request, ticket, granted };
        match slots::ask(&self.options.rundir()?, &resume) {
            Ok(console) => self.daemon = Ok(console),
            Err(_) if since.elapsed() < RECONNECT => {}
            Err(error) if self.child.is_none() => return Err(error.into()),
            Err(error) => self.over(&format!("the slots are lost: {error}")),
        }
        Ok(())
    }

    fn happened(&mut self, news: AllocNews) -> Result<()> {
        match news {
            AllocNews::Waiting { id, ticket, why } => {
                if !matches!(why, Why::Asking | Why::Reserving) {
                    self.tell(&format!("{id} waits: {why}"));
                }
                self.state = State::Waiting(id, ticket);
            }
            AllocNews::Granted { id, parts } => {
                self.state = State::Granted(id.clone());
                if self.child.is_none() {
                    self.start(&id, &parts)?;
                }
            }
            AllocNews::Lost { id, host } => {
                tool::warn(NAME, &format!("{id} has lost its slots on {host}"));
            }
            AllocNews::Over { id, end } => {
                let why = match end {
                    AllocEnd::Cancelled => "is cancelled",
                    AllocEnd::Expired => "is over: its time limit is reached",
                    AllocEnd::Lost => "has lost its slots",
                    AllocEnd::Replaced => "belongs to another process now",
                };
                self.over(&format!("{id} {why}"));
            }
        }
        Ok(())
    }

    fn tell(&self, text: &str) {
        if !self.quiet {
            tool::warn(NAME, text);
        }
    }

    /// The slots are gone, and the command must end.
    fn over(&mut self, why: &str) {
        tool::warn(NAME, why);
        self.is_over = true;
        if let Some(child) = &self.child {
            // The command ignores what this process ignores, for example under nohup.
            let is_ignored = signals::ignored() & 1 << (libc_of(Signal::SIGHUP) - 1) != 0;
            send(child, libc_of(if is_ignored { Signal::SIGTERM } else { Signal::SIGHUP }));
        }
    }

    fn start(&mut self, id: &AllocId, granted: &[Part]) -> Result<()> {
        self.tell(&format!("{id} has {}", parts(granted)));
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env(VARIABLE, id.to_string());
        command.env(slots::LIST_VARIABLE, parts(granted));
        command.env(slots::OWNER_VARIABLE, std::process::id().to_string());
        if let Some(ring) = &self.options.ring {
            command.env("MPD_RING", ring);
        }
        if let Some(rundir) = &self.options.rundir {
            command.env(mpd_io::rundir::VARIABLE, std::path::absolute(rundir)?);
        }
        match command.spawn() {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                let shown = self.command[0].to_string_lossy();
                tool::warn(NAME, &format!("cannot execute {shown}: {error}"));
                let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
                // The slots are free when this process has ended.
                std::process::exit(code);
            }
        }
        Ok(())
    }

    fn ended(&self, status: ExitStatus) -> ExitCode {
        let code = match (status.code(), status.signal()) {
            (Some(0), _) if self.is_over => 1,
            (Some(code), _) => code,
            (None, Some(signal)) if !self.is_over => 128 + signal,
            (None, _) => 1,
        };
        ExitCode::from(u8::try_from(code).unwrap_or(tool::EXIT_FAILURE))
    }
}

const fn libc_of(signal: Signal) -> i32 {
    signal as i32
}

/// Sends a signal to the command. It is our child, so its number is not used by another process.
fn send(child: &Child, signal: i32) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = signals::send(Pid::from_raw(pid), signal);
    }
}
