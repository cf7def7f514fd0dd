//! Output on its way from ranks of this host, and from managers below, to the outputs.

use std::io::{self, Read as _};

use mpd_job::manager::Input;
use mpd_stdio::inflow::Inflow;
use mpd_stdio::record::Item;
use mpd_wire::{Rank, Stream};

use super::Stdio;
use super::sink::{Trouble, alone, source as source_number};
use crate::manager::context::Turn;
use crate::manager::event::{Event, ForLinks};
use crate::manager::links::End;

/// Reads of one source in a row before the next one's turn.
const READS_PER_TURN: usize = 4;

/// The last mark of a driver, whatever it was asked.
const ENDED: &[u8] = b"=4294967295 ended\n";

impl Stdio {
    /// An event says that a source can be read, or has ended.
    pub(in crate::manager) fn mark_source(&mut self, rank: Rank, stream: Stream, has_ended: bool) {
        if let Some(pipes) = self.pipes.get_mut(&rank) {
            let source = pipes.source(stream);
            source.ready = true;
            source.ending |= has_ended;
            self.run_source(rank, stream);
        }
    }

    /// A source became readable, or its gate opened.
    pub(super) fn run_source(&mut self, rank: Rank, stream: Stream) {
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let source = pipes.source(stream);
        if source.ready && !source.blocked && !source.queued {
            source.queued = true;
            self.runnable.push_back((rank, stream));
        }
    }

    /// Reads each source that may be read, a bounded amount.
    pub(in crate::manager) fn serve_sources(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.runnable.len() {
            let Some((rank, stream)) = self.runnable.pop_front() else { return };
            if let Some(pipes) = self.pipes.get_mut(&rank) {
                pipes.source(stream).queued = false;
                self.serve_source(turn, rank, stream);
            }
        }
    }

    fn serve_source(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let route = self.outputs.route(rank, stream);
        for _ in 0..READS_PER_TURN {
            let Some(pipes) = self.pipes.get_mut(&rank) else { return };
            let source = pipes.source(stream);
            if !source.ready {
                return;
            }
            let Some(pipe) = &mut source.pipe else { return };
            if source.blocked {
                return;
            }
            if !self.outputs.sinks[route].admits(&alone(rank), stream) {
                source.blocked = true;
                self.lines.stop(source_number(rank, stream));
                self.outputs.sinks[route].blocked.push((rank, stream));
                return;
            }
            let most = self.buffer.len().min(self.outputs.sinks[route].at_once());
            match pipe.read(&mut self.buffer[..most]) {
                Ok(0) => return self.end_source(turn, rank, stream),
                Ok(n) => {
                    // A short read emptied the pipe; what comes later makes a new event.
                    source.ready = n == most || source.ending;
                    source.taken += n as u64;
                    self.take_output(turn, rank, stream, n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    source.ready = false;
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.end_source(turn, rank, stream),
            }
        }
        self.run_source(rank, stream);
    }

    /// Passes on `n` bytes that are in the buffer.
    fn take_output(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream, n: usize) {
        let now = turn.now();
        let route = self.outputs.route(rank, stream);
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let sink = &mut self.outputs.sinks[route];
        let leaf = &mut pipes.source(stream).leaf;
        let label = self.labels.of(rank);
        let time = turn.job.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        leaf.push(now, &self.buffer[..n], &mut |record| {
            let told = sink.accept(now, stream, label, &Item::Piece { rank, time, record });
            trouble = trouble.take().or(told);
        });
        match leaf.deadline() {
            Some(at) => self.lines.set(source_number(rank, stream), at),
            None => self.lines.stop(source_number(rank, stream)),
        }
        after_write(turn, trouble);
    }

    /// The deadline of an unfinished line passed. What waits in the pipe comes first: if we were slow,
    /// its rank was not silent.
    pub(super) fn line_is_due(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        pipes.source(stream).ready = true;
        self.serve_source(turn, rank, stream);
        let now = turn.now();
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        if pipes.source(stream).blocked {
            return;
        }
        let is_due = pipes.source(stream).leaf.deadline().is_some_and(|at| at <= now);
        if is_due {
            let writer = pipes.writer();
            if pipes.source(stream).leaf.is_over(now, writer) {
                return self.end_line(turn, rank, stream);
            }
        }
        if let Some(at) = pipes.source(stream).leaf.deadline() {
            self.lines.set(source_number(rank, stream), at);
        }
    }

    /// Ends an unfinished line: its time is over or nothing more comes.
    fn end_line(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        let now = turn.now();
        let route = self.outputs.route(rank, stream);
        let sink = &mut self.outputs.sinks[route];
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let source = pipes.source(stream);
        if source.pipe.is_some() && !sink.admits(&alone(rank), stream) {
            // Another rank is in the middle of its line, or the output is full.
            source.leaf.resumed(now);
            if let Some(at) = source.leaf.deadline() {
                self.lines.set(source_number(rank, stream), at);
            }
            return;
        }
        let label = self.labels.of(rank);
        let time = turn.job.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        source.leaf.flush(&mut |record| {
            trouble = sink.accept(now, stream, label, &Item::Piece { rank, time, record });
        });
        after_write(turn, trouble);
    }

    pub(super) fn end_source(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) {
        self.lines.stop(source_number(rank, stream));
        let Some(pipes) = self.pipes.get_mut(&rank) else { return };
        let is_driver = pipes.is_driver();
        let source = pipes.source(stream);
        source.pipe = None;
        source.ready = false;
        let is_silent = pipes.are_silent();
        self.end_line(turn, rank, stream);
        if stream == Stream::Out && is_driver {
            // Whether the driver has said that or not: its answer is not waited for.
            self.buffer[..ENDED.len()].copy_from_slice(ENDED);
            self.take_output(turn, rank, Stream::Out, ENDED.len());
        }
        let route = self.outputs.route(rank, stream);
        let ended = Item::Ended { ranks: alone(rank) };
        let trouble = self.outputs.sinks[route].accept(turn.now(), stream, &[], &ended);
        after_write(turn, trouble);
        if !turn.job.is_first(rank) {
            self.outputs.end(rank, stream);
        }
        if is_silent {
            turn.report(Event::Silent(rank));
        }
    }

    /// Lets those sources be read whose gate is open again.
    pub(super) fn admit_blocked(&mut self, turn: &Turn<'_>, sink: usize) {
        let now = turn.now();
        let blocked = std::mem::take(&mut self.outputs.sinks[sink].blocked);
        for (rank, stream) in blocked {
            let Some(pipes) = self.pipes.get_mut(&rank) else { continue };
            if self.outputs.sinks[sink].admits(&alone(rank), stream) {
                let source = pipes.source(stream);
                source.blocked = false;
                source.leaf.resumed(now);
                if let Some(at) = source.leaf.deadline() {
                    self.lines.set(source_number(rank, stream), at);
                }
                self.run_source(rank, stream);
            } else {
                self.outputs.sinks[sink].blocked.push((rank, stream));
            }
        }
    }

    // ----- output of the managers below -----

    /// Records came from the manager at `place`.
    pub(in crate::manager) fn take_flow(
        &mut self,
        turn: &mut Turn<'_>,
        (place, stream): (usize, Stream),
        bytes: &[u8],
    ) {
        let Some(flow) = self.flows.get_mut(place, stream) else { return };
        if let Err(e) = flow.push(bytes) {
            let problem = format!("its manager broke the protocol: {e}");
            turn.report(ForLinks::Broken(End::Child(place), problem));
        }
    }

    /// Passes on what the managers below sent, as far as the gates let it in.
    pub(in crate::manager) fn serve_flows(&mut self, turn: &mut Turn<'_>) {
        for (place, stream) in self.flows.waiting() {
            self.serve_flow(turn, place, stream);
        }
    }

    /// Whether something that came from below may be passed on now: what was taken of one flow, or
    /// written, can have opened the gate to another that was looked at before.
    pub(super) fn flows_may_go_on(&self) -> bool {
        let admitted = |(place, stream)| {
            let next = self.flows.get(place, stream).and_then(Inflow::peek);
            next.is_some_and(|item| self.outputs.admits(&item, stream))
        };
        self.flows.waiting().into_iter().any(admitted)
    }

    fn serve_flow(&mut self, turn: &mut Turn<'_>, place: usize, stream: Stream) {
        let now = turn.now();
        let mut trouble = None;
        let Some(flow) = self.flows.get_mut(place, stream) else { return };
        while let Some(next) = flow.peek() {
            if !self.outputs.admits(&next, stream) {
                break;
            }
            let source = next.source();
            let route = self.outputs.route(source.unwrap_or(Rank(0)), stream);
            let sink = &mut self.outputs.sinks[route];
            let label = source.map_or(&[][..], |rank| self.labels.of(rank));
            let Some(item) = flow.pop() else { break };
            let told = sink.accept(now, stream, label, &item);
            if let Item::Ended { ranks } = &item {
                let spawned = ranks.ranks().filter(|rank| !turn.job.is_first(*rank));
                spawned.for_each(|rank| self.outputs.end(rank, stream));
            }
            trouble = trouble.or(told);
        }
        after_write(turn, trouble);
    }
}

/// What a write found out about its output.
pub(super) fn after_write(turn: &mut Turn<'_>, trouble: Option<Trouble>) {
    match trouble {
        // Errors that are read no more: not a reason to end a job.
        None | Some(Trouble::Closed(Stream::Err)) => {}
        Some(Trouble::Closed(Stream::Out)) => turn.post(Input::OutputClosed),
        Some(Trouble::Failed(problem)) => turn.post(Input::OutputFailed(problem)),
    }
}
