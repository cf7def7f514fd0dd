//! Where the ranks' output goes: at the root the console's two descriptors or files by pattern,
//! elsewhere the manager above.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mio::{Interest, Registry, Token};
use mpd_io::logging::plain;
use mpd_io::output::Output;
use mpd_io::watch::watch;
use mpd_proto::job::{JobSpec, OutputSpec};
use mpd_proto::message::{StartJob, TREE_WINDOW};
use mpd_proto::stdio::Stream;
use mpd_proto::stdio::record::Item;
use mpd_proto::{Rank, RankSet, Time};

use super::sink::{Sink, alone};

/// All outputs of a manager and which stream of which rank goes to which.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) sinks: Vec<Sink>,
    /// Where the streams go.
    console: [usize; 2],
    /// Per rank and stream, where files take output.
    routes: Vec<[usize; 2]>,
}

impl Outputs {
    /// The outputs of a manager that is not the root: both streams go to the one above, which has the
    /// files.
    pub(crate) fn above(spec: &JobSpec, order: &StartJob) -> Self {
        let ranks = order.shares.ranks_below(order.place as usize);
        let levels = order.shares.depth_below(order.place as usize);
        let (output, size) = (&spec.output, spec.size());
        let sink = |stream| {
            let sink = Sink::above(TREE_WINDOW, stream, output);
            let filed = if stream == Stream::Out { &output.outfile } else { &output.errfile };
            if output.merge && filed.is_none() {
                sink.merging((&ranks, size), levels)
            } else {
                sink
            }
        };
        Self { sinks: Stream::BOTH.map(sink).into(), console: [0, 1], routes: Vec::new() }
    }

    /// These ranks have begun.
    pub(crate) fn begin(&mut self, now: Time, ranks: &RankSet) {
        self.sinks.iter_mut().for_each(|sink| sink.begin(now, ranks));
    }

    /// These ranks were asked something by the console, and answer on their standard output.
    pub(crate) fn ask(&mut self, now: Time, ranks: &RankSet) {
        self.sinks[self.console[Stream::Out.index()]].ask(now, ranks);
    }

    /// The root's outputs, for so many ranks and levels of other managers. `file_of` fills a pattern for a rank.
    ///
    /// # Errors
    /// What could not be opened and why.
    pub(crate) fn open(
        console: [OwnedFd; 2],
        spec: &OutputSpec,
        (size, levels): (u32, u32),
        file_of: impl Fn(Rank, Stream) -> Option<(PathBuf, u32)>,
    ) -> Result<Self, String> {
        let [out, err] = console;
        let open = |fd, name| Output::new(fd).map_err(|e| format!("{name}: {}", plain(&e)));
        let out = open(out, "standard output")?;
        let err = open(err, "standard error")?;
        let shared = out.is_same_as(&err);
        let ranks = RankSet::below(size);
        let console_sink = |output, name: &str, stream| {
            let sink = Sink::to(output, name.to_owned(), stream, spec);
            if spec.merge { sink.merging((&ranks, size), levels) } else { sink }
        };
        let mut sinks = vec![console_sink(out, "standard output", Stream::Out)];
        // With both on one terminal or pipe, a line of one must not be torn by the other.
        if !shared {
            sinks.push(console_sink(err, "standard error", Stream::Err));
        }
        let console = [0, usize::from(!shared)];
        let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut routes = Vec::new();
        let filed = spec.outfile.is_some() || spec.errfile.is_some();
        for rank in (0..size).map(Rank).filter(|_| filed) {
            let mut route = console;
            for stream in Stream::BOTH {
                let Some((path, mode)) = file_of(rank, stream) else { continue };
                route[stream.index()] = match files.get(&path) {
                    Some(&at) => at,
                    None => {
                        let output = create(&path, mode)?;
                        let name = path.display().to_string();
                        sinks.push(Sink::to(output, name, stream, &OutputSpec::default()));
                        files.insert(path, sinks.len() - 1);
                        sinks.len() - 1
                    }
                };
            }
            routes.push(route);
        }
        Ok(Self { sinks, console, routes })
    }

    /// Has the poll tell when an output takes more; tokens are counted from `first`.
    pub(crate) fn register(&mut self, registry: &Registry, first: usize) -> io::Result<()> {
        for (i, sink) in self.sinks.iter().enumerate() {
            let Some(fd) = sink.watched() else { continue };
            watch(registry, fd, Token(first + i), Interest::WRITABLE)?;
        }
        Ok(())
    }

    pub(crate) fn route(&self, rank: Rank, stream: Stream) -> usize {
        self.routes.get(rank.index()).unwrap_or(&self.console)[stream.index()]
    }

    /// Whether something that came from below may be passed on now.
    pub(crate) fn admits(&self, item: &Item<'_>, stream: Stream) -> bool {
        let sink = &self.sinks[self.route(item.source().unwrap_or(Rank(0)), stream)];
        match item {
            Item::Piece { rank, .. } => sink.admits(&alone(*rank), stream),
            Item::Merged { ranks, .. } => sink.admits(ranks, stream),
            Item::Ended { .. } => true,
        }
    }

    /// The manager above takes so many bytes more of a stream.
    pub(crate) fn grant(&mut self, stream: Stream, bytes: u32) {
        self.sinks[self.console[stream.index()]].grant(bytes);
    }

    /// The next piece of a stream for the manager above.
    pub(crate) fn next_payload(&mut self, stream: Stream) -> Option<Vec<u8>> {
        self.sinks[self.console[stream.index()]].next_payload()
    }

    /// Puts text of ours into the standard output of the console; for the root.
    pub(crate) fn say(&mut self, text: &str) {
        self.sinks[self.console[Stream::Out.index()]].say(text);
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
