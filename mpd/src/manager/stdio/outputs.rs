//! The outputs of a manager: at the root the console's two descriptors or files by pattern, elsewhere the parent.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::rc::Rc;

use mio::{Interest, Registry, Token};
use mpd_io::files::logging::plain;
use mpd_io::files::output::Output;
use mpd_io::files::own_file::open_behind_links;
use mpd_io::network::watch::watch;
use mpd_sansio::Time;
use mpd_stdio::hostlabel::HostLabels;
use mpd_stdio::record::Item;
use mpd_wire::job::{JobSpec, OutputSpec};
use mpd_wire::message::{StartJob, TREE_WINDOW};
use mpd_wire::{Rank, RankSet, Stream};

use super::files::{Files, OutputFile};
use super::sink::{Sink, Trouble, alone};
use super::sinks::Sinks;

/// The sinks of one stream: the console, a file, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routes([Option<usize>; 2]);

impl Routes {
    pub(crate) fn all(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().flatten()
    }
}

/// All outputs of a manager, and the route of each stream of each rank.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) sinks: Sinks,
    /// The sinks of standard output and standard error.
    console: [usize; 2],
    /// Whether output that goes to files also goes to the console.
    copy: bool,
    /// The routes to files.
    files: Files,
    /// Files to be closed as soon as their queued output is written.
    ended: Vec<usize>,
    /// Spawned ranks without a reported end. Their output ends when nothing is on its way.
    unreported: Vec<Rank>,
}

impl Outputs {
    /// The outputs of a manager that is not the root. Both streams go to the parent, since the root has the files.
    pub(crate) fn parent(spec: &JobSpec, order: &StartJob) -> Self {
        let ranks = order.host_slices.subtree_ranks(order.tree_index as usize);
        let levels = order.host_slices.subtree_depth(order.tree_index as usize);
        let (output, size) = (&spec.output, spec.size());
        let sink = |stream| {
            let sink = Sink::parent(TREE_WINDOW, stream, output);
            let filed = if stream == Stream::Out { &output.outfile } else { &output.errfile };
            match filed {
                Some(_) => sink.passing_ends(Rank(size)),
                None if output.merge => sink.merging((&ranks, size), levels),
                None => sink,
            }
        };
        Self::of(Stream::BOTH.map(sink), [0, 1])
    }

    fn of(sinks: impl IntoIterator<Item = Sink>, console: [usize; 2]) -> Self {
        let (ended, unreported) = (Vec::new(), Vec::new());
        Self {
            sinks: sinks.into_iter().collect(),
            console,
            copy: false,
            files: Files::default(),
            ended,
            unreported,
        }
    }

    /// Whether lines for the console have labels from now on; files are not labelled. `hosts` are those of merged lines, if
    /// these are labelled by host.
    pub(crate) fn label(&mut self, labels: bool, hosts: Option<HostLabels>) {
        let hosts = hosts.map(Rc::new);
        for number in BTreeSet::from(self.console) {
            self.sinks[number].label(labels, hosts.as_ref());
        }
    }

    /// Notes that these ranks have begun. Files do not merge lines.
    pub(crate) fn begin(&mut self, now: Time, ranks: &RankSet) {
        for number in BTreeSet::from(self.console) {
            self.sinks[number].begin(now, ranks);
        }
    }

    /// Notes that the console asked these ranks something. They answer on their standard output.
    pub(crate) fn ask(&mut self, now: Time, ranks: &RankSet) {
        self.sinks[self.console[Stream::Out.index()]].ask(now, ranks);
    }

    /// The root's outputs for `size` ranks and `levels` levels of other managers. Some streams go to files.
    ///
    /// # Errors
    /// What cannot be opened and why.
    pub(crate) fn open(
        console: [OwnedFd; 2],
        spec: &OutputSpec,
        (size, levels): (u32, u32),
        wanted: impl IntoIterator<Item = OutputFile>,
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
        // If both streams go to one terminal or pipe, one sink keeps their lines apart.
        if !shared {
            sinks.push(console_sink(err, "standard error", Stream::Err));
        }
        let console = [0, usize::from(!shared)];
        let mut outputs = Self::of(sinks, console);
        outputs.copy = spec.copy;
        for wanted in wanted {
            outputs.open_file(&wanted)?;
        }
        Ok(outputs)
    }

    /// Routes a stream of a rank to its file. Returns the number of the sink if it is new.
    ///
    /// # Errors
    /// What cannot be opened and why.
    fn open_file(&mut self, wanted: &OutputFile) -> Result<Option<usize>, String> {
        let OutputFile { stream, path, .. } = wanted;
        if let Some(sink) = self.files.sink_of(path) {
            self.files.add(wanted, sink);
            return Ok(None);
        }
        let output = create(wanted, self.files.is_begun(path))?;
        let name = path.display().to_string();
        let sink = self.sinks.add(Sink::to(output, name, *stream, &OutputSpec::default()));
        self.files.add(wanted, sink);
        Ok(Some(sink))
    }

    /// Opens the files of spawned ranks. The tokens are `first` plus the number of the sink.
    ///
    /// # Errors
    /// What cannot be opened or watched and why.
    pub(crate) fn open_files(
        &mut self,
        wanted: &[OutputFile],
        registry: &Registry,
        first: usize,
    ) -> Result<(), String> {
        for wanted in wanted {
            if let Some(sink) = self.open_file(wanted)?
                && let Some(fd) = self.sinks[sink].watched()
            {
                watch(registry, fd, Token(first + sink), Interest::WRITABLE)
                    .map_err(|e| format!("{}: {}", wanted.path.display(), plain(&e)))?;
            }
        }
        Ok(())
    }

    /// How many files are open.
    pub(crate) fn files(&self) -> usize {
        self.files.count()
    }

    /// Notes the end of a rank's stream. A file without other writers is closed by [`Outputs::close_ended`] when
    /// everything is written.
    pub(crate) fn end(&mut self, rank: Rank, stream: Stream) {
        self.ended.extend(self.files.end(rank, stream));
    }

    /// Notes ranks whose end of output is not reported.
    pub(crate) fn end_unreported(&mut self, ranks: Vec<Rank>) {
        if self.files.count() > 0 {
            self.unreported.extend(ranks);
        }
    }

    /// Whether [`Outputs::close_ended`] must know that no output is on its way.
    pub(crate) const fn awaits_silence(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Closes complete files without writers. `is_silent`: no output is on its way here.
    pub(crate) fn close_ended(&mut self, is_silent: bool) {
        if is_silent {
            for rank in std::mem::take(&mut self.unreported) {
                Stream::BOTH.into_iter().for_each(|stream| self.end(rank, stream));
            }
        }
        let sinks = &mut self.sinks;
        self.ended.retain(|&number| {
            let waits = !sinks[number].is_empty();
            if !waits {
                sinks.remove(number);
            }
            waits
        });
    }

    /// Has the poll report writable outputs. The tokens are `first` plus the number of the sink.
    pub(crate) fn register(&mut self, registry: &Registry, first: usize) -> io::Result<()> {
        for (number, sink) in self.sinks.iter() {
            let Some(fd) = sink.watched() else { continue };
            watch(registry, fd, Token(first + number), Interest::WRITABLE)?;
        }
        Ok(())
    }

    /// The sinks of a stream.
    pub(crate) fn routes(&self, rank: Rank, stream: Stream) -> Routes {
        let console = self.console[stream.index()];
        match self.files.route(rank, stream) {
            Some(file) => Routes([Some(file), self.copy.then_some(console)]),
            None => Routes([Some(console), None]),
        }
    }

    /// Whether a record of a child can be passed on now.
    pub(crate) fn admits(&self, item: &Item<'_>, stream: Stream) -> bool {
        let routes = self.routes(item.source().unwrap_or(Rank(0)), stream);
        routes.all().all(|sink| match item {
            Item::Piece { rank, .. } => self.sinks[sink].admits(&alone(*rank), stream),
            Item::Merged { ranks, .. } => self.sinks[sink].admits(ranks, stream),
            Item::Ended { .. } => true,
        })
    }

    /// The first sink that does not let a rank write now.
    pub(crate) fn refusing(&self, routes: Routes, rank: Rank, stream: Stream) -> Option<usize> {
        routes.all().find(|&sink| !self.sinks[sink].admits(&alone(rank), stream))
    }

    /// Most bytes to read at once from a source with these sinks.
    pub(crate) fn at_once(&self, routes: Routes) -> usize {
        routes.all().map(|sink| self.sinks[sink].at_once()).min().unwrap_or(usize::MAX)
    }

    /// Passes a record to its sinks; `label` is the label of a single rank.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        (routes, stream): (Routes, Stream),
        label: &[u8],
        item: &Item<'_>,
    ) -> Option<Trouble> {
        let results = routes.all().map(|sink| self.sinks[sink].accept(now, stream, label, item));
        // Each sink gets the record, also after a problem of another one.
        results.fold(None, Option::or)
    }

    /// The parent accepts `bytes` more bytes of a stream.
    pub(crate) fn grant(&mut self, stream: Stream, bytes: u32) {
        self.sinks[self.console[stream.index()]].grant(bytes);
    }

    /// The sink of a stream that does not go to files. It merges lines, if the job asks for that.
    pub(crate) fn console_sink(&mut self, stream: Stream) -> &mut Sink {
        &mut self.sinks[self.console[stream.index()]]
    }

    /// The next piece of a stream for the parent.
    pub(crate) fn next_payload(&mut self, stream: Stream) -> Option<Vec<u8>> {
        self.sinks[self.console[stream.index()]].next_payload()
    }

    /// Writes text of the manager to the standard output of the console; only at the root.
    pub(crate) fn print(&mut self, text: &str) {
        self.sinks[self.console[Stream::Out.index()]].print(text);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.sinks.busy_ones().filter_map(Sink::deadline).min()
    }

    pub(crate) fn are_empty(&self) -> bool {
        self.sinks.busy_ones().all(Sink::is_empty)
    }

    pub(crate) fn discard(&mut self) {
        self.sinks.iter_mut().for_each(Sink::discard);
    }
}

/// Creates or truncates a file. A file that contains output of this job is continued. Missing directories are made.
fn create(wanted: &OutputFile, is_continued: bool) -> Result<Output, String> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).append(is_continued).truncate(!is_continued).mode(wanted.mode);
    // The opening of a pipe without a reader fails instead of blocking.
    let mut open = || open_behind_links(&mut options, libc::O_NONBLOCK, &wanted.path);
    let file = match (open(), wanted.path.parent()) {
        (Err(e), Some(parent)) if e.kind() == io::ErrorKind::NotFound => {
            // A directory that can be read can be entered.
            let mode = wanted.mode | (wanted.mode & 0o444) >> 2 | 0o100;
            let made = DirBuilder::new().recursive(true).mode(mode).create(parent);
            made.and_then(|()| open())
        }
        (opened, _) => opened,
    };
    file.and_then(|f| Output::new(f.into()))
        .map_err(|e| format!("{}: {}", wanted.path.display(), plain(&e)))
}
