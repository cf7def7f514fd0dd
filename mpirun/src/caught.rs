//! The signals that `mpirun` catches, and the inputs that they become.

use anyhow::{Context as _, Result};
use mpd_io::process::signals::Signals;
use mpd_io::terminal::controlling;
use mpd_io::terminal::pty;

use crate::run::Input;

/// Signals that are forwarded to the job, except signals ignored at the start (`nohup`).
const CAUGHT: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Catches the signals. Called before the job exists, so that no signal is lost.
///
/// # Errors
/// When a signal cannot be caught.
pub fn catch_signals() -> Result<Signals> {
    Signals::catch_unless_ignored(&CAUGHT).context("cannot catch signals")
}

/// Turns signals into inputs.
#[derive(Debug)]
pub(crate) struct Caught {
    pub(crate) signals: Signals,
    had_terminal: bool,
    /// Whether ranks have terminals, whose size follows this terminal.
    has_pty: bool,
}

impl Caught {
    /// With `has_pty`, ranks have terminals.
    pub(crate) fn new(signals: Signals, has_pty: bool) -> Self {
        Self { signals, had_terminal: controlling::is_there(), has_pty }
    }

    pub(crate) fn input(&self, signal: i32) -> Input {
        let size = || self.has_pty.then(pty::own_size).flatten();
        match signal {
            libc::SIGHUP if self.had_terminal && !controlling::is_there() => Input::TerminalGone,
            libc::SIGTSTP if !controlling::has_job_control() => Input::StopForever,
            libc::SIGWINCH => match size() {
                Some((columns, lines)) => Input::Resized(columns, lines),
                None => Input::Signal(signal),
            },
            _ => Input::Signal(signal),
        }
    }
}
