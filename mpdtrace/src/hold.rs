//! Holds slots while a command runs: the loop of `mpdalloc`.
//!
//! The slots belong to the connection to the daemon. If the daemon dies, the loop returns to the next one.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_alloc::data::{AllocEnd, AllocId, AllocNews, AllocRequest, Part, Strings, Why};
use mpd_io::process::signals::{self, Signals};
use mpd_io::ring::slots::{self, VARIABLE};
use mpd_io::terminal::controlling;
use mpd_io::wait;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::cli::RingOptions;
use crate::owner::{Change, Owner};
use crate::slots::parts;
use crate::tool;

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

/// The exit code of a request that would have to wait.
const EXIT_BUSY: u8 = 125;
/// How long the ring may take for an answer to a request that does not wait.
const NOW: Duration = Duration::from_secs(10);
/// How long an earlier request may be first, which may have its slots in this moment.
const BEHIND: Duration = Duration::from_secs(1);

/// How an allocation is held.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Nothing is printed about the queue and the slots.
    pub quiet: bool,
    /// The request is refused if it would have to wait.
    pub now: bool,
}

/// Requests slots, runs the command when they are there, and returns its exit code.
///
/// # Errors
/// The daemon refuses the request or is not there; the command cannot be started.
pub fn run(
    options: &RingOptions,
    name: &str,
    manner: Manner,
    request: AllocRequest,
    strings: Strings,
    command: &[OsString],
) -> Result<ExitCode> {
    let signals = Signals::catch_unless_ignored(&CAUGHT).context("cannot catch signals")?;
    let owner = Owner::ask(options.rundir()?, request, strings.clone())?;
    let mut hold = Hold {
        options,
        name,
        quiet: manner.quiet,
        busy: manner.now.then(|| Busy { by: Instant::now() + NOW, why: Why::Asking }),
        strings,
        command,
        signals,
        owner,
        child: None,
        is_over: false,
    };
    loop {
        if let Some(code) = hold.turn()? {
            return Ok(code);
        }
    }
}

/// The first argument of a process that becomes the command. The second one is the process that holds the slots.
const COMMAND: &str = "--as-command";

/// Becomes the command, if these arguments are for that. It gets SIGTERM when the process dies that holds its slots. Does
/// not return then, unless the command cannot be executed.
pub fn as_command(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut rest = arguments.skip(1);
    rest.next().filter(|first| first == COMMAND)?;
    let owner = rest.next()?.to_str()?.parse().ok()?;
    let program = rest.next()?;
    slots::end_with(Pid::from_raw(owner), Signal::SIGTERM);
    let error = Command::new(&program).args(rest).exec();
    tool::warn(NAME, &format!("cannot execute {}: {error}", program.to_string_lossy()));
    Some(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
}

#[derive(Debug)]
struct Hold<'a> {
    options: &'a RingOptions,
    /// The program that the user has started.
    name: &'a str,
    /// Nothing is printed about the queue and the slots.
    quiet: bool,
    /// If it must not wait: when it is refused, and why it waits.
    busy: Option<Busy>,
    strings: Strings,
    command: &'a [OsString],
    signals: Signals,
    owner: Owner,
    child: Option<Child>,
    /// The slots are gone.
    is_over: bool,
}

#[derive(Debug)]
struct Busy {
    by: Instant,
    why: Why,
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
        if let Some(Busy { why, .. }) = self.busy.take_if(|busy| busy.by <= Instant::now()) {
            tool::warn(self.name, &format!("the slots are not free now: {why}"));
            return Ok(Some(ExitCode::from(EXIT_BUSY)));
        }
        Ok((self.is_over && self.child.is_none()).then(|| tool::code(true)))
    }

    fn wait(&self) -> Result<()> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let mut patience = None;
        if !self.is_over {
            fds.extend(self.owner.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let busy = self.busy.as_ref();
            let busy = busy.map(|busy| busy.by.saturating_duration_since(Instant::now()));
            patience = self.owner.patience().into_iter().chain(busy).min();
        }
        wait::wait(&mut fds, patience).context("cannot wait")?;
        Ok(())
    }

    /// While the command runs, the terminal's signals are for the command alone, and the others are passed on.
    fn signalled(&self, signal: i32) -> Result<()> {
        let is_of_terminal =
            signal == libc_of(Signal::SIGINT) || signal == libc_of(Signal::SIGQUIT);
        match &self.child {
            _ if signal == libc_of(Signal::SIGCHLD) => {}
            // The terminal has sent it to the command too.
            Some(_) if is_of_terminal && controlling::is_ours() => {}
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
            match self.owner.next() {
                Ok(Some(Change::News(news))) => self.happened(news)?,
                Ok(Some(Change::DaemonLost)) => {
                    tool::warn(
                        self.name,
                        "the daemon of this host ended; waiting for the next one",
                    );
                }
                Ok(None) => return Ok(()),
                Err(error) if self.child.is_none() => return Err(error.into()),
                Err(error) => self.over(&format!("the slots are lost: {error}")),
            }
        }
        Ok(())
    }

    fn happened(&mut self, news: AllocNews) -> Result<()> {
        match news {
            AllocNews::Waiting { why, .. } if self.busy.is_some() => self.note(why),
            AllocNews::Waiting { id, why, .. } => {
                if !matches!(why, Why::Asking | Why::Reserving) {
                    self.tell(&format!("{id} waits: {why}"));
                }
            }
            AllocNews::Granted { id, parts } => {
                self.busy = None;
                if self.child.is_none() {
                    self.start(&id, &parts)?;
                }
            }
            AllocNews::Lost { id, host } => {
                tool::warn(self.name, &format!("{id} has lost its slots on {host}"));
            }
            AllocNews::Over { id, end } => {
                let why = match end {
                    AllocEnd::Cancelled => "is cancelled",
                    AllocEnd::Expired => "is over: its time limit is reached",
                    AllocEnd::Lost => "has lost its slots",
                    AllocEnd::Replaced => "belongs to another process now",
                    AllocEnd::Impossible => "is over: the ring has no slots that it may use",
                };
                self.over(&format!("{id} {why}"));
            }
        }
        Ok(())
    }

    /// Notes why a request waits that must not.
    fn note(&mut self, why: Why) {
        let Some(busy) = &mut self.busy else { return };
        let now = Instant::now();
        busy.by = match &why {
            Why::Asking | Why::Reserving => now + NOW,
            Why::Behind => busy.by.min(now + BEHIND),
            Why::TooFew { .. } | Why::TooFewExist { .. } | Why::TooFewFit { .. } => now,
        };
        busy.why = why;
    }

    fn tell(&self, text: &str) {
        if !self.quiet {
            tool::warn(self.name, text);
        }
    }

    /// The slots are gone, and the command must end.
    fn over(&mut self, why: &str) {
        tool::warn(self.name, why);
        self.is_over = true;
        if let Some(child) = &self.child {
            // The command ignores what this process ignores, for example under nohup.
            let is_ignored = signals::ignored() & 1 << (libc_of(Signal::SIGHUP) - 1) != 0;
            send(child, libc_of(if is_ignored { Signal::SIGTERM } else { Signal::SIGHUP }));
        }
    }

    fn start(&mut self, id: &AllocId, granted: &[Part]) -> Result<()> {
        self.tell(&format!("{id} has {}", parts(granted)));
        // The command begins as a copy of this program, see `as_command`.
        let own = std::process::id().to_string();
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).args([COMMAND, &own]).args(self.command);
        command.env(VARIABLE, id.to_string());
        command.env(slots::LIST_VARIABLE, parts(granted));
        command.envs(strings_of(&self.strings));
        command.env(slots::OWNER_VARIABLE, own);
        if let Some(ring) = &self.options.ring {
            command.env("MPD_RING", ring);
        }
        if let Some(rundir) = &self.options.rundir {
            command.env(mpd_io::ring::rundir::VARIABLE, std::path::absolute(rundir)?);
        }
        self.child = Some(command.spawn().context("cannot start a process for the command")?);
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

/// The strings for a scheduler, as variables.
fn strings_of(Strings { global, each }: &Strings) -> Vec<(&'static str, String)> {
    let each = (!each.is_empty()).then(|| (slots::LOCAL_VARIABLE, each.join("\n")));
    let global = global.iter().map(|text| (slots::GLOBAL_VARIABLE, text.clone()));
    global.chain(each).collect()
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
