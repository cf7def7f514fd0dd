//! The signals of one `mpirun`: which are caught, and what the terminal is like when one comes.

use anyhow::{Context as _, Result};
use mpd_io::signals::{self, Signals};
use mpd_io::{pty, terminal};

use crate::run::Input;

/// Signals that are passed on to the job, unless they were ignored when we were started (`nohup`).
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

/// Catches the signals that are passed on. Before the job exists, so that none is missed.
///
/// # Errors
/// When a signal cannot be caught.
pub fn catch_signals() -> Result<Signals> {
    let ignored = signals::ignored();
    let wanted: Vec<i32> = CAUGHT.into_iter().filter(|s| ignored >> (s - 1) & 1 == 0).collect();
    Signals::catch(&wanted).context("cannot catch signals")
}

/// What turns signals into inputs.
#[derive(Debug)]
pub(crate) struct Caught {
    pub(crate) signals: Signals,
    had_terminal: bool,
    /// Whether ranks have terminals, which follow ours.
    has_pty: bool,
}

impl Caught {
    /// `has_pty`: ranks have terminals.
    pub(crate) fn new(signals: Signals, has_pty: bool) -> Self {
        Self { signals, had_terminal: terminal::is_there(), has_pty }
    }

    /// What a signal means now.
    pub(crate) fn input(&self, signal: i32) -> Input {
        let size = || self.has_pty.then(pty::own_size).flatten();
        match signal {
            libc::SIGHUP if self.had_terminal && !terminal::is_there() => Input::TerminalGone,
            libc::SIGTSTP if !terminal::has_job_control() => Input::StopForever,
            libc::SIGWINCH => match size() {
                Some((columns, lines)) => Input::Resized(columns, lines),
                None => Input::Signal(signal),
            },
            _ => Input::Signal(signal),
        }
    }
}
