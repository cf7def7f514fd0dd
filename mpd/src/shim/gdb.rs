//! gdb as a child: its pipes, and the socket over which its programs get their PMI connections.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;

use anyhow::{Context, Result};
use mpd_io::network::outgoing::Outgoing;
use mpd_io::network::passing;
use mpd_io::process::signals;
use mpd_io::process::spawn::{Extra, Fate, Spawn, own_environment};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::starter::SOCKET_VARIABLE;

/// The number of the socket in gdb and its programs; it follows the standard streams.
const SOCKET_NUMBER: usize = 3;

/// The debuggee of gdb.
#[derive(Clone, Copy, Debug)]
pub(super) enum Debuggee<'a> {
    /// A program and its arguments.
    Program(&'a [OsString]),
    /// A process of this host.
    Process(u32),
}

pub(super) struct Gdb {
    /// `None` once gdb is reaped.
    pub(super) pid: Option<Pid>,
    /// The end of gdb, until [`Gdb::take_end`].
    pub(super) fate: Option<Fate>,
    stdin: Option<PipeWriter>,
    pub(super) input: Outgoing,
    pub(super) output: PipeReader,
    pub(super) complaints: PipeReader,
    connections: UnixDatagram,
}

impl Gdb {
    pub(super) fn start(path: &OsStr, debuggee: Debuggee<'_>) -> Result<Self> {
        let mut arguments: Vec<Vec<u8>> =
            [&b"gdb"[..], b"-q", b"-nw", b"-i=mi3"].map(Vec::from).into();
        // Settings before our first command.
        for setting in ["set debuginfod enabled off", "set pagination off", "set confirm off"] {
            arguments.extend([b"-iex".to_vec(), setting.into()]);
        }
        if let Debuggee::Program(program) = debuggee {
            arguments.push(b"--args".to_vec());
            arguments.extend(program.iter().map(|word| word.as_bytes().to_vec()));
        }
        let mut environment = own_environment();
        environment.push(format!("{SOCKET_VARIABLE}={SOCKET_NUMBER}").into_bytes());
        let (gdb_in, stdin) = std::io::pipe().context("no pipe")?;
        let (output, gdb_out) = std::io::pipe().context("no pipe")?;
        let (complaints, gdb_err) = std::io::pipe().context("no pipe")?;
        let (connections, gdb_connections) = UnixDatagram::pair().context("no socket")?;
        for fd in [stdin.as_fd(), output.as_fd(), complaints.as_fd()] {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context("fcntl")?;
        }
        let mut spawn = Spawn::new(path.as_bytes(), arguments, environment)?;
        spawn.die_with_parent().in_our_session();
        let fds = [gdb_in.as_fd(), gdb_out.as_fd(), gdb_err.as_fd(), gdb_connections.as_fd()];
        let pid = spawn
            .start(&fds, Extra::default(), None)
            .with_context(|| format!("cannot start {}", path.display()))?;
        let input = Outgoing::default();
        Ok(Self {
            pid: Some(pid),
            fate: None,
            stdin: Some(stdin),
            input,
            output,
            complaints,
            connections,
        })
    }

    /// The command line by which gdb executes programs.
    pub(super) fn wrapper() -> String {
        let own = fs::read_link("/proc/self").ok().and_then(|pid| pid.to_str().map(str::to_owned));
        let pid = own.unwrap_or_else(|| std::process::id().to_string());
        format!("/proc/{pid}/exe {}", crate::cli::DEBUGGED)
    }

    /// The pipe for commands, if commands are waiting.
    pub(super) fn stdin(&self) -> Option<&PipeWriter> {
        self.stdin.as_ref().filter(|_| !self.input.is_empty())
    }

    pub(super) fn flush(&mut self) {
        let Some(stdin) = &mut self.stdin else { return self.input.advance(self.input.len()) };
        let flushed = self.input.flush(&mut *stdin).and_then(|()| stdin.flush());
        if flushed.is_err() {
            // If gdb is gone, its end is reported separately.
            self.stdin = None;
        }
    }

    pub(super) fn pass(&self, connection: &OwnedFd) {
        if let Err(error) = passing::pass(&self.connections, b'P', connection) {
            log::warn!("cannot pass the PMI connection: {error}");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // A child that was not reaped still has its process id.
            let _ = kill(pid, signal);
        }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.pid.is_some()
    }

    /// Notes that gdb was reaped.
    pub(super) fn reaped(&mut self, fate: Fate) {
        self.pid = None;
        self.stdin = None;
        self.fate = Some(fate);
    }

    /// The end of gdb as text, once.
    pub(super) fn take_end(&mut self) -> Option<String> {
        Some(match self.fate.take()? {
            Fate::Exited(0) => "has ended".to_owned(),
            Fate::Exited(code) => format!("has ended with exit code {code}"),
            Fate::Killed { signal, .. } => format!("was killed by {}", signals::name(signal)),
            Fate::Stopped => return None,
        })
    }
}
