//! Waits for the report of a process of a private ring, while the user may end the start.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mpd_io::clock::Clock;
use mpd_io::process::signals::Signals;
use mpd_io::process::tree;
use mpd_sansio::Time;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cut::{Cut, Finding, Wait};
use mpd_io::wait::wait;

/// Signals that end mpirun before the job has started.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// A process that reports on a pipe.
#[derive(Debug)]
pub(super) struct Expected {
    /// Its name for people.
    pub(super) name: &'static str,
    pub(super) pid: Pid,
    /// A report that is complete before the end of the pipe.
    pub(super) enough: Option<&'static [u8]>,
}

/// The end of the wait.
#[derive(Debug)]
pub(super) enum Outcome {
    Reported(Vec<u8>),
    /// The user has ended the start, and so the process has ended.
    Ended(Cut),
    /// The start was ended. The process is stopped, or has not ended, and the user knows it.
    Left(Cut),
}

/// The user during the start of a ring.
#[derive(Debug)]
pub(super) struct User<'a> {
    signals: &'a mut Signals,
    limit: Option<Duration>,
    clock: Clock,
    began: Time,
}

impl<'a> User<'a> {
    pub(super) fn new(signals: &'a mut Signals, limit: Option<Duration>) -> Self {
        let clock = Clock::start();
        let began = clock.now();
        Self { signals, limit, clock, began }
    }

    /// Reads the report.
    ///
    /// # Errors
    /// The pipe cannot be read.
    pub(super) fn await_report(
        &mut self,
        expected: &Expected,
        mut pipe: &PipeReader,
    ) -> Result<Outcome> {
        let &Expected { name, pid, enough } = expected;
        let failed = || format!("cannot wait for the {name}");
        let times = (self.began, self.clock.now());
        let mut wait = Wait::new((name, pid.as_raw()), self.limit, times);
        let mut report = Vec::new();
        loop {
            let is_readable = self.poll(pipe, wait.poll_timeout()).with_context(failed)?;
            self.note_requests(pid, &mut wait);
            if let Some(cut) = self.look(pid, &mut wait) {
                return Ok(Outcome::Left(cut));
            }
            if !is_readable {
                continue;
            }
            let mut buffer = [0; 256];
            match pipe.read(&mut buffer) {
                Ok(0) => return Ok(wait.cut().map_or(Outcome::Reported(report), Outcome::Ended)),
                Ok(n) => report.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(failed),
            }
            if wait.cut().is_none() && enough.is_some_and(|enough| report.ends_with(enough)) {
                return Ok(Outcome::Reported(report));
            }
        }
    }

    /// Asks the process to end when the user first requests it.
    fn note_requests(&mut self, pid: Pid, wait: &mut Wait) {
        for signal in self.signals.pending().into_iter().filter(|signal| ENDING.contains(signal)) {
            if wait.end_requested(self.clock.now(), signal) {
                let _ = kill(pid, Signal::SIGTERM);
            }
        }
    }

    /// Waits for the pipe, for signals, and until it is time. Whether the pipe is readable.
    fn poll(&self, pipe: &PipeReader, until: Option<Time>) -> io::Result<bool> {
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(pipe.as_fd(), PollFlags::POLLIN),
        ];
        wait(&mut fds, until.map(|at| self.clock.until(at)))?;
        Ok(fds[1].any().unwrap_or(true))
    }

    /// Looks at the process if it is time.
    fn look(&self, pid: Pid, wait: &mut Wait) -> Option<Cut> {
        let now = self.clock.now();
        if wait.poll_timeout().is_none_or(|at| at > now) {
            return None;
        }
        let (text, cut) = match wait.looked(now, tree::is_suspended(pid) == Some(true)) {
            Finding::Nothing => return None,
            Finding::Name(text) => (text, None),
            Finding::Leave(text, cut) => (text, Some(cut)),
        };
        let _ = writeln!(io::stderr(), "mpirun: {text}");
        cut
    }
}
