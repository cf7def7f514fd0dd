//! The process of one rank: how it is started and signaled, and what it gets from its manager.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::passing::pass;
use mpd_io::signals::{send, send_to_group};
use mpd_io::spawn::{Extra, Spawn, SpawnError};
use mpd_wire::Stream;
use mpd_wire::job::{JobSpec, OnCrash, RankEnd};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use super::Whom;
use super::adopted::Adopted;
use super::prepare::PMI_FD;
use super::table::End;
use super::watch::Watcher;
use crate::manager::event::Client;
use crate::manager::stdio::Pipes;

/// Capacity asked for the ranks' output pipes: fewer wake-ups under load. Refusal is harmless.
const PIPE_BYTES: i32 = 256 * 1024;

/// Ranks up to which it is asked: a user has 64 MiB for all his pipes before the kernel makes new ones
/// tiny.
pub(super) const MAX_RANKS_ENLARGED: usize = 32;

/// Comes with a PMI connection for the next run of a program.
const CONNECTION: u8 = b'P';

/// What a rank's number and signals refer to.
#[derive(Debug)]
pub(super) enum Handle {
    /// A child. Until it is reaped, its number and that of the group that it leads are its own.
    Child(Pid),
    /// One that ran before the job.
    Adopted(Adopted),
}

/// One rank.
#[derive(Debug)]
pub(super) struct RankProcess {
    /// Its process, until it is reaped or released.
    pub(super) handle: Option<Handle>,
    /// Its process number, for reports.
    pub(super) number: u32,
    /// Takes PMI connections, if the process is the driver of a debugger.
    pub(super) control: Option<UnixStream>,
    /// If it is watched for crashes.
    pub(super) watcher: Option<Watcher>,
    /// Both its output streams have ended.
    pub(super) is_silent: bool,
}

/// What stands between a rank's manager and its program, and hands it its PMI connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    Nothing,
    Debugger,
    Watcher,
    /// A watcher that stops what crashes until the user has looked.
    Holder,
}

impl Front {
    /// Of the ranks that the job begins with, or of others.
    pub(super) const fn of(spec: &JobSpec, is_first: bool) -> Self {
        match spec {
            _ if !is_first => Self::Nothing,
            JobSpec { debug: Some(_), .. } => Self::Debugger,
            JobSpec { on_crash: Some(OnCrash { hold: true, .. }), .. } => Self::Holder,
            JobSpec { on_crash: Some(_), .. } => Self::Watcher,
            _ => Self::Nothing,
        }
    }
}

/// What a rank gets from its manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// Its standard input is a pipe, else `null`.
    pub(super) fed: bool,
    pub(super) front: Front,
    /// Its output pipes are to be large.
    pub(super) enlarge: bool,
    pub(super) null: BorrowedFd<'a>,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
}

/// The manager's ends of what a rank was started with.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) pipes: Pipes,
    pub(super) pmi: UnixStream,
    pub(super) client: Client,
}

/// The ends of a rank that has no process yet.
struct Unwatched {
    input: Option<PipeWriter>,
    outputs: [PipeReader; 2],
    pmi: UnixStream,
}

/// Hands the program's end of a new PMI connection to the driver or watcher before it, and returns ours.
///
/// # Errors
/// There is no descriptor, or no process at the other end.
pub(super) fn connect(control: &UnixStream) -> io::Result<UnixStream> {
    let (pmi, program) = UnixStream::pair()?;
    pass(control, CONNECTION, &program)?;
    Ok(pmi)
}

impl RankProcess {
    pub(super) const fn of(handle: Handle, number: u32) -> Self {
        Self {
            handle: Some(handle),
            number,
            control: None,
            watcher: None,
            // Until it has pipes.
            is_silent: true,
        }
    }

    /// Starts a rank's process. Its descriptors are watched, with tokens from `first_token` on.
    ///
    /// # Errors
    /// No descriptor, no process, or what the child found. A process that was started all the same is returned, too.
    pub(super) fn start(
        registry: &Registry,
        (extra, first_token): (Extra<'_>, usize),
        spawn: &Spawn,
        given: Given<'_>,
    ) -> Result<(Self, io::Result<Ends>), StartError> {
        let (out, rank_out) = io::pipe()?;
        let (err, rank_err) = io::pipe()?;
        let (pmi, rank_pmi) = UnixStream::pair()?;
        let (rank_in, input) = if given.fed {
            let (reader, writer) = io::pipe()?;
            (OwnedFd::from(reader), Some(writer))
        } else {
            (given.null.try_clone_to_owned()?, None)
        };
        let descriptors = [rank_in.as_fd(), rank_out.as_fd(), rank_err.as_fd(), rank_pmi.as_fd()];
        debug_assert_eq!(descriptors.len(), PMI_FD + 1);
        let pid = spawn.start(&descriptors, extra, given.cgroup)?;
        let mut process = Self::of(Handle::Child(pid), pid.as_raw().unsigned_abs());
        let ends = Unwatched { input, outputs: [out, err], pmi };
        let ends = process.watch(registry, first_token, given, ends);
        Ok((process, ends))
    }

    fn watch(
        &mut self,
        registry: &Registry,
        first_token: usize,
        Given { front, enlarge, .. }: Given<'_>,
        ends: Unwatched,
    ) -> io::Result<Ends> {
        let Unwatched { input, outputs, mut pmi } = ends;
        let watch = |fd: RawFd, end: End, interest| {
            registry.register(&mut SourceFd(&fd), Token(first_token + end.offset()), interest)
        };
        for (stream, pipe) in Stream::BOTH.into_iter().zip(&outputs) {
            set_nonblocking(pipe)?;
            if enlarge {
                let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
            }
            watch(pipe.as_raw_fd(), End::Output(stream), Interest::READABLE)?;
        }
        if front != Front::Nothing {
            let program = connect(&pmi)?;
            let control = std::mem::replace(&mut pmi, program);
            match front {
                Front::Debugger => self.control = Some(control),
                Front::Watcher | Front::Holder | Front::Nothing => {
                    let watcher = Watcher::new(control)?;
                    if front == Front::Holder {
                        watch(watcher.descriptor(), End::Watcher, Interest::READABLE)?;
                    }
                    self.watcher = Some(watcher);
                }
            }
        }
        watch_pmi(registry, first_token, &pmi)?;
        if let Some(input) = &input {
            set_nonblocking(input)?;
            watch(input.as_raw_fd(), End::Stdin, Interest::WRITABLE)?;
        }
        let is_debugged = front == Front::Debugger;
        let client = if is_debugged { Client::Debugged } else { Client::Program };
        self.is_silent = false;
        let pipes = Pipes::new(input, outputs, (self.child(), is_debugged));
        Ok(Ends { pipes, pmi, client })
    }

    /// Its process, if that is our child.
    pub(super) const fn child(&self) -> Option<Pid> {
        match self.handle {
            Some(Handle::Child(pid)) => Some(pid),
            _ => None,
        }
    }

    /// Its process, if that was adopted and not released.
    pub(super) const fn adopted(&self) -> Option<&Adopted> {
        match &self.handle {
            Some(Handle::Adopted(adopted)) => Some(adopted),
            _ => None,
        }
    }

    /// The same, to change it.
    pub(super) const fn adopted_mut(&mut self) -> Option<&mut Adopted> {
        match &mut self.handle {
            Some(Handle::Adopted(adopted)) => Some(adopted),
            _ => None,
        }
    }

    /// Sends a signal to its process group or process, if the process has not been reaped: until then the group's
    /// number is its own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn signal(&self, signal: i32, whom: Whom) -> io::Result<()> {
        match (&self.handle, whom) {
            (Some(Handle::Child(pid)), Whom::Group) => send_to_group(*pid, signal),
            // Its process is the watcher, which takes none.
            (Some(Handle::Child(pid)), Whom::Process) if self.watcher.is_some() => {
                send_to_group(*pid, signal)
            }
            (Some(Handle::Child(pid)), Whom::Process) => send(*pid, signal),
            (Some(Handle::Adopted(adopted)), _) => adopted.signal(signal),
            (None, _) => Ok(()),
        }
    }
}

/// Has the poll report what comes over a PMI connection.
///
/// # Errors
/// The system's.
pub(super) fn watch_pmi(
    registry: &Registry,
    first_token: usize,
    pmi: &UnixStream,
) -> io::Result<()> {
    pmi.set_nonblocking(true)?;
    let token = Token(first_token + End::Pmi.offset());
    let both = Interest::READABLE | Interest::WRITABLE;
    registry.register(&mut SourceFd(&pmi.as_raw_fd()), token, both)
}

/// Why a rank did not start.
#[derive(Debug)]
pub(super) enum StartError {
    Descriptors(io::Error),
    Spawn(SpawnError),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Descriptors(error)
    }
}

impl From<SpawnError> for StartError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    // Our end only: the two ends of a pipe have flags of their own.
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// What a rank's wait status means.
pub(super) fn end_of(status: WaitStatus) -> Option<RankEnd> {
    let byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(0);
    match status {
        WaitStatus::Exited(_, code) => Some(RankEnd::Exited(byte(code))),
        WaitStatus::Signaled(_, signal, core) => {
            Some(RankEnd::Signaled { signal: byte(signal as i32), core })
        }
        _ => None,
    }
}
