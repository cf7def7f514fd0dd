//! The manager's pumps: ranks' pipes to outputs, the console's input to the ranks that take it.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mpd_proto::job::{JobSpec, LabelFormat};
use mpd_proto::manager::Input;
use mpd_proto::message::{JobInput, JobNews, StartJob};
use mpd_proto::stdio::Stream;
use mpd_proto::stdio::feed::Receiver;
use mpd_proto::stdio::input::Stdin;
use mpd_proto::{Rank, Time};

use super::links::Heard;
use super::outputs::{Trouble, source as source_number};
use super::{Process, Timer};

/// Reads of one source in a row before the next one's turn.
const READS_PER_TURN: usize = 4;

impl Process {
    pub(super) fn serve_console(&mut self) {
        if !std::mem::take(&mut self.links.console_ready) || !self.links.console_is_open() {
            return;
        }
        let (heard, open) = self.links.hear_console();
        for word in heard {
            match word {
                Heard::Input(input) => self.tell(match input {
                    JobInput::Signal { signal } => Input::Signal(signal),
                    JobInput::Interrupt => Input::Interrupt,
                    JobInput::HangUp => Input::HangUp,
                    JobInput::Suspend => Input::Suspend,
                    JobInput::Resume => Input::Resume,
                }),
                Heard::Stdin(bytes) if bytes.is_empty() => {
                    self.feed.end();
                    self.feed_all();
                }
                Heard::Stdin(bytes) => match self.feed.push(&bytes) {
                    Ok(()) => self.feed_all(),
                    Err(e) => log::warn!("the console sent {e}"),
                },
            }
        }
        if !open {
            self.tell(Input::ConsoleLost);
        }
    }

    // ----- input -----

    fn feed_all(&mut self) {
        let receivers: Vec<Receiver> = self.feed.receivers().collect();
        for receiver in receivers {
            if let Receiver::Rank(rank) = receiver {
                self.feed_rank(rank);
            }
        }
        self.offer_credit();
    }

    /// Writes to a rank what its pipe takes; closes the pipe after the last byte.
    pub(super) fn feed_rank(&mut self, rank: Rank) {
        let Some(client) = self.clients.get_mut(rank.index()) else { return };
        let Some(pipe) = &mut client.stdin else { return };
        let receiver = Receiver::Rank(rank);
        loop {
            match self.feed.next(receiver) {
                Some(Stdin::Bytes(bytes)) => match pipe.write(bytes) {
                    Ok(n) => self.feed.took(receiver, n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return self.end_feeding(rank),
                },
                Some(Stdin::End) => {
                    client.stdin = None;
                    self.feed.told(receiver);
                    break;
                }
                Some(Stdin::Switch(_)) | None => break,
            }
        }
        self.offer_credit();
    }

    /// The rank takes no more input.
    pub(super) fn end_feeding(&mut self, rank: Rank) {
        if let Some(client) = self.clients.get_mut(rank.index()) {
            client.stdin = None;
        }
        self.feed.drop_out(Receiver::Rank(rank));
        if self.feed.take_unwanted().is_some() {
            self.links.console.send(&JobNews::StdinUnwanted);
        }
        self.offer_credit();
    }

    pub(super) fn offer_credit(&mut self) {
        if let Some(bytes) = self.feed.take_credit() {
            self.links.console.send(&JobNews::StdinCredit { bytes });
        }
    }

    // ----- output -----

    /// A source became readable, or its gate opened.
    pub(super) fn run_source(&mut self, rank: Rank, stream: Stream) {
        let source = &mut self.clients[rank.index()].sources[stream.index()];
        if source.ready && !source.blocked && !source.queued {
            source.queued = true;
            self.runnable.push_back((rank, stream));
        }
    }

    pub(super) fn serve_sources(&mut self) {
        for _ in 0..self.runnable.len() {
            if let Some((rank, stream)) = self.runnable.pop_front() {
                self.clients[rank.index()].sources[stream.index()].queued = false;
                self.serve_source(rank, stream);
            }
        }
    }

    fn serve_source(&mut self, rank: Rank, stream: Stream) {
        let route = self.outputs.route(rank, stream);
        for _ in 0..READS_PER_TURN {
            let source = &mut self.clients[rank.index()].sources[stream.index()];
            if !source.ready {
                return;
            }
            let Some(pipe) = &mut source.pipe else { return };
            if source.blocked {
                return;
            }
            if !self.outputs.sinks[route].admits(rank, stream) {
                source.blocked = true;
                self.timers.stop(Timer::Line(source_number(rank, stream)));
                self.outputs.sinks[route].blocked.push((rank, stream));
                return;
            }
            let most = self.buffer.len().min(self.outputs.sinks[route].at_once());
            match pipe.read(&mut self.buffer[..most]) {
                Ok(0) => return self.end_source(rank, stream),
                Ok(n) => {
                    // A short read emptied the pipe; what comes later makes a new event.
                    source.ready = n == most || source.ending;
                    self.take_output(rank, stream, n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    source.ready = false;
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.end_source(rank, stream),
            }
        }
        self.run_source(rank, stream);
    }

    /// Passes on `n` bytes that are in the buffer.
    fn take_output(&mut self, rank: Rank, stream: Stream, n: usize) {
        let now = self.now();
        let route = self.outputs.route(rank, stream);
        let sink = &mut self.outputs.sinks[route];
        let leaf = &mut self.clients[rank.index()].sources[stream.index()].leaf;
        let label = &self.labels[rank.index()];
        let mut trouble = None;
        leaf.push(now, &self.buffer[..n], &mut |record| {
            let told = sink.accept(now, (rank, stream), label, record);
            trouble = trouble.take().or(told);
        });
        match leaf.deadline() {
            Some(at) => self.timers.set(Timer::Line(source_number(rank, stream)), at),
            None => self.timers.stop(Timer::Line(source_number(rank, stream))),
        }
        self.after_write(trouble);
    }

    /// The deadline of an unfinished line passed. What waits in the pipe comes first: if we were slow,
    /// its rank was not silent.
    pub(super) fn line_is_due(&mut self, rank: Rank, stream: Stream) {
        self.clients[rank.index()].sources[stream.index()].ready = true;
        self.serve_source(rank, stream);
        let now = self.now();
        let source = &self.clients[rank.index()].sources[stream.index()];
        match source.leaf.deadline() {
            Some(at) if at <= now && !source.blocked => self.end_line(rank, stream),
            Some(at) if !source.blocked => {
                self.timers.set(Timer::Line(source_number(rank, stream)), at)
            }
            _ => {}
        }
    }

    /// Ends an unfinished line: its time is over or nothing more comes.
    pub(super) fn end_line(&mut self, rank: Rank, stream: Stream) {
        let now = self.now();
        let route = self.outputs.route(rank, stream);
        let sink = &mut self.outputs.sinks[route];
        let source = &mut self.clients[rank.index()].sources[stream.index()];
        if source.pipe.is_some() && !sink.admits(rank, stream) {
            // Another rank is in the middle of its line, or the output is full.
            source.leaf.resumed(now);
            if let Some(at) = source.leaf.deadline() {
                self.timers.set(Timer::Line(source_number(rank, stream)), at);
            }
            return;
        }
        let label = &self.labels[rank.index()];
        let mut trouble = None;
        source.leaf.flush(&mut |record| {
            trouble = sink.accept(now, (rank, stream), label, record);
        });
        self.after_write(trouble);
    }

    fn end_source(&mut self, rank: Rank, stream: Stream) {
        self.timers.stop(Timer::Line(source_number(rank, stream)));
        let source = &mut self.clients[rank.index()].sources[stream.index()];
        source.pipe = None;
        source.ready = false;
        self.end_line(rank, stream);
        let route = self.outputs.route(rank, stream);
        let trouble = self.outputs.sinks[route].end(rank, stream);
        self.after_write(trouble);
    }

    fn after_write(&mut self, trouble: Option<Trouble>) {
        match trouble {
            // Nobody reads errors any more: not a reason to end a job.
            None | Some(Trouble::Closed(Stream::Err)) => {}
            Some(Trouble::Closed(Stream::Out)) => self.tell(Input::OutputClosed),
            Some(Trouble::Failed(problem)) => self.tell(Input::OutputFailed(problem)),
        }
    }

    /// Writes what waits and lets those read whose gate is open again.
    pub(super) fn flush_outputs(&mut self) {
        for i in 0..self.outputs.sinks.len() {
            let trouble = self.outputs.sinks[i].flush();
            self.after_write(trouble);
            self.admit_blocked(i);
        }
    }

    fn admit_blocked(&mut self, sink: usize) {
        let now = self.now();
        let blocked = std::mem::take(&mut self.outputs.sinks[sink].blocked);
        for (rank, stream) in blocked {
            if self.outputs.sinks[sink].admits(rank, stream) {
                let source = &mut self.clients[rank.index()].sources[stream.index()];
                source.blocked = false;
                source.leaf.resumed(now);
                if let Some(at) = source.leaf.deadline() {
                    self.timers.set(Timer::Line(source_number(rank, stream)), at);
                }
                self.run_source(rank, stream);
            } else {
                self.outputs.sinks[sink].blocked.push((rank, stream));
            }
        }
    }

    pub(super) fn expire_outputs(&mut self, now: Time) {
        for i in 0..self.outputs.sinks.len() {
            if self.outputs.sinks[i].deadline().is_some_and(|at| at <= now) {
                let trouble = self.outputs.sinks[i].handle_timeout(now);
                self.after_write(trouble);
            }
        }
    }

    /// No process of the job lives: what is in the pipes now is all there is.
    pub(super) fn start_draining(&mut self) {
        self.draining = true;
        for client in 0..self.clients.len() {
            let rank = Rank(u32::try_from(client).unwrap_or(u32::MAX));
            for stream in Stream::BOTH {
                let source = &mut self.clients[client].sources[stream.index()];
                source.ready = true;
                source.ending = true;
                self.run_source(rank, stream);
            }
        }
    }

    pub(super) fn is_drained(&mut self) -> bool {
        let unread = |c: &super::Client| c.sources.iter().any(|s| s.pipe.is_some() && s.ready);
        if self.clients.iter().any(unread) {
            return false;
        }
        // A pipe that somebody outside the job holds open has no end; what was in it has been read.
        for client in 0..self.clients.len() {
            let rank = Rank(u32::try_from(client).unwrap_or(u32::MAX));
            for stream in Stream::BOTH {
                if self.clients[client].sources[stream.index()].pipe.is_some() {
                    self.end_source(rank, stream);
                }
            }
        }
        self.outputs.are_empty()
    }

    pub(super) fn label_of(&self, rank: Rank, pid: u32) -> Vec<u8> {
        let Some(format) = &self.spec.output.label else { return Vec::new() };
        fill(format, &self.spec, &self.order, rank, pid)
    }
}

fn fill(format: &LabelFormat, spec: &JobSpec, order: &StartJob, rank: Rank, pid: u32) -> Vec<u8> {
    format.fill(|field| match field {
        b'r' => rank.to_string().into_bytes(),
        b'h' => order.host.clone().into_bytes(),
        b'p' => pid.to_string().into_bytes(),
        b'j' => order.job.to_string().into_bytes(),
        _ => spec.alias.clone().unwrap_or_default().into_bytes(),
    })
}

/// The file, and its mode, that a stream of a rank goes to instead of the console's output. Relative names are seen
/// from the directory of the first program, which is where `mpirun` was started unless told otherwise.
pub(super) fn file_of(
    spec: &JobSpec,
    order: &StartJob,
    rank: Rank,
    stream: Stream,
) -> Option<(PathBuf, u32)> {
    let pattern = match stream {
        Stream::Out => spec.output.outfile.as_ref()?,
        Stream::Err => spec.output.errfile.as_ref()?,
    };
    let name = fill(pattern, spec, order, rank, 0);
    let argset = &spec.argsets[spec.argset_of(rank)];
    let path = Path::new(OsStr::from_bytes(&argset.directory)).join(OsStr::from_bytes(&name));
    Some((path, 0o666 & !argset.umask))
}
