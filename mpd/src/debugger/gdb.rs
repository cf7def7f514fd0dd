//! gdb as a child: its pipes, and the socket over which its programs get their PMI connections.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;

use anyhow::{Context, Result, bail};
use mpd_io::outgoing::Outgoing;
use mpd_io::passing;
use mpd_io::spawn::{Extra, Spawn, own_environment};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::wrapper::SOCKET_VARIABLE;

/// The socket's number in gdb and its programs, behind the standard streams.
const SOCKET_NUMBER: usize = 3;

/// What to debug.
pub(super) enum Debuggee<'a> {
    Program(&'a [OsString]),
    Process(u32),
}

impl<'a> Debuggee<'a> {
    pub(super) fn from_words(words: &'a [OsString]) -> Result<Self> {
        match words {
            [] => bail!("no program to debug"),
            [option, pid] if option == "--attach" => {
                let pid = pid.to_str().and_then(|text| text.parse().ok());
                Ok(Self::Process(pid.context("--attach wants the number of a process")?))
            }
            words => Ok(Self::Program(words)),
        }
    }

    pub(super) const fn process(&self) -> Option<u32> {
        match self {
            Self::Program(_) => None,
            Self::Process(pid) => Some(*pid),
        }
    }
}

pub(super) struct Gdb {
    pid: Option<Pid>,
    stdin: Option<PipeWriter>,
    pub(super) input: Outgoing,
    pub(super) output: PipeReader,
    pub(super) complaints: PipeReader,
    connections: UnixDatagram,
}

impl Gdb {
    pub(super) fn start(path: &OsStr, debuggee: &Debuggee<'_>) -> Result<Self> {
        let mut words: Vec<Vec<u8>> = [&b"gdb"[..], b"-q", b"-nw", b"-i=mi3"].map(Vec::from).into();
        // What comes before our first command.
        for setting in ["set debuginfod enabled off", "set pagination off", "set confirm off"] {
            words.extend([b"-iex".to_vec(), setting.into()]);
        }
        if let Debuggee::Program(program) = debuggee {
            words.push(b"--args".to_vec());
            words.extend(program.iter().map(|word| word.as_bytes().to_vec()));
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
        let mut spawn = Spawn::new(path.as_bytes(), words, environment)?;
        spawn.die_with_parent().in_our_session();
        let fds = [gdb_in.as_fd(), gdb_out.as_fd(), gdb_err.as_fd(), gdb_connections.as_fd()];
        let pid = spawn
            .start(&fds, Extra::default(), None)
            .with_context(|| format!("cannot start {}", path.display()))?;
        let input = Outgoing::default();
        Ok(Self { pid: Some(pid), stdin: Some(stdin), input, output, complaints, connections })
    }

    /// The command line that programs are executed with.
    pub(super) fn wrapper() -> String {
        let own = fs::read_link("/proc/self").ok().and_then(|pid| pid.to_str().map(str::to_owned));
        let pid = own.unwrap_or_else(|| std::process::id().to_string());
        format!("/proc/{pid}/exe {}", crate::cli::DEBUGGEE)
    }

    /// Where commands go, while there are some.
    pub(super) fn stdin(&self) -> Option<&PipeWriter> {
        self.stdin.as_ref().filter(|_| !self.input.is_empty())
    }

    pub(super) fn flush(&mut self) {
        let Some(stdin) = &mut self.stdin else { return self.input.advance(self.input.len()) };
        let flushed = self.input.flush(&mut *stdin).and_then(|()| stdin.flush());
        if flushed.is_err() {
            // It is gone, which its end tells.
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
            // A child that was not reaped: the number is its own.
            let _ = kill(pid, signal);
        }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.pid.is_some()
    }

    /// How it ended, once.
    pub(super) fn reap(&mut self) -> Option<String> {
        let how = match waitpid(self.pid?, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, 0)) => "has ended".to_owned(),
            Ok(WaitStatus::Exited(_, code)) => format!("has ended with exit code {code}"),
            Ok(WaitStatus::Signaled(_, signal, _)) => format!("was killed by {signal}"),
            Ok(_) => return None,
            Err(_) => "is gone".to_owned(),
        };
        self.pid = None;
        self.stdin = None;
        Some(how)
    }
}
