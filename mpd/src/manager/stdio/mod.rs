//! Standard input, output and error of the ranks: their pipes, the outputs at the root, and both directions through
//! the job tree.
//!
//! | module | has |
//! |---|---|
//! | [`pipes`] | the pipes of one rank |
//! | [`marks`] | marks of a rank's debugger between its lines |
//! | [`input`] | input on its way to ranks and child managers |
//! | [`output`] | output on its way to the outputs |
//! | [`outputs`], [`sink`], [`sinks`], [`files`], [`open`] | the outputs: the console's output and error, files, the parent |
//! | [`flows`] | output of the child managers |
//! | [`labels`] | the labels of each rank's lines |
//! | [`looks`], [`answer`] | whether ranks for which merged lines wait get a CPU |

pub(super) mod answer;
mod files;
mod flows;
mod input;
mod labels;
mod looks;
mod marks;
mod open;
mod output;
mod outputs;
pub(super) mod pipes;
mod sink;
mod sinks;
mod trouble;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_job::manager::Input;
use mpd_placement::rank_map;
use mpd_sansio::{Time, Timers};
use mpd_stdio::feed::{Feed, Receiver};
use mpd_wire::job::{Failure, LabelFormat, Parts, World};
use mpd_wire::message::{Down, MAX_RUN, ManagerReport, Phase, TreeKind};
use mpd_wire::{Rank, RankSet, Stream};

use self::answer::Looks;
use self::files::OutputFile;
use self::flows::Flows;
use self::labels::Labels;
use self::outputs::Outputs;
use self::pipes::Pipes;
use self::trouble::after_write;
use super::context::{Job, Turn};
use super::event::ForLinks;
use super::links::LinkEnd;
use super::ranks::check_files;
use super::tokens::FIRST_OUTPUT;

/// The progress of the output while the job ends.
#[derive(Debug, Default)]
struct Drain {
    /// The ranks were killed. Any further progress is output that they left.
    is_watched: bool,
    /// No process is left, so the pipes get no more data.
    is_last: bool,
    /// Bytes that all outputs had accepted at the last check.
    taken: u64,
}

/// The pipes of the ranks here, the outputs of this manager, and the input on its way.
#[derive(Debug)]
pub(super) struct Stdio {
    /// The pipes of ranks that were started here.
    pipes: BTreeMap<Rank, Pipes>,
    outputs: Outputs,
    flows: Flows,
    labels: Labels,
    /// The label before each line now.
    label: Option<LabelFormat>,
    feed: Feed,
    /// Sources that may be read now.
    runnable: VecDeque<(Rank, Stream)>,
    /// Ranks whose standard input has become writable.
    writable: Vec<Rank>,
    /// Deadlines of unfinished lines, by source (rank * 2 + stream).
    lines: Timers<u32>,
    buffer: Vec<u8>,
    drain: Drain,
    looks: Looks,
}

impl Stdio {
    /// The outputs are those of the console, or lead to the parent. A problem of the console's outputs is returned
    /// as text; then output is discarded.
    ///
    /// # Errors
    /// When not even `/dev/null` can be opened.
    pub(super) fn new(job: &Job, console: Option<[OwnedFd; 2]>) -> Result<(Self, Option<String>)> {
        let (outputs, trouble) = open::outputs_of(&job.spec, &job.order, console)?;
        let stdio = Self {
            pipes: BTreeMap::new(),
            outputs,
            flows: Flows::new(&job.order.host_slices, job.tree_index()),
            labels: Labels::default(),
            label: job.spec.output.label.clone(),
            feed: open::feed_of(&job.spec, &job.order),
            runnable: VecDeque::new(),
            writable: Vec::new(),
            lines: Timers::default(),
            buffer: vec![0; 256 * 1024],
            drain: Drain::default(),
            looks: Looks::default(),
        };
        Ok((stdio, trouble))
    }

    /// Has the poll report writable outputs.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn register(&mut self, registry: &Registry) -> std::io::Result<()> {
        self.outputs.register(registry, FIRST_OUTPUT)
    }

    pub(super) fn has_work(&self) -> bool {
        !self.runnable.is_empty() || self.flows_can_proceed()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.lines.next().into_iter().chain(self.outputs.next_deadline()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        while let Some(source) = self.lines.pop_expired(now) {
            let stream = Stream::BOTH[(source & 1) as usize];
            self.expire_line(turn, Rank(source >> 1), stream);
        }
        let is_due = |sink: &sink::Sink| sink.deadline().is_some_and(|at| at <= now);
        if turn.job.is_root() && self.outputs.sinks.busy_ones().any(is_due) {
            // After a long time without a CPU, lines and answers of other hosts have been read and count first.
            self.serve_flows(turn);
            self.pass_answers(turn);
        }
        for i in self.outputs.sinks.busy() {
            if is_due(&self.outputs.sinks[i]) {
                self.excuse_starved(turn, i);
                let trouble = self.outputs.sinks[i].handle_timeout(now);
                after_write(turn, trouble);
            }
        }
    }

    /// Writes queued data, and resumes the sources that the write admission lets in.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        for i in self.outputs.sinks.busy() {
            let trouble = self.outputs.sinks[i].flush();
            after_write(turn, trouble);
            self.admit_blocked(turn, i);
            self.outputs.sinks.review(i);
        }
        let is_silent = self.outputs.awaits_silence() && self.flows.waiting().is_empty();
        self.outputs.close_ended(is_silent);
    }

    /// Hands over output and answers for the parent, and gives credit to the children.
    pub(super) fn pass_up(&mut self, turn: &mut Turn<'_>) {
        self.look_at_asked(turn);
        for stream in Stream::BOTH {
            while let Some(frame) = self.outputs.next_payload(stream) {
                turn.report(ForLinks::Bytes(LinkEnd::Parent, TreeKind::Output(stream), frame));
            }
        }
        self.pass_answers(turn);
        for (tree_index, stream, bytes) in self.flows.take_credit() {
            turn.report(ForLinks::Down(tree_index, Down::OutputCredit { stream, bytes }));
        }
    }

    // ----- ranks and managers -----

    /// Adds the pipes of a started rank.
    pub(super) fn add(&mut self, rank: Rank, pipes: Pipes) {
        self.pipes.insert(rank, pipes);
    }

    /// Handles the end of a rank's process.
    pub(super) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if let Some(pipes) = self.pipes.get_mut(&rank) {
            pipes.process = None;
        }
        self.count_unread(turn, rank);
        self.end_feeding(turn, Receiver::Rank(rank));
    }

    /// Removes a spawned rank that has ended completely.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.pipes.remove(&rank);
    }

    /// Adds a child manager that joined.
    pub(super) fn add_child(&mut self, turn: &Turn<'_>, tree_index: usize) {
        self.flows.add(tree_index, turn.job.spec.size());
    }

    /// Notes that a child manager has sent all its output.
    pub(super) fn child_drained(&mut self, tree_index: usize) {
        self.flows.drained(tree_index);
    }

    /// Gives up the output and input of a lost child manager.
    pub(super) fn lose_child(&mut self, turn: &mut Turn<'_>, tree_index: usize) {
        self.flows.lose(tree_index);
        self.end_feeding(turn, Receiver::Child(tree_index));
    }

    /// The parent accepts `bytes` more bytes of a stream.
    pub(super) fn grant(&mut self, stream: Stream, bytes: u32) {
        self.outputs.grant(stream, bytes);
    }

    /// Reports to the daemon how many bytes each rank has written.
    pub(super) fn report_written(&self, turn: &mut Turn<'_>) {
        let count = |pipes: &Pipes| pipes.sources.iter().map(|source| source.taken).sum();
        let counts: Vec<(Rank, u64)> =
            self.pipes.iter().map(|(&rank, pipes)| (rank, count(pipes))).collect();
        if counts.is_empty() {
            turn.send_to_daemon(ManagerReport::Written { counts: Vec::new() });
        }
        for some in counts.chunks(MAX_RUN) {
            turn.send_to_daemon(ManagerReport::Written { counts: some.to_vec() });
        }
    }

    // ----- the course of the job -----

    /// Prepares the start of the ranks here. The rank map is printed before any output of ranks.
    pub(super) fn go(&mut self, turn: &mut Turn<'_>) {
        let job = turn.job;
        if job.is_root() && job.spec.placement.print_rank_map {
            let hosts = job
                .order
                .host_slices
                .iter()
                .map(|host_slice| (&host_slice.member, &host_slice.ranks));
            self.outputs.print(&format!("{}\n", rank_map(hosts)));
        }
        self.offer_credit(turn);
        if !job.is_root() && !job.order.host_slices.children(job.tree_index()).is_empty() {
            // The children do not report when their ranks begin, except to the root.
            self.expect_all(turn);
        }
    }

    /// Notes that these ranks have begun. If lines are merged, each line waits for them from now on.
    pub(super) fn expect(&mut self, turn: &Turn<'_>, ranks: impl IntoIterator<Item = Rank>) {
        if turn.job.spec.output.merge {
            self.begin_merging(turn, &ranks.into_iter().collect());
        }
    }

    /// Expects all ranks of this subtree.
    fn expect_all(&mut self, turn: &Turn<'_>) {
        if turn.job.spec.output.merge {
            let ranks = turn.job.order.host_slices.subtree_ranks(turn.job.tree_index());
            self.begin_merging(turn, &ranks);
        }
    }

    fn begin_merging(&mut self, turn: &Turn<'_>, ranks: &RankSet) {
        let now = turn.now();
        self.outputs.begin(now, ranks);
        if turn.job.spec.debug.is_some() {
            // A driver reports when it is ready.
            self.outputs.ask(now, ranks);
        }
    }

    /// The debuggers of these ranks answer a command.
    pub(super) fn expect_answers(&mut self, turn: &Turn<'_>, ranks: &RankSet) {
        self.outputs.ask(turn.now(), ranks);
    }

    /// Notes the processes of these ranks, which may run on any host.
    pub(super) fn note_running(&mut self, turn: &Turn<'_>, pids: &[(Rank, u32)]) {
        self.expect(turn, pids.iter().map(|(rank, _)| *rank));
        if turn.job.is_root() {
            for &(rank, pid) in pids {
                self.labels.note_running(rank, pid);
            }
            self.label_ranks(turn, pids);
        }
    }

    /// Makes the labels of these ranks.
    fn label_ranks(&mut self, turn: &Turn<'_>, pids: &[(Rank, u32)]) {
        let label = self.label.as_ref();
        if label.is_some() || turn.job.spec.output.merge {
            for &(rank, pid) in pids {
                self.labels.insert(rank, labels_of(turn.job, label, (rank, pid)));
            }
        }
    }

    /// Labels lines of the output in another way from now on; `None`: not at all. A line that has begun keeps its label.
    pub(super) fn relabel(&mut self, turn: &Turn<'_>, label: Option<LabelFormat>) {
        if turn.job.spec.debug.is_some() {
            // The prompt reads the labels.
            return;
        }
        let hosts = open::host_labels(&turn.job.spec, &turn.job.order, label.as_ref());
        self.outputs.label(label.is_some(), hosts);
        self.label = label;
        let running = self.labels.clear();
        self.label_ranks(turn, &running);
    }

    /// Prepares a spawned world. The root opens the files for its output.
    pub(super) fn prepare_world(&mut self, turn: &mut Turn<'_>, world: &World, parts: &Parts) {
        if turn.job.is_root()
            && let Err(problem) = self.open_files_of(turn, world, parts)
        {
            turn.post(Input::WorldFailed(world.first, Failure::Suite { problem }));
        }
    }

    fn open_files_of(
        &mut self,
        turn: &Turn<'_>,
        world: &World,
        parts: &Parts,
    ) -> Result<(), String> {
        let job = (&*turn.job.spec, &turn.job.order);
        let files = parts.0.iter().flat_map(|(tree_index, ranks)| {
            let tree_index = *tree_index as usize;
            ranks.ranks().flat_map(move |rank| {
                let name = World::name(Some(world), rank);
                open::files_of(job, rank, (&name, tree_index))
            })
        });
        let files: Vec<OutputFile> = files.collect();
        // There are at most as many shared files as hosts.
        let own = files.iter().filter(|file| file.is_own).count();
        check_files(self.pipes.len(), self.outputs.files() + own)?;
        let opened = self.outputs.open_files(&files, turn.registry, FIRST_OUTPUT);
        opened.map_err(|problem| format!("cannot open output {problem}"))
    }

    /// Ends the output of these ranks when no output is on its way, since no end is reported.
    pub(super) fn end_unreported(&mut self, ranks: Vec<Rank>) {
        self.outputs.end_unreported(ranks);
    }

    /// Forgets the labels of a spawned world whose ranks have ended.
    pub(super) fn forget_world(&mut self, turn: &Turn<'_>, world: World) {
        if turn.job.is_root() {
            self.labels.retire(world);
        }
    }

    // ----- the end of the job -----

    /// Prepares the kill of the ranks. Merged lines no longer wait for ranks that have not begun.
    pub(super) fn prepare_end(&mut self, turn: &Turn<'_>) {
        self.expect_all(turn);
        self.drain.is_watched = true;
    }

    /// Begins to drain the output: no process of the job lives, so the pipes get no more data.
    pub(super) fn start_draining(&mut self, turn: &mut Turn<'_>) {
        turn.begin(Phase::Drain, None);
        self.drain.is_last = true;
        for rank in self.started() {
            for stream in Stream::BOTH {
                self.mark_source(rank, stream, true);
            }
        }
    }

    /// Checks the drain: whether output makes progress, and whether it is complete. `is_all_up`: no output waits
    /// for the link to the parent.
    pub(super) fn review_drain(&mut self, turn: &mut Turn<'_>, is_all_up: bool) {
        if !self.drain.is_watched {
            return;
        }
        let taken = self.outputs.sinks.taken();
        if std::mem::replace(&mut self.drain.taken, taken) != taken {
            turn.post(Input::DrainGoesOn);
        }
        if self.drain.is_last && self.is_drained(turn) && is_all_up {
            self.drain.is_last = false;
            turn.post(Input::Drained);
        }
    }

    fn is_drained(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.pipes.values().any(Pipes::is_unread) {
            return false;
        }
        // A process outside the job may hold a pipe open. Everything in it has been read, so it is closed here.
        for rank in self.started() {
            for stream in Stream::BOTH {
                if self.pipes[&rank].sources[stream.index()].pipe.is_some() {
                    self.end_source(turn, rank, stream);
                }
            }
        }
        self.flows.are_drained() && self.outputs.are_empty()
    }

    /// Discards the rest of the output.
    pub(super) fn discard(&mut self) {
        self.outputs.discard();
    }

    /// The ranks that were started here.
    fn started(&self) -> Vec<Rank> {
        self.pipes.keys().copied().collect()
    }
}

/// The labels of the lines of a rank, by stream.
fn labels_of(job: &Job, label: Option<&LabelFormat>, (rank, pid): (Rank, u32)) -> [Vec<u8>; 2] {
    Stream::BOTH.map(|stream| label_of(job, label, rank, (pid, stream)))
}

fn label_of(job: &Job, label: Option<&LabelFormat>, rank: Rank, of: (u32, Stream)) -> Vec<u8> {
    if job.spec.debug.is_some() && !job.is_first(rank) {
        // The prompt knows spawned ranks by their numbers in the job.
        return format!("{rank}: ").into_bytes();
    }
    let name = job.name_of(rank);
    match label {
        Some(format) => {
            let tree_index = job.worlds.of(rank).and_then(|world| world.parts.tree_index_of(rank));
            open::fill(format, (&job.spec, &job.order), (&name, tree_index.unwrap_or(0)), of)
        }
        None if !job.is_first(rank) => format!("{name}: ").into_bytes(),
        None => Vec::new(),
    }
}
