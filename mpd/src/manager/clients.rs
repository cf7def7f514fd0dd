//! The ranks: their process, pipes and PMI socket. Owns descriptors, decides nothing.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::signals::{send, send_to_group};
use mpd_io::spawn::{Extra, Spawn, SpawnError};
use mpd_io::usage;
use mpd_stdio::leaf::{Leaf, Writer};
use mpd_wire::Stream;
use mpd_wire::job::{JobSpec, OnCrash, RankEnd};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use pmi_proto::{Facts, Session};

use super::adopted::Adopted;
use super::debug::{Driver, connect};
use super::start::PMI_FD;
use super::watch::Watcher;

/// Capacity asked for the ranks' output pipes: fewer wake-ups under load. Refusal is harmless.
const PIPE_BYTES: i32 = 256 * 1024;

/// Ranks up to which it is asked: a user has 64 MiB for all his pipes before the kernel makes new ones
/// tiny.
pub(crate) const MAX_RANKS_ENLARGED: usize = 32;

/// Tokens per rank: stdin, stdout, stderr, PMI, watcher.
pub(crate) const TOKENS: usize = 5;

/// Which descriptor of a rank an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stdin,
    Output(Stream),
    Pmi,
    Watcher,
}

impl End {
    pub(crate) const fn of(token: usize) -> Self {
        match token % TOKENS {
            0 => Self::Stdin,
            1 => Self::Output(Stream::Out),
            2 => Self::Output(Stream::Err),
            3 => Self::Pmi,
            _ => Self::Watcher,
        }
    }

    pub(super) const fn offset(self) -> usize {
        match self {
            Self::Stdin => 0,
            Self::Output(Stream::Out) => 1,
            Self::Output(Stream::Err) => 2,
            Self::Pmi => 3,
            Self::Watcher => 4,
        }
    }
}

/// One output stream of a rank.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) pipe: Option<PipeReader>,
    pub(crate) leaf: Leaf,
    /// Bytes may be waiting in the pipe.
    pub(crate) ready: bool,
    /// All writers have closed: there is an end to be read.
    pub(crate) ending: bool,
    /// Put aside until the gate opens.
    pub(crate) blocked: bool,
    /// In the queue of sources to be read.
    pub(crate) queued: bool,
    /// Bytes read so far.
    pub(crate) taken: u64,
}

/// The PMI connection of a rank.
#[derive(Debug)]
pub(crate) struct Pmi {
    pub(crate) stream: Option<UnixStream>,
    pub(crate) session: Session,
    /// The client closed its end: there is an end to be read.
    pub(crate) ending: bool,
}

/// The process of a rank.
#[derive(Debug)]
pub(crate) enum Held {
    /// A child. Until it is reaped, its number and that of the group that it leads are its own.
    Child(Pid),
    /// One that ran before the job.
    Adopted(Adopted),
}

impl Held {
    /// What whoever writes to the rank's pipes is doing.
    pub(crate) fn writer(&self) -> Writer {
        let Self::Child(pid) = self else { return Writer::Waits };
        usage::ready(*pid).map_or(Writer::Waits, Writer::Ready)
    }
}

/// One rank.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its process, until it is reaped or let go.
    pub(crate) process: Option<Held>,
    /// Its process number, for reports.
    pub(crate) number: u32,
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) sources: [Source; 2],
    pub(crate) pmi: Pmi,
    /// If it is the driver of a debugger.
    pub(crate) driver: Option<Driver>,
    /// If it is watched.
    pub(crate) watcher: Option<Watcher>,
}

/// What stands between a rank's manager and its program, and hands it its PMI connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Nothing,
    Debugger,
    Watcher,
    /// A watcher that holds what crashes.
    Holder,
}

impl Front {
    /// Of the ranks that the job begins with, or of others.
    pub(crate) const fn of(spec: &JobSpec, is_first: bool) -> Self {
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
pub(crate) struct Given<'a> {
    /// Its standard input is a pipe, else `null`.
    pub(crate) fed: bool,
    pub(crate) front: Front,
    pub(crate) null: &'a OwnedFd,
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

impl Client {
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            process: None,
            number: 0,
            stdin: None,
            sources: Default::default(),
            pmi: Pmi { stream: None, session: Session::new(facts), ending: false },
            driver: None,
            watcher: None,
        }
    }

    /// One that ran before its job.
    pub(crate) fn of_singleton(facts: Facts) -> Self {
        let session = Session::of_singleton(facts.clone());
        Self { pmi: Pmi { stream: None, session, ending: false }, ..Self::new(facts) }
    }

    /// It has a process without our starting it.
    pub(super) fn take_over(&mut self, pmi: UnixStream, process: Adopted) {
        self.number = process.number().unwrap_or(0);
        self.process = Some(Held::Adopted(process));
        self.pmi.stream = Some(pmi);
    }

    /// Its process, if that was adopted and not let go.
    pub(crate) const fn adopted(&self) -> Option<&Adopted> {
        match &self.process {
            Some(Held::Adopted(adopted)) => Some(adopted),
            _ => None,
        }
    }

    /// Lets an adopted process go.
    pub(crate) fn release(&mut self) -> Option<Adopted> {
        match self.process.take() {
            Some(Held::Adopted(adopted)) => Some(adopted),
            other => {
                self.process = other;
                None
            }
        }
    }

    /// Its process, if that is our child.
    pub(crate) const fn child(&self) -> Option<Pid> {
        match self.process {
            Some(Held::Child(pid)) => Some(pid),
            _ => None,
        }
    }

    /// It has called for the end of the job.
    pub(crate) const fn has_aborted(&mut self) {
        if let Some(Held::Adopted(adopted)) = &mut self.process {
            adopted.has_aborted();
        }
    }

    /// Starts the rank's process.
    ///
    /// # Errors
    /// No descriptor, no process, or what the child found; nothing is left then.
    pub(crate) fn start(
        &mut self,
        registry: &Registry,
        (extra, first_token): (Extra<'_>, usize),
        enlarge: bool,
        spawn: &Spawn,
        Given { fed, front, null, cgroup }: Given<'_>,
    ) -> Result<Pid, StartError> {
        let (out, rank_out) = io::pipe()?;
        let (err, rank_err) = io::pipe()?;
        let (mut pmi, rank_pmi) = UnixStream::pair()?;
        let (rank_in, feed) = if fed {
            let (reader, writer) = io::pipe()?;
            (OwnedFd::from(reader), Some(writer))
        } else {
            (null.try_clone()?, None)
        };
        let descriptors = [rank_in.as_fd(), rank_out.as_fd(), rank_err.as_fd(), rank_pmi.as_fd()];
        debug_assert_eq!(descriptors.len(), PMI_FD + 1);
        let pid = spawn.start(&descriptors, extra, cgroup)?;
        self.process = Some(Held::Child(pid));
        self.number = pid.as_raw().unsigned_abs();
        let watch = |fd: RawFd, end: End, interest| {
            registry.register(&mut SourceFd(&fd), Token(first_token + end.offset()), interest)
        };
        for (stream, pipe) in Stream::BOTH.into_iter().zip([out, err]) {
            set_nonblocking(&pipe)?;
            if enlarge {
                let _ = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
            }
            watch(pipe.as_raw_fd(), End::Output(stream), Interest::READABLE)?;
            self.sources[stream.index()].pipe = Some(pipe);
        }
        if front != Front::Nothing {
            let program = connect(&pmi)?;
            let control = std::mem::replace(&mut pmi, program);
            match front {
                Front::Debugger => self.driver = Some(Driver::new(control)),
                Front::Watcher | Front::Holder | Front::Nothing => {
                    let watcher = Watcher::new(control)?;
                    if front == Front::Holder {
                        watch(watcher.descriptor(), End::Watcher, Interest::READABLE)?;
                    }
                    self.watcher = Some(watcher);
                }
            }
        }
        self.watch_pmi(registry, first_token, pmi)?;
        if let Some(feed) = feed {
            set_nonblocking(&feed)?;
            watch(feed.as_raw_fd(), End::Stdin, Interest::WRITABLE)?;
            self.stdin = Some(feed);
        }
        Ok(pid)
    }

    /// Takes its PMI connection.
    pub(super) fn watch_pmi(
        &mut self,
        registry: &Registry,
        first_token: usize,
        pmi: UnixStream,
    ) -> io::Result<()> {
        pmi.set_nonblocking(true)?;
        let token = Token(first_token + End::Pmi.offset());
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&pmi.as_raw_fd()), token, both)?;
        self.pmi.stream = Some(pmi);
        Ok(())
    }

    /// Sends `signal` to the process group of the rank, if its leader has not been reaped: until then
    /// the group's number is its own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        match &self.process {
            Some(Held::Child(pid)) => send_to_group(*pid, signal),
            Some(Held::Adopted(adopted)) => adopted.signal(signal),
            None => Ok(()),
        }
    }

    /// Sends `signal` to the rank's own process alone, if it has not been reaped.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn signal_alone(&self, signal: i32) -> io::Result<()> {
        match &self.process {
            // Its process is the watcher, which takes none.
            Some(Held::Child(pid)) if self.watcher.is_some() => send_to_group(*pid, signal),
            Some(Held::Child(pid)) => send(*pid, signal),
            Some(Held::Adopted(adopted)) => adopted.signal(signal),
            None => Ok(()),
        }
    }
}

/// Why a rank did not start.
#[derive(Debug)]
pub(crate) enum StartError {
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
pub(crate) fn end_of(status: WaitStatus) -> Option<RankEnd> {
    let byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(0);
    match status {
        WaitStatus::Exited(_, code) => Some(RankEnd::Exited(byte(code))),
        WaitStatus::Signaled(_, signal, core) => {
            Some(RankEnd::Signaled { signal: byte(signal as i32), core })
        }
        _ => None,
    }
}

/// What a turn of the PMI connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing, or all there was: an event will tell of more.
    Drained,
    /// Something, and there may be more.
    More,
    /// The end.
    Closed,
}

impl Pmi {
    /// Reads once.
    pub(crate) fn read(&mut self) -> Heard {
        let mut buffer = [0_u8; 16 * 1024];
        let Some(stream) = &mut self.stream else { return Heard::Drained };
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Heard::Closed,
                Ok(n) => {
                    self.session.receive(&buffer[..n]);
                    let more = n == buffer.len() || self.ending;
                    return if more { Heard::More } else { Heard::Drained };
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Heard::Drained,
                Err(_) => return Heard::Closed,
            }
        }
    }

    /// Writes what the session has to say, as far as the client takes it.
    pub(crate) fn flush(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while !self.session.output().is_empty() {
            match stream.write(self.session.output()) {
                Ok(n) => self.session.consume(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Full: a writable event will come. Gone: its end is told by reading.
                Err(_) => return,
            }
        }
    }
}
