//! Where the ranks' output goes: the console's two descriptors, or files by pattern.
//!
//! A [`Sink`] owns one output, formats records for it, and queues what the output does not take. Who
//! may be read for it is asked of its gate.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::clock::timestamp;
use mpd_io::output::Output;
use mpd_proto::job::OutputSpec;
use mpd_proto::stdio::Stream;
use mpd_proto::stdio::format::{self, Formatter};
use mpd_proto::stdio::gate::Gate;
use mpd_proto::stdio::leaf::Record;
use mpd_proto::stdio::merge::{self, Merger};
use mpd_proto::{Rank, RankSet, Time};

/// Bytes already written that the queue may still hold.
const COMPACT_AT: usize = 256 * 1024;

/// What a write told about an output.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Its reader closed it.
    Closed(Stream),
    /// It cannot be written.
    Failed(String),
}

/// One output.
#[derive(Debug)]
pub(crate) struct Sink {
    output: Output,
    name: String,
    stream: Stream,
    pub(crate) gate: Gate,
    queue: Vec<u8>,
    sent: usize,
    style: Style,
    formatter: Formatter,
    /// One merger per stream, as both streams may lead to one output.
    mergers: Option<[Merger; 2]>,
    /// Bytes the output has taken, for seeing whether its reader reads.
    pub(crate) taken: u64,
    /// Sources that wait for the gate.
    pub(crate) blocked: Vec<(Rank, Stream)>,
}

#[derive(Clone, Copy, Debug)]
struct Style {
    labels: bool,
    timestamps: bool,
}

impl Sink {
    fn new(output: Output, name: String, stream: Stream, spec: &OutputSpec, size: u32) -> Self {
        Self {
            output,
            name,
            stream,
            gate: Gate::default(),
            queue: Vec::new(),
            sent: 0,
            style: Style { labels: spec.label.is_some(), timestamps: spec.timestamp },
            formatter: Formatter::default(),
            mergers: spec.merge.then(|| {
                let ranks = RankSet::below(size);
                [Merger::new(&ranks), Merger::new(&ranks)]
            }),
            taken: 0,
            blocked: Vec::new(),
        }
    }

    /// Takes a record of a rank, whose label is `label`.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        (rank, stream): (Rank, Stream),
        label: &[u8],
        record: Record<'_>,
    ) -> Option<Trouble> {
        if self.gate.is_closed() {
            return None;
        }
        self.gate.wrote(source(rank, stream), !record.end);
        if let Some(mergers) = &mut self.mergers {
            let show =
                &mut |ranks: &RankSet, line: &[u8]| format::merged(ranks, line, &mut self.queue);
            mergers[stream.index()].push(now, &alone(rank), record, show);
        } else if self.style.labels || self.style.timestamps {
            let mut prefix = Vec::new();
            if self.style.timestamps {
                prefix.extend_from_slice(timestamp().as_bytes());
                prefix.push(b' ');
            }
            prefix.extend_from_slice(label);
            self.formatter.format(source(rank, stream), &prefix, record, &mut self.queue);
        } else {
            return self.pass(record);
        }
        self.flush()
    }

    /// Plain output: straight from the read buffer when nothing waits.
    fn pass(&mut self, record: Record<'_>) -> Option<Trouble> {
        let mut rest = record.body;
        if self.queue.is_empty() && record.head.is_empty() {
            match self.output.write(rest) {
                Ok(n) => {
                    self.taken += n as u64;
                    rest = &rest[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Some(self.fail(&e)),
            }
            if rest.is_empty() {
                return None;
            }
        }
        self.queue.extend_from_slice(record.head);
        self.queue.extend_from_slice(rest);
        self.flush()
    }

    /// Writes what waits, as far as the output takes it.
    pub(crate) fn flush(&mut self) -> Option<Trouble> {
        while self.sent < self.queue.len() {
            match self.output.write(&self.queue[self.sent..]) {
                Ok(n) => {
                    self.taken += n as u64;
                    self.sent += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Some(self.fail(&e)),
            }
        }
        if self.sent == self.queue.len() || self.sent >= COMPACT_AT {
            // With a reader that is slow and steady the queue is never empty.
            self.queue.drain(..self.sent);
            self.sent = 0;
            self.queue.shrink_to(2 * COMPACT_AT);
        }
        self.gate.set_waiting(self.queue.len() - self.sent);
        None
    }

    fn fail(&mut self, error: &io::Error) -> Trouble {
        self.discard();
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => Trouble::Closed(self.stream),
            // A terminal that was hung up.
            Some(libc::EIO) if self.output.is_terminal() => Trouble::Closed(self.stream),
            _ => Trouble::Failed(format!("cannot write {}: {}", self.name, plain(error))),
        }
    }

    /// Throws away what waits and all that comes.
    pub(crate) fn discard(&mut self) {
        self.gate.close();
        self.queue.clear();
        self.sent = 0;
        self.mergers = None;
    }

    /// A source will send no more.
    pub(crate) fn end(&mut self, rank: Rank, stream: Stream) -> Option<Trouble> {
        if let (Some(mergers), false) = (&mut self.mergers, self.gate.is_closed()) {
            let show =
                &mut |ranks: &RankSet, line: &[u8]| format::merged(ranks, line, &mut self.queue);
            mergers[stream.index()].end(&alone(rank), show);
        }
        self.flush()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let mergers = self.mergers.as_ref()?;
        mergers.iter().filter_map(Merger::deadline).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) -> Option<Trouble> {
        for merger in self.mergers.iter_mut().flatten() {
            merger.flush(now, &mut |ranks, line| format::merged(ranks, line, &mut self.queue));
        }
        self.flush()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.deadline().is_none()
    }

    /// Whether a source may be read now.
    pub(crate) fn admits(&self, rank: Rank, stream: Stream) -> bool {
        let ahead = |mergers: &[Merger; 2]| mergers[stream.index()].holds_back(&alone(rank));
        self.gate.admits(source(rank, stream)) && !self.mergers.as_ref().is_some_and(ahead)
    }

    /// Most bytes to read of a source at once.
    pub(crate) const fn at_once(&self) -> usize {
        if self.mergers.is_some() { merge::AT_ONCE } else { usize::MAX }
    }
}

fn alone(rank: Rank) -> RankSet {
    [rank].into_iter().collect()
}

/// The number of an output stream of a rank, for gates and timers.
pub(crate) const fn source(rank: Rank, stream: Stream) -> u32 {
    (rank.0 << 1) | stream.index() as u32
}

/// The system's words, without Rust's "(os error N)" behind them.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// All outputs of a job and which stream of which rank goes to which.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) sinks: Vec<Sink>,
    /// Per rank and stream.
    routes: Vec<[usize; 2]>,
    first_token: usize,
}

impl Outputs {
    /// Opens everything. `file_of` fills a pattern for a rank.
    ///
    /// # Errors
    /// What could not be opened and why.
    pub(crate) fn open(
        console: [OwnedFd; 2],
        spec: &OutputSpec,
        size: u32,
        file_of: impl Fn(Rank, Stream) -> Option<(PathBuf, u32)>,
    ) -> Result<Self, String> {
        let [out, err] = console;
        let open = |fd, name| Output::new(fd).map_err(|e| format!("{name}: {}", plain(&e)));
        let out = open(out, "standard output")?;
        let err = open(err, "standard error")?;
        let shared = out.is_same_as(&err);
        let mut sinks = vec![Sink::new(out, "standard output".into(), Stream::Out, spec, size)];
        // With both on one terminal or pipe, a line of one must not be torn by the other.
        if !shared {
            sinks.push(Sink::new(err, "standard error".into(), Stream::Err, spec, size));
        }
        let console = [0, usize::from(!shared)];
        let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut routes = Vec::with_capacity(size as usize);
        for rank in (0..size).map(Rank) {
            let mut route = console;
            for stream in Stream::BOTH {
                let Some((path, mode)) = file_of(rank, stream) else { continue };
                route[stream.index()] = match files.get(&path) {
                    Some(&at) => at,
                    None => {
                        let output = create(&path, mode)?;
                        let name = path.display().to_string();
                        sinks.push(Sink::new(output, name, stream, &OutputSpec::default(), size));
                        files.insert(path, sinks.len() - 1);
                        sinks.len() - 1
                    }
                };
            }
            routes.push(route);
        }
        Ok(Self { sinks, routes, first_token: 0 })
    }

    /// Has the poll tell when an output takes more; tokens are counted from `first`.
    pub(crate) fn register(&mut self, registry: &Registry, first: usize) -> io::Result<()> {
        self.first_token = first;
        for (i, sink) in self.sinks.iter().enumerate().filter(|(_, s)| s.output.can_block()) {
            let fd = sink.output.as_raw_fd();
            match registry.register(&mut SourceFd(&fd), Token(first + i), Interest::WRITABLE) {
                // /dev/null and its like are always ready.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                result => result?,
            }
        }
        Ok(())
    }

    pub(crate) fn route(&self, rank: Rank, stream: Stream) -> usize {
        self.routes[rank.index()][stream.index()]
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.sinks.iter().filter_map(Sink::deadline).min()
    }

    pub(crate) fn are_empty(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty)
    }

    pub(crate) fn discard(&mut self) {
        self.sinks.iter_mut().for_each(Sink::discard);
    }
}

/// Files are made anew; their directory must exist.
fn create(path: &Path, mode: u32) -> Result<Output, String> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    // A pipe without a reader is refused instead of waited for.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path);
    file.and_then(|f| Output::new(f.into()))
        .map_err(|e| format!("{}: {}", path.display(), plain(&e)))
}
