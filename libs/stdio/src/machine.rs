//! The machine of a job's standard input, output and error on one host. It has the sources, the outputs of this manager,
//! the flows of the child managers, and the input on its way.
//!
//! It is driven as every machine, with four additions. After each call, the owner performs three things until there are
//! none, and always the first that there is:
//!
//! 1. each [`Output`];
//! 2. each write: [`Stdio::next_write`] lends bytes, [`Stdio::wrote`] takes the result;
//! 3. each read: [`Stdio::next_read`] lends room, [`Stdio::was_read`] takes the result.
//!
//! So plain output is written from the place where it was read or received, without a copy. The fourth is a [`Look`] at a
//! rank that is silent. [`Stdio::expired_lines`] and [`Stdio::asked`] return them.
//!
//! | module | has |
//! |---|---|
//! | `input`, `output`, `facts` | what the owner reports, what it performs, and what it lends |
//! | `streams`, `marks` | the streams of one rank; marks of its debugger between its lines |
//! | `sources` | output on its way to the outputs |
//! | `outputs`, `sink`, `sinks`, `files` | the outputs: the console's, files, the parent |
//! | `flows` | output of the child managers |
//! | `feeding` | input on its way to ranks and child managers |
//! | `labels`, `patterns` | the labels of each rank's lines; patterns of labels and files |
//! | `looks` | whether ranks for which merged lines wait get a CPU |

mod facts;
mod feeding;
mod files;
mod flows;
mod input;
mod labels;
mod looks;
mod marks;
mod output;
mod outputs;
mod patterns;
mod sink;
mod sinks;
mod sources;
mod streams;

use std::collections::{BTreeMap, VecDeque};

use mpd_sansio::{Time, Timers, UNDRAINED};
use mpd_wire::job::{JobSpec, LabelFormat};
use mpd_wire::message::{Down, MAX_RUN, ManagerReport, StartJob};
use mpd_wire::{Rank, RankSet, Stream};

pub use self::facts::{Facts, Here};
pub use self::files::OutputFile;
pub use self::input::{Answer, Found, Input, Look, Opened, Written};
pub use self::output::{Action, Level, Output, Read, Target};
pub use self::patterns::{files_of_job, files_of_world};

use self::flows::Flows;
use self::labels::Labels;
use self::looks::Looks;
use self::outputs::Outputs;
use self::sink::{Direct, Place};
use self::sources::Reading;
use self::streams::Streams;
use crate::feed::{Feed, Receiver};
use crate::inflow::Inflow;
use crate::input::Stdin;

/// Most bytes of one read.
const BUFFER: usize = 256 * 1024;

/// The progress of the output while the job ends.
#[derive(Debug, Default)]
struct Drain {
    /// The ranks were killed. Any further progress is output that they left.
    is_watched: bool,
    /// No process is left, so the pipes get no more data.
    is_last: bool,
    /// The last check closed pipes. What they left is on its way, so another check follows at once.
    has_closed: bool,
    /// Bytes that all outputs had accepted at the last check.
    taken: u64,
}

/// The output and input of a job on one host.
#[derive(Debug)]
pub struct Stdio {
    /// The streams of ranks that were started here.
    streams: BTreeMap<Rank, Streams>,
    outputs: Outputs,
    flows: Flows,
    labels: Labels,
    /// The label before each line now.
    label: Option<LabelFormat>,
    feed: Feed,
    /// Sources that may be read now.
    runnable: VecDeque<(Rank, Stream)>,
    reading: Option<Reading>,
    /// Ranks whose standard input has become writable.
    writable: Vec<Rank>,
    /// Ranks that get input now.
    feeding: VecDeque<Rank>,
    /// Deadlines of unfinished lines, by source (rank * 2 + stream).
    lines: Timers<u32>,
    buffer: Vec<u8>,
    drain: Drain,
    looks: Looks,
    pending: VecDeque<Output>,
}

impl Stdio {
    /// The root has the outputs of the console, which may be one. The outputs of other managers lead to their parents.
    pub fn new(spec: &JobSpec, order: &StartJob, is_shared: bool) -> Self {
        let levels = order.host_slices.subtree_depth(0);
        let outputs = match order.tree_index {
            0 => {
                let outputs = Outputs::console(&spec.output, (spec.size(), levels), is_shared);
                let label = spec.output.label.as_ref();
                outputs.labelled(label.is_some(), patterns::host_labels(spec, order, label))
            }
            _ => Outputs::parent(spec, order),
        };
        Self {
            streams: BTreeMap::new(),
            outputs,
            flows: Flows::new(&order.host_slices, order.tree_index as usize),
            labels: Labels::default(),
            label: spec.output.label.clone(),
            feed: patterns::feed_of(spec, order),
            runnable: VecDeque::new(),
            reading: None,
            writable: Vec::new(),
            feeding: VecDeque::new(),
            lines: Timers::default(),
            buffer: vec![0; BUFFER],
            drain: Drain::default(),
            looks: Looks::default(),
            pending: VecDeque::new(),
        }
    }

    // ----- files -----

    /// Routes a stream to its file. If that is not open, the owner opens it, and calls [`Stdio::add_file`]. The result
    /// tells then whether the file contains output of this job.
    pub fn route_file(&mut self, file: &OutputFile) -> Option<bool> {
        self.outputs.route_file(file)
    }

    /// Routes a stream to its file, which was opened. Returns the number of the new output.
    pub fn add_file(&mut self, file: &OutputFile) -> usize {
        self.outputs.add_file(file)
    }

    /// How many files are open.
    pub fn files(&self) -> usize {
        self.outputs.files()
    }

    // ----- inputs -----

    /// Takes an input.
    pub fn handle(&mut self, facts: &Facts<'_>, here: &dyn Here, input: Input) {
        debug_assert!(self.pending.is_empty() && self.reading.is_none(), "{UNDRAINED}");
        debug_assert!(self.outputs.to_write.is_empty() && self.feeding.is_empty(), "{UNDRAINED}");
        match input {
            Input::Opened(rank, opened) => {
                self.streams.insert(rank, Streams::new(opened));
            }
            Input::Begun(ranks) => self.expect(facts, ranks),
            Input::RankEnded(rank, unread) => {
                unread.into_iter().for_each(|bytes| self.report_unread(facts, bytes));
                self.end_feeding(facts, Receiver::Rank(rank));
            }
            Input::Retired(rank) => {
                self.streams.remove(&rank);
            }
            Input::Asked(ranks) => self.outputs.ask(facts.now, &ranks),
            Input::Mark(rank, after, text) => self.add_mark(rank, (after, text)),
            Input::MarksRead(rank) => self.marks_read(rank),
            Input::Seen(look, writer) => self.take_seen(facts, look, writer),

            Input::Stdin(bytes) if bytes.is_empty() => self.take_input(facts, &Stdin::End),
            Input::Stdin(bytes) => self.take_input(facts, &Stdin::Bytes(&bytes)),
            Input::StdinPiece(bytes) => self.take_encoded(facts, &bytes),
            Input::SwitchStdin(ranks) => self.take_input(facts, &Stdin::Switch(ranks)),
            Input::Label(label) => self.relabel(facts, here, label),
            Input::OutputCredit(stream, bytes) => self.outputs.grant(stream, bytes),
            Input::LookAt(stream, ranks) => self.take_question(facts, stream, &ranks),

            Input::Output(tree_index, stream, bytes) => {
                self.take_flow((tree_index, stream), &bytes);
            }
            Input::Looked(answer) => self.take_answer(facts, answer),
            Input::StdinCredit(tree_index, bytes) => {
                self.feed.grant(tree_index, bytes);
                self.feed_child(facts, tree_index);
            }
            Input::StdinUnwanted(tree_index, switches) => {
                self.feed.drop_out_child(tree_index, switches);
                self.offer_credit(facts);
            }
            Input::FlowDrained(tree_index) => self.flows.drained(tree_index),
            Input::ChildJoined(tree_index) => self.flows.add(tree_index, facts.spec.size()),
            Input::ChildrenGone(tree_index) => {
                // Its output and input are given up.
                self.flows.lose(tree_index);
                self.end_feeding(facts, Receiver::Child(tree_index));
            }

            Input::Going(rank_map) => self.go(facts, rank_map),
            Input::Running(pids) => self.note_running(facts, here, &pids),
            Input::CountOutput => self.count_output(),
            Input::Unreported(ranks) => self.outputs.end_unreported(ranks),
            Input::WorldOver(world) if facts.is_root() => self.labels.retire(world),
            Input::WorldOver(_) => {}
            Input::Killing => {
                self.expect_all(facts);
                self.drain.is_watched = true;
            }
            Input::Drain => self.start_draining(),
        }
    }

    /// Discards the output that waits and all further output.
    pub fn discard(&mut self) {
        self.outputs.discard();
    }

    /// Reports to the daemon how many bytes each rank has written.
    fn count_output(&mut self) {
        let count = |streams: &Streams| streams.sources.iter().map(|source| source.taken).sum();
        let counts: Vec<(Rank, u64)> =
            self.streams.iter().map(|(&rank, streams)| (rank, count(streams))).collect();
        if counts.is_empty() {
            self.emit(Output::ToDaemon(ManagerReport::Written { counts: Vec::new() }));
        }
        for some in counts.chunks(MAX_RUN) {
            self.emit(Output::ToDaemon(ManagerReport::Written { counts: some.to_vec() }));
        }
    }

    // ----- outputs and writes -----

    pub fn poll_output(&mut self) -> Option<Output> {
        self.pending.pop_front()
    }

    /// The next bytes for a descriptor, of which it may accept a part.
    pub fn next_write(&mut self) -> Option<(Target, &[u8])> {
        while let Some(&sink) = self.outputs.to_write.front() {
            if self.outputs.sinks[sink].has_bytes() {
                let (direct, queue) = self.outputs.sinks[sink].bytes();
                let direct = direct.map(|direct| in_place(direct, &self.buffer, &self.flows));
                return Some((Target::Sink(sink), direct.unwrap_or(queue)));
            }
            self.outputs.to_write.pop_front();
        }
        self.next_input().map(|(rank, bytes)| (Target::Input(rank), bytes))
    }

    /// Takes the result of a write of the bytes that [`Stdio::next_write`] has lent.
    pub fn wrote(&mut self, facts: &Facts<'_>, target: Target, written: Written) {
        let sink = match target {
            Target::Sink(sink) => sink,
            Target::Input(rank) => return self.fed(facts, rank, &written),
        };
        match written {
            Written::Bytes(count) => self.outputs.sinks[sink].wrote(count),
            Written::Full => {
                let direct = self.outputs.sinks[sink].bytes().0;
                let rest = direct.map(|direct| in_place(direct, &self.buffer, &self.flows));
                self.outputs.sinks[sink].is_full(rest.unwrap_or_default());
                self.outputs.to_write.pop_front();
            }
            // A closed standard error does not end a job.
            Written::Closed => {
                if self.outputs.sinks[sink].stream() == Stream::Out {
                    self.emit(Output::OutputClosed);
                }
                self.outputs.sinks[sink].discard();
            }
            Written::Failed(error) => {
                let name = self.outputs.sinks[sink].name();
                let problem = format!("cannot write {name}: {error}");
                self.emit(Output::OutputFailed(problem));
                self.outputs.sinks[sink].discard();
            }
        }
    }

    fn emit(&mut self, output: Output) {
        self.pending.push_back(output);
    }

    fn log(&mut self, level: Level, text: String) {
        self.emit(Output::Act(Action::Log(level, text)));
    }

    // ----- turns -----

    /// Whether something can be done at once.
    pub fn has_work(&self) -> bool {
        !self.runnable.is_empty() || self.drain.has_closed || self.flows_can_proceed()
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.lines.next().into_iter().chain(self.outputs.next_deadline()).min()
    }

    /// Whether the root must take all output and answers that have come before [`Stdio::expire_merged`].
    pub fn must_catch_up(&self, facts: &Facts<'_>) -> bool {
        // After a long time without a CPU, lines and answers of other hosts have been read and count first.
        facts.is_root() && self.outputs.next_deadline().is_some_and(|at| at <= facts.now)
    }

    /// Passes on merged lines that no longer wait for further ranks.
    pub fn expire_merged(&mut self, facts: &Facts<'_>, here: &dyn Here) {
        for i in self.outputs.sinks.busy() {
            if self.outputs.sinks[i].deadline().is_some_and(|at| at <= facts.now) {
                self.excuse_starved(facts, here, i);
                self.outputs.sinks[i].expire(facts.now);
                self.outputs.want_write(i);
            }
        }
    }

    /// Has all bytes written that wait. [`Stdio::resume`] follows.
    pub fn flush(&mut self) {
        self.outputs.flush();
    }

    /// Resumes the sources that the write admissions let in, and closes complete files.
    pub fn resume(&mut self, facts: &Facts<'_>) {
        for i in self.outputs.sinks.busy() {
            self.admit_blocked(facts, i);
            self.outputs.sinks.review(i);
        }
        let is_silent = self.outputs.awaits_silence() && self.flows.waiting().is_empty();
        for sink in self.outputs.close_ended(is_silent) {
            self.emit(Output::Act(Action::CloseSink(sink)));
        }
    }

    /// Hands over output and answers for the parent, and gives credit to the children.
    pub fn pass_up(&mut self, facts: &Facts<'_>) {
        for stream in Stream::BOTH {
            while let Some(records) = self.outputs.next_payload(stream) {
                self.emit(Output::Records(stream, records));
            }
        }
        self.pass_answers(facts);
        for (tree_index, stream, bytes) in self.flows.take_credit() {
            self.emit(Output::ToChild(tree_index, Down::OutputCredit { stream, bytes }));
        }
    }

    // ----- the course of the job -----

    fn go(&mut self, facts: &Facts<'_>, rank_map: Option<String>) {
        if let Some(text) = rank_map {
            self.outputs.print(&text);
        }
        self.offer_credit(facts);
        if !facts.is_root() && facts.hosts().children(facts.tree_index()).next().is_some() {
            // The children do not report when their ranks begin, except to the root.
            self.expect_all(facts);
        }
    }

    /// Notes that these ranks have begun. If lines are merged, each line waits for them from now on.
    fn expect(&mut self, facts: &Facts<'_>, ranks: impl IntoIterator<Item = Rank>) {
        if facts.spec.output.merge {
            self.begin_merging(facts, &ranks.into_iter().collect());
        }
    }

    /// Expects all ranks of this subtree.
    fn expect_all(&mut self, facts: &Facts<'_>) {
        if facts.spec.output.merge {
            self.begin_merging(facts, &facts.hosts().subtree_ranks(facts.tree_index()));
        }
    }

    fn begin_merging(&mut self, facts: &Facts<'_>, ranks: &RankSet) {
        self.outputs.begin(facts.now, ranks);
        if facts.spec.debug.is_some() {
            // A driver reports when it is ready.
            self.outputs.ask(facts.now, ranks);
        }
    }

    /// Notes the processes of these ranks, which may run on any host.
    fn note_running(&mut self, facts: &Facts<'_>, here: &dyn Here, pids: &[(Rank, u32)]) {
        self.expect(facts, pids.iter().map(|(rank, _)| *rank));
        if facts.is_root() {
            for &(rank, pid) in pids {
                self.labels.note_running(rank, pid);
            }
            self.label_ranks(facts, here, pids);
        }
    }

    /// Makes the labels of these ranks.
    fn label_ranks(&mut self, facts: &Facts<'_>, here: &dyn Here, pids: &[(Rank, u32)]) {
        let label = self.label.as_ref();
        if label.is_some() || facts.spec.output.merge {
            for &of in pids {
                self.labels.insert(of.0, patterns::labels_of((facts, here), label, of));
            }
        }
    }

    fn relabel(&mut self, facts: &Facts<'_>, here: &dyn Here, label: Option<LabelFormat>) {
        if facts.spec.debug.is_some() {
            // The prompt reads the labels.
            return;
        }
        let hosts = patterns::host_labels(facts.spec, facts.order, label.as_ref());
        self.outputs.label(label.is_some(), hosts);
        self.label = label;
        let running = self.labels.clear();
        self.label_ranks(facts, here, &running);
    }

    // ----- the end of the job -----

    fn start_draining(&mut self) {
        self.drain.is_last = true;
        for rank in self.started() {
            for stream in Stream::BOTH {
                self.mark_source(rank, stream, true);
            }
        }
    }

    /// Checks whether the drain makes progress. If all pipes were read to their ends, closes those that are open.
    /// [`Stdio::finish_drain`] follows.
    pub fn review_drain(&mut self, facts: &Facts<'_>) {
        if !self.drain.is_watched {
            return;
        }
        self.drain.has_closed = false;
        let taken = self.outputs.sinks.taken();
        if std::mem::replace(&mut self.drain.taken, taken) != taken {
            self.emit(Output::DrainGoesOn);
        }
        if !self.drain.is_last || self.is_any_unread() {
            return;
        }
        // A process outside the job may hold a pipe open. Everything in it has been read, so it is closed here.
        for rank in self.started() {
            for stream in Stream::BOTH {
                if self.streams[&rank].sources[stream.index()].is_open {
                    self.drain.has_closed = true;
                    self.end_source(facts, rank, stream);
                }
            }
        }
    }

    /// Reports that the drain is complete, if it is. `is_all_up`: no output waits for the link to the parent.
    pub fn finish_drain(&mut self, is_all_up: bool) {
        let is_complete = self.drain.is_watched
            && self.drain.is_last
            && !self.is_any_unread()
            && self.flows.are_drained()
            && self.outputs.are_empty();
        if is_complete && is_all_up {
            self.drain.is_last = false;
            self.emit(Output::Drained);
        }
    }

    fn is_any_unread(&self) -> bool {
        self.streams.values().any(Streams::is_unread)
    }

    /// The ranks that were started here.
    fn started(&self) -> Vec<Rank> {
        self.streams.keys().copied().collect()
    }
}

/// The bytes that are written from their place.
fn in_place<'a>(direct: Direct, buffer: &'a [u8], flows: &'a Flows) -> &'a [u8] {
    let place = match direct.place {
        Place::Buffer => buffer,
        Place::Flow(child, stream) => flows.get(child, stream).map_or(&[][..], Inflow::body),
    };
    &place[direct.from..direct.to]
}
