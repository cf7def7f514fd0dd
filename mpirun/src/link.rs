//! The connection to the daemon that starts the job, and later to the job's manager.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::{Registry, Token};
use mpd_io::network::conn::{Conn, Filled};
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::signals::Signals;
use mpd_io::ring::console::explained;
use mpd_wire::frame::{self, InvalidFrame, Kind};
use mpd_wire::message::{JobInput, JobNews};
use nix::unistd::Pid;

use crate::cli::Run as Job;
use crate::launch::{self, Passed, Submission, Submitted};
use crate::private::Private;
use crate::run::Input;

/// Time for a killed daemon to end.
const DYING: Duration = Duration::from_millis(500);

const UNWATCHED: &str = "cannot watch the connection";

/// The connection of a job.
#[derive(Debug)]
pub(crate) struct Link {
    conn: Conn,
    token: Token,
    /// The private daemons of the job.
    private: Private,
    /// The descriptors of the job, until it has started.
    passed: Option<Passed>,
    is_ready: bool,
    is_closed: bool,
    /// Nothing can be sent any more. The other end then ends the job, and its last messages are read.
    is_cut: bool,
}

impl Link {
    /// The connection of a submitted job.
    ///
    /// # Errors
    /// The connection cannot be watched.
    pub(crate) fn new(
        submitted: Submitted,
        passed: Passed,
        registry: &Registry,
        token: Token,
    ) -> Result<Self> {
        let Submitted { conn, private } = submitted;
        conn.watch(registry, token).context(UNWATCHED)?;
        let passed = Some(passed);
        Ok(Self { conn, token, private, passed, is_ready: true, is_closed: false, is_cut: false })
    }

    /// Marks the connection as possibly readable.
    pub(crate) const fn wake(&mut self) {
        self.is_ready = true;
    }

    /// Whether [`Link::receive`] should be called.
    pub(crate) const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether the peer has closed the connection.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn send(&mut self, input: &JobInput) {
        self.conn.send(input);
    }

    /// Sends standard input; an empty slice is its end.
    pub(crate) fn send_stdin(&mut self, bytes: &[u8]) {
        self.conn.send_frame(Kind::Stdin, bytes);
    }

    /// Sends waiting data, and has the queue report when the rest can be sent.
    pub(crate) fn flush(&mut self, registry: &Registry) {
        if self.is_closed || self.is_cut {
            return;
        }
        let sent = self.conn.flush();
        if sent.and_then(|()| self.conn.watch_writing(registry, self.token)).is_err() {
            self.conn.finish();
            (self.is_cut, self.is_ready) = (true, true);
        }
    }

    /// Drops the descriptors, because the job will not be submitted again.
    pub(crate) fn keep(&mut self) {
        self.passed = None;
    }

    /// Closes the sending direction, which ends the job.
    pub(crate) fn finish(&mut self) {
        self.conn.finish();
    }

    /// Reads messages of the daemon or the manager.
    pub(crate) fn receive(&mut self) -> Vec<Input> {
        if !std::mem::take(&mut self.is_ready) || self.is_closed {
            return Vec::new();
        }
        let filled = self.conn.fill();
        let mut inputs: Vec<Input> = std::iter::from_fn(|| self.next_input()).collect();
        match filled {
            Ok(Filled::More) => self.is_ready = true,
            Ok(Filled::Empty) => {}
            Ok(Filled::Closed) => {
                self.is_closed = true;
                inputs.push(if self.conn.is_partial() { Input::Broken } else { Input::Closed });
            }
            Err(_) => {
                self.is_closed = true;
                inputs.push(Input::Broken);
            }
        }
        inputs
    }

    fn next_input(&mut self) -> Option<Input> {
        loop {
            match self.conn.next_frame() {
                Ok(Some((Kind::Control, payload))) => match frame::decode_message(payload) {
                    Ok(JobNews::Refused { problem }) => {
                        return Some(Input::Refused(explained(problem)));
                    }
                    Ok(news) => return Some(Input::News(news)),
                    Err(InvalidFrame::Unknown(kind)) => self.conn.skip(&kind),
                    Err(_) => return Some(Input::Garbled),
                },
                Ok(Some((Kind::Unknown(code), _))) => self.conn.skip_frame(code),
                Ok(None) => return None,
                Ok(Some((Kind::Spec | Kind::Stdin, _))) | Err(_) => return Some(Input::Garbled),
            }
        }
    }

    /// Submits the job to the present daemon, or to private daemons. Returns an input if that
    /// fails.
    pub(crate) fn resubmit(
        &mut self,
        job: &Job,
        signals: &mut Signals,
        registry: &Registry,
    ) -> Option<Input> {
        self.await_the_daemons_end();
        let passed = self.passed.as_ref()?;
        let submission = launch::submit(job, passed, signals).and_then(|submission| {
            if let Submission::Done(submitted) = &submission {
                submitted.conn.watch(registry, self.token).context(UNWATCHED)?;
            }
            Ok(submission)
        });
        match submission {
            Ok(Submission::Done(Submitted { conn, private })) => {
                // The previous private daemon exits when its last console disconnects.
                self.conn = conn;
                let _ = std::mem::replace(&mut self.private, private).wait(DYING);
                (self.is_closed, self.is_cut, self.is_ready) = (false, false, true);
                None
            }
            Ok(Submission::Cut(cut)) => Some(Input::Cut(cut.code())),
            Err(error) => Some(Input::Refused(format!("{error:#}"))),
        }
    }

    /// Waits until a dying daemon has ended. The kernel closes a process's connections before its
    /// listening socket. Until then, that socket would accept the job again.
    fn await_the_daemons_end(&self) {
        let Ok(pid) = self.conn.peer().map(|peer| Pid::from_raw(peer.pid())) else { return };
        // The socket of a private daemon was made by this process.
        if pid != Pid::this()
            && let Ok(daemon) = Pidfd::open(pid)
        {
            daemon.wait(DYING);
        }
    }

    /// Reads without waiting until the manager ends and closes the connection.
    pub(crate) fn drain(&mut self) {
        let _ = self.conn.flush();
        match self.conn.fill() {
            Ok(Filled::Closed) | Err(_) => self.is_closed = true,
            Ok(_) => {}
        }
        while let Ok(Some(_)) = self.conn.next_frame() {}
    }

    /// The process of the daemon to which the job was submitted.
    pub(crate) fn daemon(&self) -> Option<u32> {
        let peer = || self.conn.peer().ok().map(|peer| peer.pid());
        // The socket of a private daemon was made by this process.
        let pid = self.private.daemon().map_or_else(peer, |pid| Some(pid.as_raw()))?;
        u32::try_from(pid).ok().filter(|&pid| pid > 0)
    }

    /// Closes the connection and waits for the private daemons of the job. Returns a text about one that has not ended.
    pub(crate) fn close(self, patience: Duration) -> Option<String> {
        drop(self.conn);
        self.private.wait(patience)
    }
}
