//! Standard input, output and error of the ranks. The machine of `mpd-stdio` decides, in the node; this module reads and writes
//! the descriptors.
//!
//! | module | has |
//! |---|---|
//! | [`pipes`] | the pipes of one rank |
//! | [`open`] | opens the outputs of the console, and files |
//! | [`here`] | the facts that calls lend to the machine |

mod here;
mod open;
pub(super) mod pipes;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use mio::{Interest, Registry, Token};
use mpd_io::files::logging::plain;
use mpd_io::files::output::Output as Descriptor;
use mpd_io::network::watch::watch;
use mpd_job::manager::Input as JobInput;
use mpd_ranks::check_files;
use mpd_stdio::machine::{
    self as machine, Action, Facts, Input, Level, Look, OutputFile, Read, Target, Written,
};
use mpd_wire::Rank;
use mpd_wire::job::{Failure, Parts, World};

use self::here::{Here, facts_of};
use self::pipes::Pipes;
use super::context::{Job, Turn};
use super::lent::descriptor_limit;
use super::tokens::FIRST_OUTPUT;

/// The descriptors that the machine names.
#[derive(Debug)]
pub(super) struct Stdio {
    /// The pipes of ranks that were started here.
    pipes: BTreeMap<Rank, Pipes>,
    /// The outputs of the root, by their numbers in the machine.
    outputs: Vec<Option<Descriptor>>,
}

impl Stdio {
    /// The outputs are those of the console, or lead to the parent. A problem of the console's outputs is returned
    /// as text; then output is discarded.
    pub(super) fn new(
        job: &Job,
        console: Option<[OwnedFd; 2]>,
    ) -> (Self, machine::Stdio, Option<String>) {
        let (spec, order) = (&job.spec, &job.order);
        let opened = console.map_or_else(|| Ok(Vec::new()), open::console);
        let is_shared = opened.as_ref().is_ok_and(|outputs| outputs.len() == 1);
        let mut machine = machine::Stdio::new(spec, order, is_shared);
        let mut stdio = Self { pipes: BTreeMap::new(), outputs: Vec::new() };
        let files = if job.is_root() { machine::files_of_job(spec, order) } else { Vec::new() };
        let result = opened.and_then(|outputs| {
            stdio.outputs = outputs.into_iter().map(Some).collect();
            stdio.open_files(&mut machine, &files, None)
        });
        let trouble = result.err().map(|problem| {
            stdio.outputs = Vec::new();
            machine.discard();
            format!("cannot open output {problem}")
        });
        (stdio, machine, trouble)
    }

    /// Has the poll report writable outputs.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        (0..self.outputs.len()).try_for_each(|sink| self.watch(registry, sink))
    }

    /// Has the poll report an output that can block.
    fn watch(&self, registry: &Registry, sink: usize) -> io::Result<()> {
        let output = self.outputs[sink].as_ref().filter(|output| output.can_block());
        output.map_or(Ok(()), |output| {
            watch(registry, output.as_raw_fd(), Token(FIRST_OUTPUT + sink), Interest::WRITABLE)
        })
    }

    /// Opens files for output. With a registry, they are watched at once.
    ///
    /// # Errors
    /// What cannot be opened or watched and why.
    fn open_files(
        &mut self,
        machine: &mut machine::Stdio,
        files: &[OutputFile],
        registry: Option<&Registry>,
    ) -> Result<(), String> {
        for file in files {
            let Some(is_continued) = machine.route_file(file) else { continue };
            let output = open::create(file, is_continued)?;
            let sink = machine.add_file(file);
            self.outputs.resize_with(self.outputs.len().max(sink + 1), || None);
            self.outputs[sink] = Some(output);
            if let Some(registry) = registry {
                self.watch(registry, sink)
                    .map_err(|e| format!("{}: {}", file.path.display(), plain(&e)))?;
            }
        }
        Ok(())
    }

    // ----- what happens -----

    /// Gives the machine an input, and performs what follows.
    pub(super) fn give(&mut self, turn: &mut Turn<'_>, input: Input) {
        let retired = if let Input::Retired(rank) = input { Some(rank) } else { None };
        let here = Here { job: turn.job, pipes: &self.pipes };
        let facts = facts_of(turn);
        turn.lending.stdio.handle(&facts, &here, input);
        self.settle(turn);
        if let Some(rank) = retired {
            self.pipes.remove(&rank);
        }
    }

    /// Adds the pipes of a started rank.
    pub(super) fn add(&mut self, turn: &mut Turn<'_>, rank: Rank, pipes: Pipes) {
        let opened = pipes.opened();
        self.pipes.insert(rank, pipes);
        self.give(turn, Input::Opened(rank, opened));
    }

    /// Handles the end of a rank's process.
    pub(super) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let unread = self.pipes.get_mut(&rank).and_then(|pipes| {
            pipes.process = None;
            pipes.give_up_input()
        });
        self.give(turn, Input::RankEnded(rank, unread));
    }

    /// Opens the files for the output of a spawned world.
    pub(super) fn open_files_of(&mut self, turn: &mut Turn<'_>, world: &World, parts: &Parts) {
        if let Err(problem) = self.try_open(turn, world, parts) {
            turn.post(JobInput::WorldFailed(world.first, Failure::Suite { problem }));
        }
    }

    fn try_open(
        &mut self,
        turn: &mut Turn<'_>,
        world: &World,
        parts: &Parts,
    ) -> Result<(), String> {
        let files = machine::files_of_world((&turn.job.spec, &turn.job.order), world, parts);
        // There are at most as many shared files as hosts.
        let own = files.iter().filter(|file| file.is_own).count();
        check_files(self.pipes.len(), turn.lending.stdio.files() + own, descriptor_limit())?;
        let opened = self.open_files(turn.lending.stdio, &files, Some(turn.registry));
        opened.map_err(|problem| format!("cannot open output {problem}"))
    }

    // ----- the stages of a turn -----

    /// Passes input to ranks whose pipes are writable.
    pub(super) fn feed_ready(&mut self, turn: &mut Turn<'_>) {
        self.call(turn, machine::Stdio::feed_ready);
    }

    /// Reads a bounded amount from each source that may be read.
    pub(super) fn serve_sources(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..turn.lending.stdio.runnable() {
            self.call(turn, |machine, _| machine.begin_source());
        }
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let looks = self.call(turn, machine::Stdio::expired_lines);
        looks.into_iter().for_each(|look| self.look(turn, look));
        if self.call(turn, |machine, facts| machine.must_catch_up(facts)) {
            self.serve_flows(turn);
            self.call(turn, machine::Stdio::pass_answers);
        }
        let here = Here { job: turn.job, pipes: &self.pipes };
        let facts = facts_of(turn);
        turn.lending.stdio.expire_merged(&facts, &here);
        self.settle(turn);
    }

    /// Passes on records of the children, as far as the write admissions let them in.
    pub(super) fn serve_flows(&mut self, turn: &mut Turn<'_>) {
        for flow in turn.lending.stdio.waiting_flows() {
            while self.call(turn, |machine, facts| machine.pass_record(facts, flow)) {}
        }
    }

    /// Writes queued data, and resumes the sources that the write admission lets in.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        self.call(turn, |machine, _| machine.flush());
        self.call(turn, machine::Stdio::resume);
    }

    /// Hands over output and answers for the parent, and gives credit to the children.
    pub(super) fn pass_up(&mut self, turn: &mut Turn<'_>) {
        let looks = turn.lending.stdio.asked();
        looks.into_iter().for_each(|look| self.look(turn, look));
        self.call(turn, machine::Stdio::pass_up);
    }

    /// Checks the drain: whether output makes progress, and whether it is complete. `is_all_up`: no output waits
    /// for the link to the parent.
    pub(super) fn review_drain(&mut self, turn: &mut Turn<'_>, is_all_up: bool) {
        self.call(turn, machine::Stdio::review_drain);
        self.call(turn, |machine, _| machine.finish_drain(is_all_up));
    }

    // ----- what the machine wants -----

    /// Calls the machine, and performs what follows.
    fn call<T>(
        &mut self,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut machine::Stdio, &Facts<'_>) -> T,
    ) -> T {
        let facts = facts_of(turn);
        let result = act(turn.lending.stdio, &facts);
        self.settle(turn);
        result
    }

    /// Performs everything that the machine wants.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(action) = turn.lending.next_of_stdio() {
                self.perform(action);
            }
            if !self.write_some(turn) && !self.read_some(turn) {
                return;
            }
        }
    }

    /// Writes bytes of the machine, if it has some.
    fn write_some(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some((target, bytes)) = turn.lending.stdio.next_write() else { return false };
        let written = match target {
            Target::Sink(sink) => {
                let output = self.outputs.get(sink).and_then(Option::as_ref);
                output.map_or(Written::Full, |output| write(output, bytes))
            }
            Target::Input(rank) => {
                self.pipes.get_mut(&rank).map_or(Written::Closed, |pipes| pipes.feed(bytes))
            }
        };
        let facts = facts_of(turn);
        turn.lending.stdio.wrote(&facts, target, written);
        true
    }

    /// Takes the next step of reading, if the machine reads.
    fn read_some(&mut self, turn: &mut Turn<'_>) -> bool {
        let facts = facts_of(turn);
        match turn.lending.stdio.next_read(&facts) {
            None => false,
            Some(Read::Passed) => true,
            Some(Read::Source(rank, stream, room)) => {
                let pipes = self.pipes.get_mut(&rank);
                let found = pipes.map_or(machine::Found::Nothing, |pipes| pipes.read(stream, room));
                let facts = facts_of(turn);
                turn.lending.stdio.was_read(&facts, found);
                true
            }
        }
    }

    /// Looks at a rank that is silent.
    fn look(&mut self, turn: &mut Turn<'_>, look: Look) {
        let Some(pipes) = self.pipes.get(&look.rank) else { return };
        let writer = pipes.writer();
        self.call(turn, |machine, _| machine.begin_look(look));
        self.give(turn, Input::Seen(look, writer));
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::CloseSource(rank, stream) => {
                self.pipes.entry(rank).and_modify(|pipes| pipes.close(stream));
            }
            Action::EndInput(rank) => {
                self.pipes.entry(rank).and_modify(Pipes::end_input);
            }
            Action::CloseSink(sink) => {
                self.outputs.get_mut(sink).map(Option::take);
            }
            Action::Log(Level::Warn, text) => log::warn!("{text}"),
            Action::Log(Level::Debug, text) => log::debug!("{text}"),
        }
    }
}

/// Writes to an output as much as it accepts.
fn write(output: &Descriptor, bytes: &[u8]) -> Written {
    match output.write(bytes) {
        Ok(count) => Written::Bytes(count),
        Err(e) => match e.raw_os_error() {
            _ if e.kind() == io::ErrorKind::WouldBlock => Written::Full,
            Some(libc::EPIPE | libc::ECONNRESET) => Written::Closed,
            // The terminal was hung up.
            Some(libc::EIO) if output.is_terminal() => Written::Closed,
            _ => Written::Failed(plain(&e)),
        },
    }
}
