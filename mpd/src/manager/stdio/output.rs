//! Output on its way from ranks of this host and from child managers to the outputs.

use std::io::{self, Read as _};

use mpd_io::files::logging::plain;
use mpd_stdio::inflow::Inflow;
use mpd_stdio::record::Item;
use mpd_wire::{Rank, Stream};

use super::Stdio;
use super::marks::{Marks, Next};
use super::sink::{Trouble, alone, source as source_number};
use super::trouble::after_write;
use crate::manager::context::Turn;
use crate::manager::event::{Event, ForRanks};
use crate::manager::links::LinkEnd;

/// Most reads of one source before the next source is read.
const READS_PER_TURN: usize = 4;

/// The last mark of a debugger, after all commands.
const ENDED: &str = "4294967295 ended";

impl Stdio {
    /// Notes an event: a source is readable or has ended.
    pub(in crate::manager) fn mark_source(&mut self, rank: Rank, stream: Stream, has_ended: bool) {
        if let Some(pipes) = self.pipes.get_mut(&rank) {
            let source = pipes.source(stream);
            source.ready = true;
            source.ending |= has_ended;
            self.run_source(rank, stream);
        }
    }

    /// Queues a source that is readable and admitted.
    pub(super) fn run_source(&mut self, rank: Rank, stream: Stream) {
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let source = pipes.source(stream);
        if source.ready && !source.blocked && !source.queued {
            source.queued = true;
            self.runnable.push_back((rank, stream));
        }
    }

    /// Reads a bounded amount from each queued source.
    pub(in crate::manager) fn serve_sources(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.runnable.len() {
            let Some((rank, stream)) = self.runnable.pop_front() else { return };
            if let Some(pipes) = self.pipes.get_mut(&rank) {
                pipes.source(stream).queued = false;
                self.serve_source(turn, rank, stream);
            }
        }
    }

    /// A mark of a rank's debugger came, with the number of bytes of output before it.
    pub(in crate::manager) fn add_mark(&mut self, rank: Rank, mark: (u64, String)) {
        let marks = self.pipes.get_mut(&rank).and_then(|pipes| pipes.marks(Stream::Out));
        marks.into_iter().for_each(|marks| marks.add(mark.clone()));
        self.mark_source(rank, Stream::Out, false);
    }

    /// All marks that belong into the output of a rank that was read so far have come. The output is passed on at
    /// once: it would otherwise be late for equal lines of other ranks.
    pub(in crate::manager) fn marks_read(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let marks = self.pipes.get_mut(&rank).and_then(|pipes| pipes.marks(Stream::Out));
        marks.into_iter().for_each(Marks::are_known);
        while self.admits(rank, Stream::Out) {
            match self.serve_marks(turn, rank, Stream::Out) {
                Next::Bytes(_) | Next::Mark(_) => {}
                Next::End => return self.end_source(turn, rank, Stream::Out),
                Next::Wait | Next::Read => break,
            }
        }
        self.mark_source(rank, Stream::Out, false);
    }

    /// Whether the output of a source lets it write. Otherwise the source waits.
    fn admits(&mut self, rank: Rank, stream: Stream) -> bool {
        let Some(pipes) = self.pipes.get_mut(&rank) else { return false };
        let source = pipes.source(stream);
        if source.pipe.is_none() || source.blocked {
            return false;
        }
        let routes = self.outputs.routes(rank, stream);
        let Some(sink) = self.outputs.refusing(routes, rank, stream) else { return true };
        source.blocked = true;
        self.outputs.sinks[sink].blocked.push((rank, stream));
        self.lines.stop(source_number(rank, stream));
        false
    }

    /// Passes on the next bytes or the next mark of a stream with marks. Returns [`Next::Read`] for other streams.
    fn serve_marks(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) -> Next {
        let pipes = self.pipes.get_mut(&rank);
        let Some(marks) = pipes.and_then(|pipes| pipes.marks(stream)) else { return Next::Read };
        let next = marks.next();
        match &next {
            Next::Bytes(count) => {
                let count = *count.min(&self.buffer.len());
                marks.pass(count, &mut self.buffer);
                self.take_output(turn, rank, stream, count);
            }
            Next::Mark(text) => {
                self.take_mark(turn, rank, text);
                turn.report(ForRanks::MarkTaken(rank));
            }
            Next::Wait | Next::Read | Next::End => {}
        }
        next
    }

    /// Passes a mark to the console as a line of the rank's output.
    fn take_mark(&mut self, turn: &mut Turn<'_>, rank: Rank, text: &str) {
        let line = format!("={text}\n");
        let count = line.len().min(self.buffer.len());
        self.buffer[..count].copy_from_slice(&line.as_bytes()[..count]);
        self.take_output(turn, rank, Stream::Out, count);
    }

    pub(super) fn serve_source(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let routes = self.outputs.routes(rank, stream);
        for _ in 0..READS_PER_TURN {
            let Some(pipes) = self.pipes.get_mut(&rank) else { return };
            if !pipes.source(stream).ready || !self.admits(rank, stream) {
                return;
            }
            match self.serve_marks(turn, rank, stream) {
                Next::Bytes(_) | Next::Mark(_) => continue,
                Next::Wait => return,
                Next::End => return self.end_source(turn, rank, stream),
                Next::Read => {}
            }
            let Some(pipes) = self.pipes.get_mut(&rank) else { return };
            let most = self.buffer.len().min(self.outputs.at_once(routes));
            let Some(pipe) = &mut pipes.source(stream).pipe else { return };
            let result = pipe.read(&mut self.buffer[..most]);
            if let Ok(n) = result
                && let Some(marks) = pipes.marks(stream)
            {
                // Marks may belong between these bytes.
                marks.was_read(&self.buffer[..n]);
                pipes.source(stream).note_read(n);
                return turn.report(ForRanks::ReadMarks(rank));
            }
            let source = pipes.source(stream);
            match result {
                Ok(0) => return self.end_source(turn, rank, stream),
                Ok(n) => {
                    // A short read has emptied the pipe. New data makes a new event.
                    source.ready = n == most || source.ending;
                    source.note_read(n);
                    self.take_output(turn, rank, stream, n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    source.ready = false;
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    // The rest of the output is lost.
                    let name = match stream {
                        Stream::Out => "output",
                        Stream::Err => "error",
                    };
                    let problem = format!(
                        "cannot read the standard {name} of rank {}: {}",
                        rank.0,
                        plain(&e)
                    );
                    after_write(turn, Some(Trouble::Failed(problem)));
                    return self.end_source(turn, rank, stream);
                }
            }
        }
        self.run_source(rank, stream);
    }

    /// Passes on `n` bytes of the buffer.
    fn take_output(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream, n: usize) {
        let now = turn.now();
        let routes = self.outputs.routes(rank, stream);
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let outputs = &mut self.outputs;
        let line_splitter = &mut pipes.source(stream).line_splitter;
        let label = self.labels.of(rank, stream);
        let time = turn.job.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        line_splitter.push(now, &self.buffer[..n], &mut |record| {
            let item = Item::Piece { rank, time, record };
            let result = outputs.accept(now, (routes, stream), label, &item);
            trouble = trouble.take().or(result);
        });
        match line_splitter.deadline() {
            Some(at) => self.lines.set(source_number(rank, stream), at),
            None => self.lines.stop(source_number(rank, stream)),
        }
        after_write(turn, trouble);
    }

    /// Handles the deadline of an unfinished line. The pipe is read after the look at the writer: the rank is silent
    /// if it waited then and had written nothing, however slow this process is.
    pub(super) fn expire_line(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let writer = pipes.writer();
        pipes.source(stream).ready = true;
        self.serve_source(turn, rank, stream);
        let now = turn.now();
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let is_pending = pipes.marks(stream).is_some_and(|marks| marks.is_pending());
        let source = pipes.source(stream);
        if source.blocked {
            return;
        }
        if is_pending {
            // The rest of the line may be among the bytes that wait for their marks.
            source.line_splitter.resumed(now);
        }
        let is_due = source.line_splitter.deadline().is_some_and(|at| at <= now);
        if is_due && source.line_splitter.is_over(now, &writer) {
            return self.end_line(turn, rank, stream);
        }
        if let Some(at) = source.line_splitter.deadline() {
            self.lines.set(source_number(rank, stream), at);
        }
    }

    /// Ends an unfinished line: its time is over, or its stream has ended.
    fn end_line(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let now = turn.now();
        let routes = self.outputs.routes(rank, stream);
        let outputs = &mut self.outputs;
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let source = pipes.source(stream);
        if source.pipe.is_some() && outputs.refusing(routes, rank, stream).is_some() {
            // Another rank has an unfinished line, or the output is full.
            source.line_splitter.resumed(now);
            if let Some(at) = source.line_splitter.deadline() {
                self.lines.set(source_number(rank, stream), at);
            }
            return;
        }
        let label = self.labels.of(rank, stream);
        let time = turn.job.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        source.line_splitter.flush(&mut |record| {
            let item = Item::Piece { rank, time, record };
            trouble = outputs.accept(now, (routes, stream), label, &item);
        });
        after_write(turn, trouble);
    }

    pub(super) fn end_source(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        self.lines.stop(source_number(rank, stream));
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let is_debugged = pipes.marks(stream).is_some();
        let source = pipes.source(stream);
        source.pipe = None;
        source.ready = false;
        let is_silent = pipes.are_silent();
        self.end_line(turn, rank, stream);
        if is_debugged {
            // No answer of the debugger is waited for.
            self.take_mark(turn, rank, ENDED);
        }
        let routes = self.outputs.routes(rank, stream);
        let ended = Item::Ended { ranks: alone(rank) };
        let trouble = self.outputs.accept(turn.now(), (routes, stream), &[], &ended);
        after_write(turn, trouble);
        if !turn.job.is_first(rank) {
            self.outputs.end(rank, stream);
        }
        if is_silent {
            turn.report(ForRanks::OutputEnded(rank));
        }
    }

    /// Resumes the sources that the write admission lets in.
    pub(super) fn admit_blocked(&mut self, turn: &Turn<'_>, sink: usize) {
        let now = turn.now();
        let blocked = std::mem::take(&mut self.outputs.sinks[sink].blocked);
        for (rank, stream) in blocked {
            let Some(pipes) = self.pipes.get_mut(&rank) else { continue };
            if self.outputs.sinks[sink].admits(&alone(rank), stream) {
                let source = pipes.source(stream);
                source.blocked = false;
                source.line_splitter.resumed(now);
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
    pub(in crate::manager) fn take_flow(
        &mut self,
        turn: &mut Turn<'_>,
        (tree_index, stream): (usize, Stream),
        bytes: &[u8],
    ) {
        let Some(flow) = self.flows.get_mut(tree_index, stream) else { return };
        if let Err(e) = flow.push(bytes) {
            let problem = format!("its manager broke the protocol: {e}");
            turn.report(Event::Broken(LinkEnd::Child(tree_index), problem));
        }
    }

    /// Passes on records of the children, as far as the write admissions let them in.
    pub(in crate::manager) fn serve_flows(&mut self, turn: &mut Turn<'_>) {
        for (tree_index, stream) in self.flows.waiting() {
            self.serve_flow(turn, tree_index, stream);
        }
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

    fn serve_flow(&mut self, turn: &mut Turn<'_>, tree_index: usize, stream: Stream) {
        let now = turn.now();
        let mut trouble = None;
        let Some(flow) = self.flows.get_mut(tree_index, stream) else { return };
        while let Some(next) = flow.peek() {
            if !self.outputs.admits(&next, stream) {
                break;
            }
            let source = next.source();
            let routes = self.outputs.routes(source.unwrap_or(Rank(0)), stream);
            let label = source.map_or(&[][..], |rank| self.labels.of(rank, stream));
            let Some(item) = flow.pop() else { break };
            let result = self.outputs.accept(now, (routes, stream), label, &item);
            if let Item::Ended { ranks } = &item {
                let spawned = ranks.ranks().filter(|rank| !turn.job.is_first(*rank));
                spawned.for_each(|rank| self.outputs.end(rank, stream));
            }
            trouble = trouble.or(result);
        }
        after_write(turn, trouble);
    }
}
