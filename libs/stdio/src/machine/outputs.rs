//! The outputs of a manager: at the root the console's two outputs or files by pattern, elsewhere the parent.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use mpd_sansio::Time;
use mpd_wire::job::{JobSpec, OutputSpec};
use mpd_wire::message::{StartJob, TREE_WINDOW};
use mpd_wire::{Rank, RankSet, Stream};

use super::files::{Files, OutputFile};
use super::sink::{Place, Sink, alone};
use super::sinks::Sinks;
use crate::hostlabel::HostLabels;
use crate::record::Item;

/// The sinks of one stream: the console, a file, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes([Option<usize>; 2]);

impl Routes {
    pub(super) fn all(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().flatten()
    }
}

/// All outputs of a manager, and the route of each stream of each rank.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) sinks: Sinks,
    /// The sinks of standard output and standard error.
    console: [usize; 2],
    /// Whether output that goes to files also goes to the console.
    copy: bool,
    /// The routes to files.
    files: Files,
    /// Sinks that have bytes for their descriptors, and may accept them.
    pub(super) to_write: VecDeque<usize>,
    /// Files to be closed as soon as their queued output is written.
    ended: Vec<usize>,
    /// Spawned ranks without a reported end. Their output ends when nothing is on its way.
    unreported: Vec<Rank>,
}

impl Outputs {
    /// The outputs of a manager that is not the root. Both streams go to the parent, since the root has the files.
    pub(super) fn parent(spec: &JobSpec, order: &StartJob) -> Self {
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
            to_write: VecDeque::new(),
            ended,
            unreported,
        }
    }

    /// Whether lines for the console have labels from now on; files are not labelled. `hosts` are those of merged lines, if
    /// these are labelled by host.
    pub(super) fn label(&mut self, labels: bool, hosts: Option<HostLabels>) {
        let hosts = hosts.map(Rc::new);
        for number in BTreeSet::from(self.console) {
            self.sinks[number].label(labels, hosts.as_ref());
        }
    }

    /// These outputs with labels from the beginning.
    pub(super) fn labelled(mut self, labels: bool, hosts: Option<HostLabels>) -> Self {
        self.label(labels, hosts);
        self
    }

    /// Notes that these ranks have begun. Files do not merge lines.
    pub(super) fn begin(&mut self, now: Time, ranks: &RankSet) {
        for number in BTreeSet::from(self.console) {
            self.sinks[number].begin(now, ranks);
        }
    }

    /// Notes that the console asked these ranks something. They answer on their standard output.
    pub(super) fn ask(&mut self, now: Time, ranks: &RankSet) {
        self.sinks[self.console[Stream::Out.index()]].ask(now, ranks);
    }

    /// The root's outputs for `size` ranks and `levels` levels of other managers. If both streams go to one terminal or
    /// pipe, one sink keeps their lines apart.
    pub(super) fn console(spec: &OutputSpec, (size, levels): (u32, u32), is_shared: bool) -> Self {
        let ranks = RankSet::below(size);
        let sink = |(name, stream): (&str, Stream)| {
            let sink = Sink::to(name.to_owned(), stream, spec);
            if spec.merge { sink.merging((&ranks, size), levels) } else { sink }
        };
        let all = [("standard output", Stream::Out), ("standard error", Stream::Err)];
        let sinks = all.into_iter().take(if is_shared { 1 } else { 2 }).map(sink);
        Self { copy: spec.copy, ..Self::of(sinks, [0, usize::from(!is_shared)]) }
    }

    /// Routes a stream to its file, if that is open. If not, returns whether it contains output of this job.
    pub(super) fn route_file(&mut self, wanted: &OutputFile) -> Option<bool> {
        match self.files.sink_of(&wanted.path) {
            Some(sink) => {
                self.files.add(wanted, sink);
                None
            }
            None => Some(self.files.is_begun(&wanted.path)),
        }
    }

    /// Routes a stream to its file, which was opened. Returns the number of the sink.
    pub(super) fn add_file(&mut self, wanted: &OutputFile) -> usize {
        let name = wanted.path.display().to_string();
        let sink = self.sinks.add(Sink::to(name, wanted.stream, &OutputSpec::default()));
        self.files.add(wanted, sink);
        sink
    }

    /// How many files are open.
    pub(super) fn files(&self) -> usize {
        self.files.count()
    }

    /// Notes the end of a rank's stream. A file without other writers is closed by [`Outputs::close_ended`] when
    /// everything is written.
    pub(super) fn end(&mut self, rank: Rank, stream: Stream) {
        self.ended.extend(self.files.end(rank, stream));
    }

    /// Notes ranks whose end of output is not reported.
    pub(super) fn end_unreported(&mut self, ranks: Vec<Rank>) {
        if self.files.count() > 0 {
            self.unreported.extend(ranks);
        }
    }

    /// Whether [`Outputs::close_ended`] must know that no output is on its way.
    pub(super) const fn awaits_silence(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Removes complete files without writers, and returns their numbers. `is_silent`: no output is on its way here.
    pub(super) fn close_ended(&mut self, is_silent: bool) -> Vec<usize> {
        if is_silent {
            for rank in std::mem::take(&mut self.unreported) {
                Stream::BOTH.into_iter().for_each(|stream| self.end(rank, stream));
            }
        }
        let sinks = &mut self.sinks;
        let is_complete = |number: &mut usize| sinks[*number].is_empty();
        let complete: Vec<usize> = self.ended.extract_if(.., is_complete).collect();
        complete.iter().for_each(|&number| sinks.remove(number));
        complete
    }

    /// The sinks of a stream.
    pub(super) fn routes(&self, rank: Rank, stream: Stream) -> Routes {
        let console = self.console[stream.index()];
        match self.files.route(rank, stream) {
            Some(file) => Routes([Some(file), self.copy.then_some(console)]),
            None => Routes([Some(console), None]),
        }
    }

    /// Whether a record of a child can be passed on now.
    pub(super) fn admits(&self, item: &Item<'_>, stream: Stream) -> bool {
        let routes = self.routes(item.source().unwrap_or(Rank(0)), stream);
        routes.all().all(|sink| match item {
            Item::Piece { rank, .. } => self.sinks[sink].admits(&alone(*rank), stream),
            Item::Merged { ranks, .. } => self.sinks[sink].admits(ranks, stream),
            Item::Ended { .. } => true,
        })
    }

    /// The first sink that does not let a rank write now.
    pub(super) fn refusing(&self, routes: Routes, rank: Rank, stream: Stream) -> Option<usize> {
        routes.all().find(|&sink| !self.sinks[sink].admits(&alone(rank), stream))
    }

    /// Most bytes to read at once from a source with these sinks.
    pub(super) fn at_once(&self, routes: Routes) -> usize {
        routes.all().map(|sink| self.sinks[sink].at_once()).min().unwrap_or(usize::MAX)
    }

    /// Passes a record to its sinks; `label` is the label of a single rank. The body of the record is at this position of
    /// that place.
    pub(super) fn accept(
        &mut self,
        now: Time,
        (routes, stream): (Routes, Stream),
        label: &[u8],
        record: (&Item<'_>, Option<(Place, usize)>),
    ) {
        for sink in routes.all() {
            self.sinks[sink].accept(now, stream, label, record);
            self.want_write(sink);
        }
    }

    /// Has the bytes of a sink written, if it has some.
    pub(super) fn want_write(&mut self, sink: usize) {
        if self.sinks[sink].has_bytes() && !self.to_write.contains(&sink) {
            self.to_write.push_back(sink);
        }
    }

    /// Has all bytes written that wait.
    pub(super) fn flush(&mut self) {
        for sink in self.sinks.busy() {
            self.sinks[sink].count_waiting();
            self.want_write(sink);
        }
    }

    /// The parent accepts `bytes` more bytes of a stream.
    pub(super) fn grant(&mut self, stream: Stream, bytes: u32) {
        self.sinks[self.console[stream.index()]].grant(bytes);
    }

    /// The sink of a stream that does not go to files. It merges lines, if the job asks for that.
    pub(super) fn console_sink(&mut self, stream: Stream) -> &mut Sink {
        &mut self.sinks[self.console[stream.index()]]
    }

    /// The next piece of a stream for the parent.
    pub(super) fn next_payload(&mut self, stream: Stream) -> Option<Vec<u8>> {
        self.sinks[self.console[stream.index()]].next_payload()
    }

    /// Writes text of the manager to the standard output of the console; only at the root.
    pub(super) fn print(&mut self, text: &str) {
        self.sinks[self.console[Stream::Out.index()]].print(text);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.sinks.busy_ones().filter_map(Sink::deadline).min()
    }

    pub(super) fn are_empty(&self) -> bool {
        self.sinks.busy_ones().all(Sink::is_empty)
    }

    pub(super) fn discard(&mut self) {
        self.sinks.iter_mut().for_each(Sink::discard);
    }
}
