//! Metrics of a ring for monitoring systems: their collection, and their ways out (a file, a Unix socket).

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, id};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_io::process::signals::Signals;
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, JobRef, MemberView, RingRequest, RingView};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};

use crate::ask::{AskError, RING_PATIENCE, left};
use crate::metrics::http::{MAX_REQUEST, Request};
use crate::metrics::text;
use crate::tool;
use crate::top::Sample;
use mpd_io::wait::{self, until_ready};

/// Most clients of the socket at a time.
const MAX_CLIENTS: usize = 16;

/// How long a client may take for its request, and for reading the answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// The name in messages.
const NAME: &str = "mpdtop";

/// What the metrics are about.
#[derive(Clone, Debug)]
pub struct Source {
    /// The daemon.
    pub rundir: RunDir,
    /// Only this job.
    pub job: Option<JobRef>,
    /// Whether each rank has metrics.
    pub per_rank: bool,
}

impl Source {
    /// The present metrics, and whether a member did not answer.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn text(&self) -> Result<(String, bool), AskError> {
        let mut inquiry = Inquiry::begin(self)?;
        loop {
            if let Some((ring, sample)) = inquiry.advance(self)? {
                return Ok((self.render(&ring, &sample), !sample.missing().is_empty()));
            }
            // An interrupted wait is repeated; other failures show at the next reading.
            let _ = until_ready(&inquiry.console, PollFlags::POLLIN, Some(left(inquiry.until)));
        }
    }

    fn render(&self, ring: &RingView, sample: &Sample) -> String {
        text(Some((ring, sample)), self.per_rank)
    }
}

/// Two requests to the daemon, one after the other: for the ring, and for the usage.
struct Inquiry {
    console: Console,
    /// Members of a large ring, which come before the ring itself.
    members: Vec<MemberView>,
    ring: Option<RingView>,
    sample: Sample,
    until: Instant,
}

impl Inquiry {
    fn begin(source: &Source) -> Result<Self, AskError> {
        let console = Console::ask(&source.rundir, RingRequest::Describe)?;
        let until = Instant::now() + RING_PATIENCE;
        Ok(Self { console, members: Vec::new(), ring: None, sample: Sample::default(), until })
    }

    /// Takes what has arrived. `Some` when the answers are complete.
    fn advance(&mut self, source: &Source) -> Result<Option<(RingView, Sample)>, AskError> {
        loop {
            let reply = match self.console.answer(Some(Duration::ZERO)) {
                Ok(reply) => reply,
                Err(ConsoleError::Silent(_)) if self.until > Instant::now() => return Ok(None),
                Err(ConsoleError::Silent(_)) => {
                    return Err(ConsoleError::Silent(RING_PATIENCE).into());
                }
                Err(error) => return Err(error.into()),
            };
            match (&mut self.ring, reply) {
                (None, ConsoleReply::RingPart { members }) => self.members.extend(members),
                (ring @ None, ConsoleReply::Ring(mut view)) => {
                    self.members.append(&mut view.members);
                    let members = std::mem::take(&mut self.members);
                    *ring = Some(RingView { members, ..view });
                    self.console = Console::ask(&source.rundir, RingRequest::Top)?;
                }
                (Some(_), reply) => {
                    if self.sample.take(reply).ok_or(AskError::UNFIT)? {
                        self.sample.choose(source.job.as_ref());
                        let sample = std::mem::take(&mut self.sample);
                        return Ok(self.ring.take().map(|ring| (ring, sample)));
                    }
                }
                (None, _) => return Err(AskError::UNFIT),
            }
        }
    }
}

/// The inquiry that runs, if any, and the last problem that was printed.
struct Collector<'a> {
    source: &'a Source,
    inquiry: Option<Inquiry>,
    printed: String,
}

impl<'a> Collector<'a> {
    const fn new(source: &'a Source) -> Self {
        Self { source, inquiry: None, printed: String::new() }
    }

    /// Begins an inquiry if `wanted`, and continues it. Returns the text when it is complete. It shows that
    /// the daemon does not answer if this is so; then each new problem is printed once.
    fn turn(&mut self, wanted: bool) -> Option<String> {
        let advanced = match &mut self.inquiry {
            Some(inquiry) => inquiry.advance(self.source),
            None if wanted => Inquiry::begin(self.source).and_then(|mut inquiry| {
                let advanced = inquiry.advance(self.source);
                self.inquiry = Some(inquiry);
                advanced
            }),
            None => return None,
        };
        let text = match advanced {
            Ok(None) => return None,
            Ok(Some((ring, sample))) => {
                self.printed.clear();
                self.source.render(&ring, &sample)
            }
            Err(error) => {
                let problem = format!("{:#}", anyhow::Error::from(error));
                if self.printed != problem {
                    tool::warn(NAME, &problem);
                    self.printed = problem;
                }
                text(None, false)
            }
        };
        self.inquiry = None;
        Some(text)
    }

    fn descriptor(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.inquiry.as_ref().map(|inquiry| (inquiry.console.as_fd(), PollFlags::POLLIN))
    }

    fn deadline(&self) -> Option<Instant> {
        self.inquiry.as_ref().map(|inquiry| inquiry.until)
    }
}

/// Replaces the file at each interval, until a signal ends it. Then the file is removed.
///
/// # Errors
/// When the file cannot be written.
pub fn to_file(source: &Source, path: &Path, interval: Duration) -> Result<ExitCode> {
    let mut signals = ends()?;
    let mut collector = Collector::new(source);
    let mut next = Instant::now();
    loop {
        let now = Instant::now();
        let due = next <= now;
        if due {
            next = now + interval;
        }
        if let Some(text) = collector.turn(due) {
            replace(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let deadline = collector.deadline().map_or(next, |until| until.min(next));
        wait(&signals, collector.descriptor(), Some(deadline))?;
        if !signals.pending().is_empty() {
            // A file that is not renewed would show an old state for ever.
            let _ = fs::remove_file(path);
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Writes a file whole or not at all. Others may read it: the monitoring system is another user.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    // node_exporter reads files *.prom, so the temporary name has another end.
    let temporary = path.with_file_name(format!(".{}.{}.new", name.display(), id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    let opened = options.open(&temporary).or_else(|error| match error.kind() {
        // Left by a killed process of the same number.
        ErrorKind::AlreadyExists => {
            fs::remove_file(&temporary)?;
            options.open(&temporary)
        }
        _ => Err(error),
    });
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Answers requests on a Unix socket, until a signal ends it. Then the socket is removed.
///
/// # Errors
/// When nothing can listen there.
pub fn on_socket(source: &Source, path: &Path) -> Result<ExitCode> {
    let mut signals = ends()?;
    let door = Door::open(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    let mut collector = Collector::new(source);
    let mut clients: Vec<Client> = Vec::new();
    loop {
        door.admit(&mut clients)?;
        clients.iter_mut().for_each(Client::turn);
        let waiting = clients.iter().any(Client::is_waiting);
        if let Some(text) = collector.turn(waiting) {
            clients.iter_mut().filter(|client| client.is_waiting()).for_each(|c| c.answer(&text));
        }
        clients.retain(|client| !client.is_over && client.until > Instant::now());
        let mut fds: Vec<_> = collector.descriptor().into_iter().collect();
        fds.extend(clients.iter().filter_map(Client::interest));
        if clients.len() < MAX_CLIENTS {
            fds.push((door.listener.as_fd(), PollFlags::POLLIN));
        }
        let deadline = clients.iter().map(|c| c.until).chain(collector.deadline()).min();
        wait(&signals, fds, deadline)?;
        if !signals.pending().is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// A listening Unix socket that only this user can open. Drop removes its file.
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    fn open(path: &Path) -> Result<Self> {
        let address = UnixAddr::new(path).context("the path is not possible for a socket")?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let new = || socket(AddressFamily::Unix, SockType::Stream, flags, None);
        let opened = new()?;
        match bind(opened.as_raw_fd(), &address) {
            Err(Errno::EADDRINUSE) => {
                if !fs::symlink_metadata(path)?.file_type().is_socket() {
                    bail!("there is a file that is no socket");
                }
                if connect(new()?.as_raw_fd(), &address) != Err(Errno::ECONNREFUSED) {
                    bail!("another process listens there");
                }
                // The socket of a killed process.
                fs::remove_file(path)?;
                bind(opened.as_raw_fd(), &address)?;
            }
            bound => bound?,
        }
        // The kernel refuses connections before the process listens.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&opened, Backlog::new(libc::SOMAXCONN)?)?;
        Ok(Self { listener: opened.into(), path: path.to_owned() })
    }

    fn admit(&self, clients: &mut Vec<Client>) -> Result<()> {
        while clients.len() < MAX_CLIENTS {
            match self.listener.accept() {
                Ok((stream, _)) => clients.push(Client::new(stream)?),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(error) => return Err(error).context("cannot accept a connection"),
            }
        }
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A connection of a reader of metrics.
struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    request: Request,
    /// What is left of the answer; `None` before it.
    answer: Option<Vec<u8>>,
    until: Instant,
    is_over: bool,
}

impl Client {
    fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(true).context("cannot use a connection")?;
        let until = Instant::now() + CLIENT_PATIENCE;
        let (received, request) = (Vec::new(), Request::Incomplete);
        Ok(Self { stream, received, request, answer: None, until, is_over: false })
    }

    const fn is_waiting(&self) -> bool {
        matches!(self.request, Request::Get | Request::Head) && self.answer.is_none()
    }

    fn answer(&mut self, text: &str) {
        self.answer = self.request.answer(text);
        self.until = Instant::now() + CLIENT_PATIENCE;
        self.turn();
    }

    /// Reads the request, or writes the answer, as far as possible.
    fn turn(&mut self) {
        if self.request == Request::Incomplete && self.answer.is_none() {
            self.read();
        }
        if let Some(answer) = &mut self.answer {
            match self.stream.write(answer) {
                Ok(written) => drop(answer.drain(..written)),
                Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            self.is_over |= answer.is_empty();
        }
    }

    fn read(&mut self) {
        let mut piece = [0; 1024];
        while self.request == Request::Incomplete {
            match self.stream.read(&mut piece[..(MAX_REQUEST - self.received.len()).min(1024)]) {
                Ok(0) => self.is_over = true,
                Ok(bytes) => {
                    self.received.extend_from_slice(&piece[..bytes]);
                    self.request = Request::of(&self.received);
                    continue;
                }
                Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            return;
        }
        if matches!(self.request, Request::Refused(_)) {
            self.answer = self.request.answer("");
        }
    }

    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = match (&self.answer, self.request) {
            (Some(_), _) => PollFlags::POLLOUT,
            (None, Request::Incomplete) => PollFlags::POLLIN,
            (None, _) => return None,
        };
        Some((self.stream.as_fd(), flags))
    }
}

fn ends() -> Result<Signals> {
    Signals::catch(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP]).context("cannot catch signals")
}

/// Waits for a signal, one of the descriptors, or the deadline.
fn wait<'a>(
    signals: &Signals,
    others: impl IntoIterator<Item = (BorrowedFd<'a>, PollFlags)>,
    deadline: Option<Instant>,
) -> Result<()> {
    let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    fds.extend(others.into_iter().map(|(descriptor, flags)| PollFd::new(descriptor, flags)));
    wait::wait(&mut fds, deadline.map(left)).context("cannot wait")?;
    Ok(())
}
