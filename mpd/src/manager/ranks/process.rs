//! The process of one rank: its start, its signals, and its descriptors.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use mpd_clients::Client;
use mpd_debug::shim::Abilities;
use mpd_io::network::control::Control;
use mpd_io::process::spawn::{Extra, Fate, Spawn, SpawnError};
use mpd_ranks::{Slot, resize};
use mpd_wire::Stream;
use mpd_wire::job::RankEnd;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::Pid;

use super::descriptors::{PMI_FD, RankDescriptor};
use super::shims::connect;
use crate::manager::pmi_socket::PmiSocket;
use crate::manager::stdio::pipes::Pipes;

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

/// A rank's process that runs.
#[derive(Debug)]
pub(super) struct RankProcess {
    pub(super) pid: Pid,
    /// The control socket of its shim, if it is one.
    pub(super) control: Option<Control>,
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
    /// Starts a rank's process and watches its descriptors, with the tokens of its slot.
    ///
    /// # Errors
    /// No descriptor, no process, or a failed step in the child. If only the watching fails, the started process is
    /// returned too.
    pub(super) fn start(
        registry: &Registry,
        (extra, slot): (Extra<'_>, Slot),
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
        let mut process = Self { pid, control: None };
        let ends = Unwatched { input, outputs: [out, err], line };
        let ends = process.watch(registry, slot, given, ends);
        Ok((process, ends))
    }

    fn watch(
        &mut self,
        registry: &Registry,
        slot: Slot,
        Given { enlarge, size, shim, .. }: Given<'_>,
        ends: Unwatched,
    ) -> io::Result<Ends> {
        let Unwatched { input, outputs, line } = ends;
        let watch = |fd: RawFd, end: RankDescriptor, interest| {
            registry.register(&mut SourceFd(&fd), end.token(slot), interest)
        };
        for (stream, pipe) in Stream::BOTH.into_iter().zip(&outputs) {
            set_nonblocking(pipe)?;
            watch(pipe.as_raw_fd(), RankDescriptor::Output(stream), Interest::READABLE)?;
        }
        let pmi = match line {
            Line::Pmi(pmi) => pmi,
            Line::Shim(mut control, abilities) => {
                let both = Interest::READABLE | Interest::WRITABLE;
                watch(control.as_raw_fd(), RankDescriptor::Shim, both)?;
                if let Some(order) = size.and_then(|size| resize(abilities, size)) {
                    let _ = control.send(&order, None);
                }
                let pmi = connect(&mut control)?;
                self.control = Some(control);
                pmi
            }
        };
        let pmi = PmiSocket::watch(registry, RankDescriptor::Pmi.token(slot), pmi)?;
        if let Some(input) = &input {
            set_nonblocking(input)?;
            watch(input.as_raw_fd(), RankDescriptor::Stdin, Interest::WRITABLE)?;
        }
        let is_debugged = shim.is_some_and(|abilities| abilities.gdb);
        let client = if is_debugged { Client::Debugged } else { Client::Program };
        let pipes = Pipes::new(input, outputs, (Some(self.pid), is_debugged), enlarge);
        Ok(Ends { pipes, pmi, client })
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
pub(in crate::manager) fn end_of(fate: Option<Fate>) -> RankEnd {
    match fate {
        Some(Fate::Exited(code)) => RankEnd::Exited(code),
        Some(Fate::Killed { signal, core }) => {
            RankEnd::Signaled { signal: u8::try_from(signal).unwrap_or(u8::MAX), core }
        }
        Some(Fate::Stopped) | None => RankEnd::Lost,
    }
}
