//! The process of one rank: its start, its signals, and its descriptors.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_clients::Client;
use mpd_debug::shim::Abilities;
use mpd_ending::SignalTarget;
use mpd_io::network::control::Control;
use mpd_io::process::signals::{send, send_to_group};
use mpd_io::process::spawn::{Extra, Fate, Spawn, SpawnError};
use mpd_wire::Stream;
use mpd_wire::job::RankEnd;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::Pid;

use super::adopted::Adopted;
use super::descriptors::{PMI_FD, RankDescriptor};
use super::shim::Shim;
use crate::manager::pmi_socket::PmiSocket;
use crate::manager::stdio::pipes::Pipes;

/// Most ranks with enlarged pipes. A user has 64 MiB for all pipes before the kernel makes new ones very small.
pub(super) const MAX_RANKS_ENLARGED: usize = 32;

/// The process of a rank.
#[derive(Debug)]
pub(super) enum Handle {
    /// A child. Until it is reaped, its process id and the id of the group that it leads are its own.
    Child(Pid),
    /// A process that ran before the job.
    Adopted(Adopted),
}

/// A rank that was started here.
#[derive(Debug)]
pub(super) struct RankProcess {
    /// The process, until it is reaped or released.
    pub(super) handle: Option<Handle>,
    /// The process id, for reports.
    pub(super) number: u32,
    /// The launcher shim, if the process is one.
    pub(super) shim: Option<Shim>,
    /// Whether both output streams have ended.
    pub(super) is_silent: bool,
}

/// The properties of a rank's process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// Standard input is a pipe, else `null`.
    pub(super) fed: bool,
    /// The abilities of the shim, if the process is one.
    pub(super) shim: Option<Abilities>,
    /// The size of the terminals, if it has changed since the job began.
    pub(super) size: Option<(u16, u16)>,
    /// Whether the output pipes may become large.
    pub(super) enlarge: bool,
    /// Whether standard error is standard output. The pipe of standard error then ends at once.
    pub(super) joined: bool,
    /// Whether the user discards the output. Both streams are `null`, and their pipes end at once.
    pub(super) muted: bool,
    pub(super) null: BorrowedFd<'a>,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
}

/// The manager's ends of a rank's descriptors.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) pipes: Pipes,
    pub(super) pmi: PmiSocket,
    pub(super) client: Client,
}

/// The ends of a rank that are not watched yet.
struct Unwatched {
    input: Option<PipeWriter>,
    outputs: [PipeReader; 2],
    line: Line,
}

/// The manager's end of a rank's PMI descriptor.
enum Line {
    /// The PMI connection of the program.
    Pmi(UnixStream),
    /// The control socket of the shim.
    Shim(Control, Abilities),
}

impl RankProcess {
    pub(super) const fn of(handle: Handle, number: u32) -> Self {
        Self {
            handle: Some(handle),
            number,
            shim: None,
            // Until the rank has pipes.
            is_silent: true,
        }
    }

    /// Starts a rank's process and watches its descriptors, with tokens from `first_token` on.
    ///
    /// # Errors
    /// No descriptor, no process, or a failed step in the child. If only the watching fails, the started process is
    /// returned too.
    pub(super) fn start(
        registry: &Registry,
        (extra, first_token): (Extra<'_>, usize),
        spawn: &Spawn,
        given: Given<'_>,
    ) -> Result<(Self, io::Result<Ends>), StartError> {
        let (out, rank_out) = io::pipe()?;
        let (err, rank_err) = io::pipe()?;
        let (line, rank_line) = match given.shim {
            Some(abilities) => {
                let (control, theirs) = Control::pair()?;
                (Line::Shim(control, abilities), theirs)
            }
            None => {
                let (pmi, theirs) = UnixStream::pair()?;
                (Line::Pmi(pmi), theirs.into())
            }
        };
        let (rank_in, input) = if given.fed { io::pipe().map(Some)?.unzip() } else { (None, None) };
        let stdin = rank_in.as_ref().map_or(given.null, AsFd::as_fd);
        let [out_fd, err_fd] = match (given.muted, given.joined) {
            (true, _) => [given.null; 2],
            (false, true) => [rank_out.as_fd(); 2],
            (false, false) => [rank_out.as_fd(), rank_err.as_fd()],
        };
        let descriptors = [stdin, out_fd, err_fd, rank_line.as_fd()];
        debug_assert_eq!(descriptors.len(), PMI_FD + 1);
        let pid = spawn.start(&descriptors, extra, given.cgroup)?;
        let mut process = Self::of(Handle::Child(pid), pid.as_raw().unsigned_abs());
        let ends = Unwatched { input, outputs: [out, err], line };
        let ends = process.watch(registry, first_token, given, ends);
        Ok((process, ends))
    }

    fn watch(
        &mut self,
        registry: &Registry,
        first_token: usize,
        Given { enlarge, size, .. }: Given<'_>,
        ends: Unwatched,
    ) -> io::Result<Ends> {
        let Unwatched { input, outputs, line } = ends;
        let watch = |fd: RawFd, end: RankDescriptor, interest| {
            registry.register(&mut SourceFd(&fd), Token(first_token + end.offset()), interest)
        };
        for (stream, pipe) in Stream::BOTH.into_iter().zip(&outputs) {
            set_nonblocking(pipe)?;
            watch(pipe.as_raw_fd(), RankDescriptor::Output(stream), Interest::READABLE)?;
        }
        let pmi = match line {
            Line::Pmi(pmi) => pmi,
            Line::Shim(control, abilities) => {
                let mut shim = Shim::new(control, abilities);
                let both = Interest::READABLE | Interest::WRITABLE;
                watch(shim.descriptor(), RankDescriptor::Shim, both)?;
                size.into_iter().for_each(|size| shim.resize(size));
                let pmi = shim.connect()?;
                self.shim = Some(shim);
                pmi
            }
        };
        let pmi = PmiSocket::watch(registry, RankDescriptor::pmi_token(first_token), pmi)?;
        if let Some(input) = &input {
            set_nonblocking(input)?;
            watch(input.as_raw_fd(), RankDescriptor::Stdin, Interest::WRITABLE)?;
        }
        let is_debugged = self.shim.as_ref().is_some_and(Shim::is_debugger);
        let client = if is_debugged { Client::Debugged } else { Client::Program };
        self.is_silent = false;
        let pipes = Pipes::new(input, outputs, (self.child(), is_debugged), enlarge);
        Ok(Ends { pipes, pmi, client })
    }

    /// The process, if it is a child.
    pub(super) const fn child(&self) -> Option<Pid> {
        match self.handle {
            Some(Handle::Child(pid)) => Some(pid),
            _ => None,
        }
    }

    /// The process, if it was adopted and not released.
    pub(super) const fn adopted(&self) -> Option<&Adopted> {
        match &self.handle {
            Some(Handle::Adopted(adopted)) => Some(adopted),
            _ => None,
        }
    }

    /// The adopted process, for changes.
    pub(super) const fn adopted_mut(&mut self) -> Option<&mut Adopted> {
        match &mut self.handle {
            Some(Handle::Adopted(adopted)) => Some(adopted),
            _ => None,
        }
    }

    /// Sends a signal to the process group or the process, unless the process has been reaped: only before that the
    /// group id is its own. A shim passes the signal on to the program's group.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn signal(&mut self, signal: i32, target: &SignalTarget) -> io::Result<()> {
        match &self.handle {
            Some(Handle::Child(_)) if self.shim.as_mut().is_some_and(|it| it.signal(signal)) => {
                Ok(())
            }
            Some(Handle::Child(pid)) if *target == SignalTarget::Process && self.shim.is_none() => {
                send(*pid, signal)
            }
            Some(Handle::Child(pid)) => send_to_group(*pid, signal),
            Some(Handle::Adopted(adopted)) => adopted.signal(signal),
            None => Ok(()),
        }
    }
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
    // Only for this end: the two ends of a pipe have separate flags.
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// The end of a rank that was reaped. Without a known fate it still has an end.
pub(super) fn end_of(fate: Option<Fate>) -> RankEnd {
    match fate {
        Some(Fate::Exited(code)) => RankEnd::Exited(code),
        Some(Fate::Killed { signal, core }) => {
            RankEnd::Signaled { signal: u8::try_from(signal).unwrap_or(u8::MAX), core }
        }
        Some(Fate::Stopped) | None => RankEnd::Lost,
    }
}
