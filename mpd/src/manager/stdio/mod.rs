//! Standard input, output and error of the ranks: their pipes, the outputs at the root, and both ways through the
//! job tree.
//!
//! | module | has |
//! |---|---|
//! | [`pipes`] | the pipes of one rank |
//! | [`input`] | input on its way to ranks and managers below |
//! | [`output`] | output on its way to the outputs |
//! | [`outputs`], [`sink`], [`files`], [`open`] | where output goes: the console's output and error, files, the manager above |
//! | [`flows`] | output of the managers below |
//! | [`labels`] | what stands before each rank's lines |

mod files;
mod flows;
mod input;
mod labels;
mod open;
mod output;
mod outputs;
mod pipes;
mod sink;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_placement::rank_map;
use mpd_stdio::feed::{Feed, Receiver};
use mpd_wire::job::{Failure, Parts, World};
use mpd_wire::message::{Down, MAX_RUN, ManagerReport, Phase, TreeKind};
use mpd_wire::{Rank, RankSet, Stream};

use self::files::Wanted;
use self::flows::Flows;
use self::labels::Labels;
use self::output::after_write;
use self::outputs::Outputs;
pub(super) use self::pipes::Pipes;
use self::sink::Sink;
use super::context::{Job, Turn};
use super::event::ForLinks;
use super::links::End;
use super::ranks::check_files;
use super::tokens::FIRST_OUTPUT;

/// How far the output is, while the job ends.
#[derive(Debug, Default)]
struct Drain {
    /// The ranks were killed: what still moves is what they left to be written.
    is_watched: bool,
    /// What is in the pipes now is all there is.
    is_last: bool,
    /// Bytes that all outputs had taken at the last look since.
    taken: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stdio {
    /// Of ranks that were started here.
    pipes: BTreeMap<Rank, Pipes>,
    outputs: Outputs,
    flows: Flows,
    labels: Labels,
    feed: Feed,
    /// Sources that may be read now.
    runnable: VecDeque<(Rank, Stream)>,
    /// Ranks whose standard input takes more.
    hungry: Vec<Rank>,
    /// Deadlines of unfinished lines, by source (rank * 2 + stream).
    lines: Timers<u32>,
    buffer: Vec<u8>,
    drain: Drain,
}

impl Stdio {
    /// The outputs are those of the console, or lead to the manager above. Trouble with the former is told by way of
    /// what is left.
    ///
    /// # Errors
    /// Not even `/dev/null` can be opened.
    pub(super) fn new(job: &Job, console: [OwnedFd; 2]) -> Result<(Self, Option<String>)> {
        let (outputs, trouble) = open::outputs_of(&job.spec, &job.order, console)?;
        let stdio = Self {
            pipes: BTreeMap::new(),
            outputs,
            flows: Flows::new(&job.order.shares, job.place()),
            labels: Labels::default(),
            feed: open::feed_of(&job.spec, &job.order),
            runnable: VecDeque::new(),
            hungry: Vec::new(),
            lines: Timers::default(),
            buffer: vec![0; 256 * 1024],
            drain: Drain::default(),
        };
        Ok((stdio, trouble))
    }

    /// Has the poll tell when an output takes more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn register(&mut self, registry: &Registry) -> std::io::Result<()> {
        self.outputs.register(registry, FIRST_OUTPUT)
    }

    pub(super) fn has_work(&self) -> bool {
        !self.runnable.is_empty() || self.flows_may_go_on()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.lines.next().into_iter().chain(self.outputs.next_deadline()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        while let Some(source) = self.lines.pop_expired(now) {
            let stream = Stream::BOTH[(source & 1) as usize];
            self.line_is_due(turn, Rank(source >> 1), stream);
        }
        for i in 0..self.outputs.sinks.len() {
            let is_due = |sink: &Sink| sink.deadline().is_some_and(|at| at <= now);
            if self.outputs.sinks.contains(i) && is_due(&self.outputs.sinks[i]) {
                let trouble = self.outputs.sinks[i].handle_timeout(now);
                after_write(turn, trouble);
            }
        }
    }

    /// Writes what waits and lets those be read whose gate is open again.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        for i in 0..self.outputs.sinks.len() {
            if self.outputs.sinks.contains(i) {
                let trouble = self.outputs.sinks[i].flush();
                after_write(turn, trouble);
                self.admit_blocked(turn, i);
            }
        }
        let is_silent = self.outputs.awaits_silence() && self.flows.waiting().is_empty();
        self.outputs.close_ended(is_silent);
    }

    /// Hands over what may go to the manager above, and gives credit to those below.
    pub(super) fn pass_up(&mut self, turn: &mut Turn<'_>) {
        for stream in Stream::BOTH {
            while let Some(frame) = self.outputs.next_payload(stream) {
                turn.report(ForLinks::Bytes(End::Parent, TreeKind::Output(stream), frame));
            }
        }
        for (place, stream, bytes) in self.flows.take_credit() {
            turn.report(ForLinks::Down(place, Down::OutputCredit { stream, bytes }));
        }
    }

    // ----- ranks and managers -----

    /// A rank was started.
    pub(super) fn add(&mut self, rank: Rank, pipes: Pipes) {
        self.pipes.insert(rank, pipes);
    }

    /// The process of a rank has ended.
    pub(super) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if let Some(pipes) = self.pipes.get_mut(&rank) {
            pipes.process = None;
        }
        self.end_feeding(turn, Receiver::Rank(rank));
    }

    /// Nothing is left of a spawned rank.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.pipes.remove(&rank);
    }

    /// A manager joined below.
    pub(super) fn add_below(&mut self, turn: &Turn<'_>, place: usize) {
        self.flows.add(place, turn.job.spec.size());
    }

    /// No more output comes from the manager below.
    pub(super) fn below_drained(&mut self, place: usize) {
        self.flows.drained(place);
    }

    /// The manager below is out of reach.
    pub(super) fn lose_below(&mut self, turn: &mut Turn<'_>, place: usize) {
        self.flows.lose(place);
        self.end_feeding(turn, Receiver::Below(place));
    }

    /// The manager above takes so many bytes more of a stream.
    pub(super) fn grant(&mut self, stream: Stream, bytes: u32) {
        self.outputs.grant(stream, bytes);
    }

    /// Tells how much each rank has written.
    pub(super) fn report_written(&self, turn: &mut Turn<'_>) {
        let count = |pipes: &Pipes| pipes.sources.iter().map(|source| source.taken).sum();
        let counts: Vec<(Rank, u64)> =
            self.pipes.iter().map(|(&rank, pipes)| (rank, count(pipes))).collect();
        if counts.is_empty() {
            turn.tell_daemon(ManagerReport::Written { counts: Vec::new() });
        }
        for some in counts.chunks(MAX_RUN) {
            turn.tell_daemon(ManagerReport::Written { counts: some.to_vec() });
        }
    }

    // ----- the life of the job -----

    /// The ranks of this host are about to be started. The map of ranks stands before all that they print.
    pub(super) fn go(&mut self, turn: &mut Turn<'_>) {
        let job = turn.job;
        if job.is_root() && job.spec.placement.print_rank_map {
            let hosts = job.order.shares.iter().map(|share| (&share.member, &share.ranks));
            self.outputs.say(&format!("{}\n", rank_map(hosts)));
        }
        self.offer_credit(turn);
        if !job.is_root() && !job.order.shares.children(job.place()).is_empty() {
            // When those below begin, only the root learns.
            self.expect_all(turn);
        }
    }

    /// These ranks have begun: where lines are merged, they are waited for from now on.
    pub(super) fn expect(&mut self, turn: &Turn<'_>, ranks: impl IntoIterator<Item = Rank>) {
        if turn.job.spec.output.merge {
            self.begin_merging(turn, &ranks.into_iter().collect());
        }
    }

    /// The same of all ranks here and below.
    fn expect_all(&mut self, turn: &Turn<'_>) {
        if turn.job.spec.output.merge {
            let ranks = turn.job.order.shares.ranks_below(turn.job.place());
            self.begin_merging(turn, &ranks);
        }
    }

    fn begin_merging(&mut self, turn: &Turn<'_>, ranks: &RankSet) {
        let now = turn.now();
        self.outputs.begin(now, ranks);
        if turn.job.spec.debug.is_some() {
            // They say when they are ready.
            self.outputs.ask(now, ranks);
        }
    }

    /// These ranks, of whichever host, run as these processes.
    pub(super) fn note_running(&mut self, turn: &Turn<'_>, pids: &[(Rank, u32)]) {
        self.expect(turn, pids.iter().map(|(rank, _)| *rank));
        let output = &turn.job.spec.output;
        if turn.job.is_root() && (output.label.is_some() || output.merge) {
            for &(rank, pid) in pids {
                self.labels.insert(rank, label_of(turn.job, rank, pid));
            }
        }
    }

    /// A spawned world is to be started. At the root, the files are opened that take its output.
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
        let files = parts.0.iter().flat_map(|(place, ranks)| {
            let place = *place as usize;
            ranks.ranks().flat_map(move |rank| {
                let name = World::name(Some(world), rank);
                open::files_of(job, rank, (&name, place))
            })
        });
        let files: Vec<Wanted> = files.collect();
        // Of the others there are no more than hosts.
        let own = files.iter().filter(|file| file.is_own).count();
        check_files(self.pipes.len(), self.outputs.files() + own)?;
        let opened = self.outputs.open_files(&files, turn.registry, FIRST_OUTPUT);
        opened.map_err(|problem| format!("cannot open output {problem}"))
    }

    /// Nothing says when the output of these ranks ends.
    pub(super) fn end_unheard(&mut self, ranks: Vec<Rank>) {
        self.outputs.end_unheard(ranks);
    }

    /// All ranks of a spawned world have ended.
    pub(super) fn forget_world(&mut self, turn: &Turn<'_>, world: World) {
        if turn.job.is_root() {
            self.labels.retire(world);
        }
    }

    // ----- the end of the job -----

    /// The ranks are about to be killed. Lines wait no longer for ranks that will never begin.
    pub(super) fn prepare_end(&mut self, turn: &Turn<'_>) {
        self.expect_all(turn);
        self.drain.is_watched = true;
    }

    /// No process of the job lives: what is in the pipes now is all there is.
    pub(super) fn start_draining(&mut self, turn: &mut Turn<'_>) {
        turn.begin(Phase::Drain, None);
        self.drain.is_last = true;
        for rank in self.started() {
            for stream in Stream::BOTH {
                self.mark_source(rank, stream, true);
            }
        }
    }

    /// While what is left is being written, here or on its way from below: whether it moves, and whether it
    /// is done. `is_all_up`: nothing waits for the link to the manager above.
    pub(super) fn review_drain(&mut self, turn: &mut Turn<'_>, is_all_up: bool) {
        if !self.drain.is_watched {
            return;
        }
        let taken = self.outputs.sinks.iter().map(|sink| sink.taken).sum();
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
        // A pipe that a process outside the job holds open has no end; what was in it has been read.
        for rank in self.started() {
            for stream in Stream::BOTH {
                if self.pipes[&rank].sources[stream.index()].pipe.is_some() {
                    self.end_source(turn, rank, stream);
                }
            }
        }
        self.flows.are_drained() && self.outputs.are_empty()
    }

    /// Throws away what is left of the output.
    pub(super) fn discard(&mut self) {
        self.outputs.discard();
    }

    /// Ranks that were started here.
    fn started(&self) -> Vec<Rank> {
        self.pipes.keys().copied().collect()
    }
}

fn label_of(job: &Job, rank: Rank, pid: u32) -> Vec<u8> {
    let name = job.name_of(rank);
    match &job.spec.output.label {
        Some(format) => {
            let place = job.worlds.of(rank).and_then(|world| world.parts.place_of(rank));
            open::fill(format, (&job.spec, &job.order), (&name, place.unwrap_or(0)), pid)
        }
        None if !job.is_first(rank) => format!("{name}: ").into_bytes(),
        None => Vec::new(),
    }
}
