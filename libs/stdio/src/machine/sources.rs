//! Output on its way from ranks of this host and from child managers to the outputs.

use mpd_wire::{Rank, Stream};

use super::Stdio;
use super::facts::Facts;
use super::input::{Found, Look, Why};
use super::marks::Next;
use super::output::{Action, Output, Read};
use super::sink::{Place, alone, source as source_number};
use crate::inflow::Inflow;
use crate::record::Item;
use crate::silence::Task;

/// Most reads of one source before the next source is read.
const READS_PER_TURN: usize = 4;

/// The last mark of a debugger, after all commands.
const ENDED: &str = "4294967295 ended";

/// The source that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    rank: Rank,
    stream: Stream,
    /// Reads before the next source is read.
    left: usize,
    /// Most bytes of the last read.
    most: usize,
    /// The pipe is not read. Only what was read earlier is passed on.
    only_marks: bool,
}

impl Stdio {
    /// Notes that a source is readable or has ended.
    pub fn mark_source(&mut self, rank: Rank, stream: Stream, has_ended: bool) {
        if let Some(streams) = self.streams.get_mut(&rank) {
            let source = streams.source(stream);
            source.ready = true;
            source.ending |= has_ended;
            self.run_source(rank, stream);
        }
    }

    /// Queues a source that is readable and admitted.
    fn run_source(&mut self, rank: Rank, stream: Stream) {
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        let source = streams.source(stream);
        if source.ready && !source.blocked && !source.queued {
            source.queued = true;
            self.runnable.push_back((rank, stream));
        }
    }

    /// How many sources may be read now.
    pub fn runnable(&self) -> usize {
        self.runnable.len()
    }

    /// Begins to read the next source, in a bounded number of reads.
    pub fn begin_source(&mut self) {
        let Some((rank, stream)) = self.runnable.pop_front() else { return };
        if let Some(streams) = self.streams.get_mut(&rank) {
            streams.source(stream).queued = false;
            self.begin_reading(rank, stream, false);
        }
    }

    /// Begins to read the source of a look, after the look at its writer.
    pub fn begin_look(&mut self, look: Look) {
        let Look { rank, stream, .. } = look;
        if let Some(streams) = self.streams.get_mut(&rank) {
            streams.source(stream).ready = true;
            self.begin_reading(rank, stream, false);
        }
    }

    fn begin_reading(&mut self, rank: Rank, stream: Stream, only_marks: bool) {
        let left = if only_marks { usize::MAX } else { READS_PER_TURN };
        self.reading = Some(Reading { rank, stream, left, most: 0, only_marks });
    }

    /// The next step of reading the source that was begun. `None`: it is not read any more for now.
    pub fn next_read(&mut self, facts: &Facts<'_>) -> Option<Read<'_>> {
        let Reading { rank, stream, left, only_marks, .. } = self.reading.take()?;
        debug_assert!(self.outputs.to_write.is_empty(), "the bytes of the last read are written");
        if left == 0 {
            self.run_source(rank, stream);
            return None;
        }
        let is_ready = only_marks
            || self.streams.get_mut(&rank).is_some_and(|streams| streams.source(stream).ready);
        let next = match is_ready && self.admits(rank, stream) {
            true => self.serve_marks(facts, rank, stream),
            false => Next::Wait,
        };
        match next {
            Next::End => {
                self.end_source(facts, rank, stream);
                return Some(Read::Passed);
            }
            Next::Wait | Next::Read if only_marks => self.mark_source(rank, stream, false),
            Next::Wait => {}
            Next::Bytes(_) | Next::Mark(_) => {
                self.reading = Some(Reading { rank, stream, left: left - 1, most: 0, only_marks });
                return Some(Read::Passed);
            }
            Next::Read => {
                let most = self.outputs.at_once(self.outputs.routes(rank, stream));
                let most = most.min(self.buffer.len());
                self.reading = Some(Reading { rank, stream, left: left - 1, most, only_marks });
                return Some(Read::Source(rank, stream, &mut self.buffer[..most]));
            }
        }
        None
    }

    /// Takes the result of the read that [`Stdio::next_read`] has asked for.
    pub fn was_read(&mut self, facts: &Facts<'_>, found: Found) {
        let Some(Reading { rank, stream, most, .. }) = self.reading else { return };
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        if let (Found::Bytes(count), Some(marks)) = (&found, streams.marks(stream)) {
            // Marks may belong between these bytes.
            marks.was_read(&self.buffer[..*count]);
            streams.source(stream).taken += *count as u64;
            self.reading = None;
            return self.emit(Output::ReadMarks(rank));
        }
        let source = streams.source(stream);
        match found {
            Found::Bytes(0) => {
                self.reading = None;
                self.end_source(facts, rank, stream);
            }
            Found::Bytes(count) => {
                // A short read has emptied the pipe. New data makes a new event.
                source.ready = count == most || source.ending;
                source.taken += count as u64;
                self.take_output(facts, (rank, stream), count);
            }
            Found::Nothing => {
                source.ready = false;
                self.reading = None;
            }
            Found::Interrupted => {}
            Found::Failed(error) => {
                // The rest of the output is lost.
                let name = match stream {
                    Stream::Out => "output",
                    Stream::Err => "error",
                };
                let problem =
                    format!("cannot read the standard {name} of rank {}: {error}", rank.0);
                self.reading = None;
                self.emit(Output::OutputFailed(problem));
                self.end_source(facts, rank, stream);
            }
        }
    }

    // ----- marks -----

    /// A mark of a rank's debugger came, with the number of bytes of output before it.
    pub(super) fn add_mark(&mut self, rank: Rank, mark: (u64, String)) {
        let streams = self.streams.get_mut(&rank);
        if let Some(marks) = streams.and_then(|streams| streams.marks(Stream::Out)) {
            marks.add(mark);
        }
        self.mark_source(rank, Stream::Out, false);
    }

    /// All marks that belong into the output of a rank that was read so far have come. The output is passed on at
    /// once: it would otherwise be late for equal lines of other ranks.
    pub(super) fn marks_read(&mut self, rank: Rank) {
        let streams = self.streams.get_mut(&rank);
        if let Some(marks) = streams.and_then(|streams| streams.marks(Stream::Out)) {
            marks.are_known();
        }
        self.begin_reading(rank, Stream::Out, true);
    }

    /// Passes on the next bytes or the next mark of a stream with marks. Returns [`Next::Read`] for other streams.
    fn serve_marks(&mut self, facts: &Facts<'_>, rank: Rank, stream: Stream) -> Next {
        let streams = self.streams.get_mut(&rank);
        let Some(marks) = streams.and_then(|streams| streams.marks(stream)) else {
            return Next::Read;
        };
        let next = marks.next();
        match &next {
            Next::Bytes(count) => {
                let count = *count.min(&self.buffer.len());
                marks.pass(count, &mut self.buffer);
                self.take_output(facts, (rank, stream), count);
            }
            Next::Mark(text) => {
                self.take_mark(facts, rank, text);
                self.emit(Output::MarkTaken(rank));
            }
            Next::Wait | Next::Read | Next::End => {}
        }
        next
    }

    /// Passes a mark to the console as a line of the rank's output.
    fn take_mark(&mut self, facts: &Facts<'_>, rank: Rank, text: &str) {
        let line = format!("={text}\n");
        self.split(facts, (rank, Stream::Out), line.as_bytes(), None);
    }

    // ----- lines -----

    /// Whether the output of a source lets it write. Otherwise the source waits.
    fn admits(&mut self, rank: Rank, stream: Stream) -> bool {
        let Some(streams) = self.streams.get_mut(&rank) else { return false };
        let source = streams.source(stream);
        if !source.is_open || source.blocked {
            return false;
        }
        let routes = self.outputs.routes(rank, stream);
        let Some(sink) = self.outputs.refusing(routes, rank, stream) else { return true };
        source.blocked = true;
        self.outputs.sinks[sink].blocked.push((rank, stream));
        self.lines.stop(source_number(rank, stream));
        false
    }

    /// Passes on `count` bytes of the buffer.
    fn take_output(&mut self, facts: &Facts<'_>, source: (Rank, Stream), count: usize) {
        let buffer = std::mem::take(&mut self.buffer);
        self.split(facts, source, &buffer[..count], Some(Place::Buffer));
        self.buffer = buffer;
    }

    /// Passes on bytes, which begin at `place` if they stay there until they are written.
    fn split(
        &mut self,
        facts: &Facts<'_>,
        (rank, stream): (Rank, Stream),
        bytes: &[u8],
        place: Option<Place>,
    ) {
        let (now, time) = (facts.now, facts.wall);
        let routes = self.outputs.routes(rank, stream);
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        let outputs = &mut self.outputs;
        let line_splitter = &mut streams.source(stream).line_splitter;
        let label = self.labels.of(rank, stream);
        let mut from = 0;
        line_splitter.push(now, bytes, &mut |record| {
            let item = Item::Piece { rank, time, record };
            let place = place.map(|place| (place, from));
            from += record.body.len();
            outputs.accept(now, (routes, stream), label, (&item, place));
        });
        match line_splitter.deadline() {
            Some(at) => self.lines.set(source_number(rank, stream), at),
            None => self.lines.stop(source_number(rank, stream)),
        }
    }

    /// The looks at the writers of unfinished lines whose deadlines have passed. Each is followed by
    /// [`Input::Seen`](super::Input::Seen).
    pub fn expired_lines(&mut self, facts: &Facts<'_>) -> Vec<Look> {
        let mut looks = Vec::new();
        while let Some(source) = self.lines.pop_expired(facts.now) {
            let (rank, stream) = (Rank(source >> 1), Stream::BOTH[(source & 1) as usize]);
            if self.streams.contains_key(&rank) {
                looks.push(Look { rank, stream, why: Why::Line });
            }
        }
        looks
    }

    /// Takes the result of a look.
    pub(super) fn take_seen(&mut self, facts: &Facts<'_>, look: Look, writer: Vec<Task>) {
        match look.why {
            Why::Line => self.review_line(facts, look, &writer),
            Why::Question => self.take_look(facts, look, writer),
        }
    }

    /// Ends an unfinished line whose deadline has passed, if its writer is silent.
    fn review_line(&mut self, facts: &Facts<'_>, look: Look, writer: &[Task]) {
        let Look { rank, stream, .. } = look;
        let now = facts.now;
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        let is_pending = streams.marks(stream).is_some_and(|marks| marks.is_pending());
        let source = streams.source(stream);
        if source.blocked {
            return;
        }
        if is_pending {
            // The rest of the line may be among the bytes that wait for their marks.
            source.line_splitter.resumed(now);
        }
        let is_due = source.line_splitter.deadline().is_some_and(|at| at <= now);
        if is_due && source.line_splitter.is_over(now, writer) {
            return self.end_line(facts, rank, stream);
        }
        if let Some(at) = source.line_splitter.deadline() {
            self.lines.set(source_number(rank, stream), at);
        }
    }

    /// Ends an unfinished line: its time is over, or its stream has ended.
    fn end_line(&mut self, facts: &Facts<'_>, rank: Rank, stream: Stream) {
        let (now, time) = (facts.now, facts.wall);
        let routes = self.outputs.routes(rank, stream);
        let outputs = &mut self.outputs;
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        let source = streams.source(stream);
        if source.is_open && outputs.refusing(routes, rank, stream).is_some() {
            // Another rank has an unfinished line, or the output is full.
            source.line_splitter.resumed(now);
            if let Some(at) = source.line_splitter.deadline() {
                self.lines.set(source_number(rank, stream), at);
            }
            return;
        }
        let label = self.labels.of(rank, stream);
        source.line_splitter.flush(&mut |record| {
            let item = Item::Piece { rank, time, record };
            outputs.accept(now, (routes, stream), label, (&item, None));
        });
    }

    pub(super) fn end_source(&mut self, facts: &Facts<'_>, rank: Rank, stream: Stream) {
        self.lines.stop(source_number(rank, stream));
        let Some(streams) = self.streams.get_mut(&rank) else { return };
        let is_debugged = streams.marks(stream).is_some();
        let source = streams.source(stream);
        source.is_open = false;
        source.ready = false;
        let is_silent = streams.are_silent();
        self.emit(Output::Act(Action::CloseSource(rank, stream)));
        self.end_line(facts, rank, stream);
        if is_debugged {
            // No answer of the debugger is waited for.
            self.take_mark(facts, rank, ENDED);
        }
        let routes = self.outputs.routes(rank, stream);
        let ended = Item::Ended { ranks: alone(rank) };
        self.outputs.accept(facts.now, (routes, stream), &[], (&ended, None));
        if !facts.is_first(rank) {
            self.outputs.end(rank, stream);
        }
        if is_silent {
            self.emit(Output::Ended(rank));
        }
    }

    /// Resumes the sources that the write admission lets in.
    pub(super) fn admit_blocked(&mut self, facts: &Facts<'_>, sink: usize) {
        let blocked = std::mem::take(&mut self.outputs.sinks[sink].blocked);
        for (rank, stream) in blocked {
            let Some(streams) = self.streams.get_mut(&rank) else { continue };
            if self.outputs.sinks[sink].admits(&alone(rank), stream) {
                let source = streams.source(stream);
                source.blocked = false;
                source.line_splitter.resumed(facts.now);
                if let Some(at) = source.line_splitter.deadline() {
                    self.lines.set(source_number(rank, stream), at);
                }
                self.run_source(rank, stream);
            } else {
                self.outputs.sinks[sink].blocked.push((rank, stream));
            }
        }
    }

    // ----- output of child managers -----

    /// Takes records of the child at `tree_index`.
    pub(super) fn take_flow(&mut self, (tree_index, stream): (usize, Stream), bytes: &[u8]) {
        let Some(flow) = self.flows.get_mut(tree_index, stream) else { return };
        if let Err(e) = flow.push(bytes) {
            let problem = format!("its manager broke the protocol: {e}");
            self.emit(Output::Broken(tree_index, problem));
        }
    }

    /// The flows with records of the children. [`Stdio::pass_record`] passes them on.
    pub fn waiting_flows(&self) -> Vec<(usize, Stream)> {
        self.flows.waiting()
    }

    /// Whether a record of a child can be passed on now. A record that was taken or written may have let in another
    /// flow that was checked before.
    pub(super) fn flows_can_proceed(&self) -> bool {
        let admitted = |(tree_index, stream)| {
            let next = self.flows.get(tree_index, stream).and_then(Inflow::peek);
            next.is_some_and(|item| self.outputs.admits(&item, stream))
        };
        self.flows.waiting().into_iter().any(admitted)
    }

    /// Passes on the next record of a flow, if the write admissions let it in.
    pub fn pass_record(
        &mut self,
        facts: &Facts<'_>,
        (tree_index, stream): (usize, Stream),
    ) -> bool {
        let Some(flow) = self.flows.get_mut(tree_index, stream) else { return false };
        let Some(next) = flow.peek().filter(|next| self.outputs.admits(next, stream)) else {
            return false;
        };
        let source = next.source();
        let routes = self.outputs.routes(source.unwrap_or(Rank(0)), stream);
        let label = source.map_or(&[][..], |rank| self.labels.of(rank, stream));
        let Some(item) = flow.pop() else { return false };
        let place = Some((Place::Flow(tree_index, stream), 0));
        self.outputs.accept(facts.now, (routes, stream), label, (&item, place));
        if let Item::Ended { ranks } = &item {
            let spawned = ranks.ranks().filter(|rank| !facts.is_first(*rank));
            spawned.for_each(|rank| self.outputs.end(rank, stream));
        }
        true
    }
}
