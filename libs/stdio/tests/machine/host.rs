//! An owner of the machine without descriptors: pipes and outputs are queues of bytes.

use std::collections::{BTreeMap, VecDeque};

use mpd_stdio::machine::{
    Action, Found, Input, Look, Opened, Output, Read, Stdio, Target, Written,
};
use mpd_wire::{Rank, Stream};

use crate::job::Job;

/// Bytes that a pipe of input holds.
const PIPE: usize = 512;

/// An output pipe of a rank.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) bytes: Vec<u8>,
    pub(crate) has_ended: bool,
}

/// The process of a rank.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) outputs: [Pipe; 2],
    /// Bytes in the pipe of its input.
    pub(crate) input: VecDeque<u8>,
    pub(crate) has_closed_input: bool,
    pub(crate) has_end_of_input: bool,
}

/// An output of the root.
#[derive(Debug, Default)]
pub(crate) struct Console {
    pub(crate) bytes: Vec<u8>,
    /// Bytes that it accepts now.
    pub(crate) room: usize,
}

/// A machine with its ranks and outputs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) machine: Stdio,
    pub(crate) processes: BTreeMap<Rank, Process>,
    pub(crate) console: [Console; 2],
    /// Outputs for other owners.
    pub(crate) sent: VecDeque<Output>,
}

impl Host {
    pub(crate) fn new(job: &Job, number: usize, is_shared: bool) -> Self {
        let machine = Stdio::new(&job.spec, &job.orders[number], is_shared);
        let (processes, console) = (BTreeMap::new(), Default::default());
        let mut host = Self { number, machine, processes, console, sent: VecDeque::new() };
        host.give(job, Input::Going(None));
        let ranks = &job.orders[0].host_slices.get(number).unwrap().ranks;
        let opened = Opened { has_input: true, has_outputs: true, is_debugged: false };
        for rank in ranks.ranks() {
            host.processes.insert(rank, Process::default());
            host.give(job, Input::Opened(rank, opened));
        }
        host
    }

    pub(crate) fn give(&mut self, job: &Job, input: Input) {
        self.machine.handle(&job.facts(self.number), job, input);
        self.settle(job);
    }

    /// A rank writes, and the poll reports it.
    pub(crate) fn write(&mut self, rank: Rank, stream: Stream, bytes: &[u8]) {
        let pipe = &mut self.processes.get_mut(&rank).unwrap().outputs[stream.index()];
        pipe.bytes.extend(bytes);
        self.machine.mark_source(rank, stream, false);
    }

    /// A rank closes an output.
    pub(crate) fn end(&mut self, rank: Rank, stream: Stream) {
        self.processes.get_mut(&rank).unwrap().outputs[stream.index()].has_ended = true;
        self.machine.mark_source(rank, stream, true);
    }

    /// A rank reads its input.
    pub(crate) fn read_input(&mut self, rank: Rank, most: usize) -> Vec<u8> {
        let input = &mut self.processes.get_mut(&rank).unwrap().input;
        let read = input.drain(..most.min(input.len())).collect();
        self.machine.mark_writable(rank);
        read
    }

    /// All stages of a turn, in the order of the manager's loop.
    pub(crate) fn turn(&mut self, job: &Job) {
        let facts = job.facts(self.number);
        self.machine.feed_ready(&facts);
        self.settle(job);
        for _ in 0..self.machine.runnable() {
            self.machine.begin_source();
            self.settle(job);
        }
        for look in self.machine.expired_lines(&facts) {
            self.look(job, look);
        }
        if self.machine.must_catch_up(&facts) {
            self.serve_flows(job);
            self.machine.pass_answers(&facts);
            self.settle(job);
        }
        self.machine.expire_merged(&facts, job);
        self.settle(job);
        self.serve_flows(job);
        self.pass_up(job);
        self.machine.flush();
        self.settle(job);
        self.machine.resume(&facts);
        self.settle(job);
        self.machine.review_drain(&facts);
        self.settle(job);
        self.machine.finish_drain(true);
        self.pass_up(job);
    }

    pub(crate) fn serve_flows(&mut self, job: &Job) {
        for flow in self.machine.waiting_flows() {
            while self.machine.pass_record(&job.facts(self.number), flow) {
                self.settle(job);
            }
        }
    }

    pub(crate) fn pass_up(&mut self, job: &Job) {
        for look in self.machine.asked() {
            self.look(job, look);
        }
        self.machine.pass_up(&job.facts(self.number));
        self.settle(job);
    }

    fn look(&mut self, job: &Job, look: Look) {
        self.machine.begin_look(look);
        self.settle(job);
        self.give(job, Input::Seen(look, Vec::new()));
    }

    /// Performs everything that the machine wants.
    pub(crate) fn settle(&mut self, job: &Job) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                match output {
                    Output::Act(Action::EndInput(rank)) => {
                        self.processes.get_mut(&rank).unwrap().has_end_of_input = true;
                    }
                    Output::Act(Action::CloseSource(..))
                    | Output::Act(Action::CloseSink(_))
                    | Output::Ended(_) => {}
                    output => self.sent.push_back(output),
                }
            }
            if !self.write_some(job) && !self.read_some(job) {
                return;
            }
        }
    }

    fn write_some(&mut self, job: &Job) -> bool {
        let facts = job.facts(self.number);
        let Some((target, bytes)) = self.machine.next_write() else { return false };
        let written = match target {
            Target::Sink(sink) => {
                let console = &mut self.console[sink];
                let count = bytes.len().min(console.room);
                console.bytes.extend_from_slice(&bytes[..count]);
                console.room -= count;
                if count > 0 { Written::Bytes(count) } else { Written::Full }
            }
            Target::Input(rank) => {
                let process = self.processes.get_mut(&rank).unwrap();
                let count = bytes.len().min(PIPE - process.input.len());
                match count {
                    _ if process.has_closed_input => Written::Closed,
                    0 => Written::Full,
                    _ => {
                        process.input.extend(&bytes[..count]);
                        Written::Bytes(count)
                    }
                }
            }
        };
        self.machine.wrote(&facts, target, written);
        true
    }

    fn read_some(&mut self, job: &Job) -> bool {
        let facts = job.facts(self.number);
        match self.machine.next_read(&facts) {
            None => return false,
            Some(Read::Passed) => {}
            Some(Read::Source(rank, stream, room)) => {
                let pipe = &mut self.processes.get_mut(&rank).unwrap().outputs[stream.index()];
                let count = room.len().min(pipe.bytes.len());
                room[..count].copy_from_slice(&pipe.bytes[..count]);
                pipe.bytes.drain(..count);
                let found = match count {
                    0 if !pipe.has_ended => Found::Nothing,
                    count => Found::Bytes(count),
                };
                self.machine.was_read(&facts, found);
            }
        }
        true
    }
}
