//! The manager's pumps: ranks' pipes to outputs, the console's input to the ranks that take it.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use mpd_job::manager::Input;
use mpd_machine::Time;
use mpd_stdio::feed::{Feed, Receiver, WINDOW};
use mpd_stdio::hostlabel::HostLabels;
use mpd_stdio::inflow::Inflow;
use mpd_stdio::input::Stdin;
use mpd_stdio::leaf::Writer;
use mpd_stdio::record::Item;
use mpd_wire::job::{JobSpec, LabelFormat, OutputSpec, Parts, World};
use mpd_wire::message::{JobInput, JobNews, StartJob, TreeKind, Up};
use mpd_wire::{Rank, RankSet, Stream};

use super::branches::End;
use super::clients::{Client, Held};
use super::console::Heard;
use super::files::Wanted;
use super::outputs::Outputs;
use super::sink::{Sink, Trouble, alone, source as source_number};
use super::{FIRST_OUTPUT, Process, Timer, start};

/// Reads of one source in a row before the next one's turn.
const READS_PER_TURN: usize = 4;

impl Process {
    pub(super) fn serve_console(&mut self) {
        if !self.console.has_work() {
            return;
        }
        let (heard, open) = self.console.hear();
        for word in heard {
            match word {
                Heard::Input(input) => self.post(match input {
                    JobInput::Signal { signal } => Input::Signal(signal),
                    JobInput::Resize { columns, lines } => Input::Resize(columns, lines),
                    JobInput::Interrupt => Input::Interrupt,
                    JobInput::HangUp => Input::HangUp,
                    JobInput::Suspend => Input::Suspend,
                    JobInput::Resume => Input::Resume,
                    JobInput::Debug { ranks, line } => Input::Debug(ranks, line),
                    JobInput::Restart => Input::Restart,
                    JobInput::GoOn => Input::GoOn,
                }),
                Heard::Stdin(bytes) if bytes.is_empty() => self.take_input(&Stdin::End),
                Heard::Stdin(bytes) => self.take_input(&Stdin::Bytes(&bytes)),
            }
        }
        if !open {
            self.post(Input::ConsoleLost);
        }
    }

    // ----- input -----

    /// Input from the manager above.
    pub(super) fn take_stdin(&mut self, payload: &[u8]) {
        match Stdin::decode(payload) {
            Ok(input) => self.take_input(&input),
            Err(e) => log::warn!("the manager above sent {e}"),
        }
    }

    pub(super) fn take_input(&mut self, input: &Stdin<'_>) {
        match input {
            Stdin::Bytes(bytes) => {
                if let Err(e) = self.feed.push(bytes) {
                    log::warn!("standard input: {e}");
                }
            }
            Stdin::Switch(ranks) => {
                let receivers = receivers(&self.order, ranks);
                if let Err(e) = self.feed.switch(ranks, receivers) {
                    log::warn!("standard input: {e}");
                }
            }
            Stdin::End => self.feed.end(),
        }
        self.feed_all();
    }

    fn feed_all(&mut self) {
        let receivers: Vec<Receiver> = self.feed.receivers().collect();
        for receiver in receivers {
            self.feed_one(receiver);
        }
        self.offer_credit();
    }

    pub(super) fn feed_one(&mut self, receiver: Receiver) {
        match receiver {
            Receiver::Rank(rank) => self.feed_rank(rank),
            Receiver::Below(place) => self.feed_below(place),
        }
        self.offer_credit();
    }

    /// Writes to a rank what its pipe takes; closes the pipe after the last byte.
    fn feed_rank(&mut self, rank: Rank) {
        let receiver = Receiver::Rank(rank);
        let Some(client) = self.clients.get_mut(rank) else { return };
        let Some(pipe) = &mut client.stdin else { return self.end_feeding(receiver) };
        loop {
            match self.feed.next(receiver) {
                Some(Stdin::Bytes(bytes)) => match pipe.write(bytes) {
                    Ok(n) => self.feed.took(receiver, n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => return self.end_feeding(receiver),
                },
                Some(Stdin::Switch(_)) => self.feed.told(receiver),
                Some(Stdin::End) => {
                    client.stdin = None;
                    return self.feed.told(receiver);
                }
                None => return,
            }
        }
    }

    /// Sends to a manager below what it has given credit for.
    fn feed_below(&mut self, place: usize) {
        let receiver = Receiver::Below(place);
        while let Some(input) = self.feed.next(receiver) {
            self.branches.send_bytes(End::Child(place), TreeKind::Stdin, &input.encode());
            match input {
                Stdin::Bytes(bytes) => {
                    let length = bytes.len();
                    self.feed.took(receiver, length);
                }
                Stdin::Switch(_) | Stdin::End => self.feed.told(receiver),
            }
        }
    }

    /// The receiver takes no more input.
    pub(super) fn end_feeding(&mut self, receiver: Receiver) {
        if let Receiver::Rank(rank) = receiver
            && let Some(client) = self.clients.get_mut(rank)
        {
            client.stdin = None;
            // No input is for spawned ranks, and there is no end of them: the feed need not remember each.
            if rank.0 >= self.spec.size() {
                return;
            }
        }
        self.feed.drop_out(receiver);
        self.offer_credit();
    }

    /// Tells whoever sends input what may come, or that nobody takes it.
    pub(super) fn offer_credit(&mut self) {
        if let Some(bytes) = self.feed.take_credit() {
            self.console.tell(&JobNews::StdinCredit { bytes });
            self.branches.send_up(&Up::StdinCredit { bytes });
        }
        if let Some(switches) = self.feed.take_unwanted() {
            self.console.tell(&JobNews::StdinUnwanted);
            self.branches.send_up(&Up::StdinUnwanted { switches });
        }
    }

    // ----- output -----

    /// A source became readable, or its gate opened.
    pub(super) fn run_source(&mut self, rank: Rank, stream: Stream) {
        let Some(client) = self.clients.get_mut(rank) else { return };
        let source = &mut client.sources[stream.index()];
        if source.ready && !source.blocked && !source.queued {
            source.queued = true;
            self.runnable.push_back((rank, stream));
        }
    }

    pub(super) fn serve_sources(&mut self) {
        for _ in 0..self.runnable.len() {
            let Some((rank, stream)) = self.runnable.pop_front() else { return };
            if let Some(client) = self.clients.get_mut(rank) {
                client.sources[stream.index()].queued = false;
                self.serve_source(rank, stream);
            }
        }
    }

    fn serve_source(&mut self, rank: Rank, stream: Stream) {
        let route = self.outputs.route(rank, stream);
        for _ in 0..READS_PER_TURN {
            let source = &mut self.clients[rank].sources[stream.index()];
            if !source.ready {
                return;
            }
            let Some(pipe) = &mut source.pipe else { return };
            if source.blocked {
                return;
            }
            if !self.outputs.sinks[route].admits(&alone(rank), stream) {
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
                    source.taken += n as u64;
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
    pub(super) fn take_output(&mut self, rank: Rank, stream: Stream, n: usize) {
        let now = self.now();
        let route = self.outputs.route(rank, stream);
        let sink = &mut self.outputs.sinks[route];
        let leaf = &mut self.clients[rank].sources[stream.index()].leaf;
        let label = self.labels.of(rank);
        let time = self.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        leaf.push(now, &self.buffer[..n], &mut |record| {
            let told = sink.accept(now, stream, label, &Item::Piece { rank, time, record });
            trouble = trouble.take().or(told);
        });
        match leaf.deadline() {
            Some(at) => self.timers.set(Timer::Line(source_number(rank, stream)), at),
            None => self.timers.stop(Timer::Line(source_number(rank, stream))),
        }
        self.after_write(trouble);
    }

    /// These ranks have begun: where lines are merged, they are waited for from now on.
    pub(super) fn expect(&mut self, begun: &[(Rank, u32)]) {
        if self.spec.output.merge {
            let ranks = begun.iter().map(|(rank, _)| *rank).collect();
            self.begin_merging(&ranks);
        }
    }

    fn begin_merging(&mut self, ranks: &RankSet) {
        let now = self.now();
        self.outputs.begin(now, ranks);
        if self.spec.debug.is_some() {
            // They say when they are ready.
            self.outputs.ask(now, ranks);
        }
    }

    /// The same of all ranks here and below.
    pub(super) fn expect_all(&mut self) {
        if self.spec.output.merge {
            let ranks = self.order.shares.ranks_below(self.order.place as usize);
            self.begin_merging(&ranks);
        }
    }

    /// The deadline of an unfinished line passed. What waits in the pipe comes first: if we were slow,
    /// its rank was not silent.
    pub(super) fn line_is_due(&mut self, rank: Rank, stream: Stream) {
        let Some(client) = self.clients.get_mut(rank) else { return };
        client.sources[stream.index()].ready = true;
        self.serve_source(rank, stream);
        let now = self.now();
        let Some(client) = self.clients.get_mut(rank) else { return };
        let source = &mut client.sources[stream.index()];
        if source.blocked {
            return;
        }
        let is_due = source.leaf.deadline().is_some_and(|at| at <= now);
        if is_due {
            let writer = client.process.as_ref().map_or(Writer::Waits, Held::writer);
            if source.leaf.is_over(now, writer) {
                return self.end_line(rank, stream);
            }
        }
        if let Some(at) = source.leaf.deadline() {
            self.timers.set(Timer::Line(source_number(rank, stream)), at);
        }
    }

    /// Ends an unfinished line: its time is over or nothing more comes.
    pub(super) fn end_line(&mut self, rank: Rank, stream: Stream) {
        let now = self.now();
        let route = self.outputs.route(rank, stream);
        let sink = &mut self.outputs.sinks[route];
        let source = &mut self.clients[rank].sources[stream.index()];
        if source.pipe.is_some() && !sink.admits(&alone(rank), stream) {
            // Another rank is in the middle of its line, or the output is full.
            source.leaf.resumed(now);
            if let Some(at) = source.leaf.deadline() {
                self.timers.set(Timer::Line(source_number(rank, stream)), at);
            }
            return;
        }
        let label = self.labels.of(rank);
        let time = self.spec.output.timestamp.then(mpd_io::clock::wall);
        let mut trouble = None;
        source.leaf.flush(&mut |record| {
            trouble = sink.accept(now, stream, label, &Item::Piece { rank, time, record });
        });
        self.after_write(trouble);
    }

    fn end_source(&mut self, rank: Rank, stream: Stream) {
        self.timers.stop(Timer::Line(source_number(rank, stream)));
        let source = &mut self.clients[rank].sources[stream.index()];
        source.pipe = None;
        source.ready = false;
        self.end_line(rank, stream);
        if stream == Stream::Out && self.clients[rank].driver.is_some() {
            self.end_driver(rank);
        }
        let route = self.outputs.route(rank, stream);
        let ended = Item::Ended { ranks: alone(rank) };
        let now = self.now();
        let trouble = self.outputs.sinks[route].accept(now, stream, &[], &ended);
        self.after_write(trouble);
        if rank.0 >= self.spec.size() {
            self.outputs.end(rank, stream);
        }
        self.retire(rank);
    }

    fn after_write(&mut self, trouble: Option<Trouble>) {
        match trouble {
            // Nobody reads errors any more: not a reason to end a job.
            None | Some(Trouble::Closed(Stream::Err)) => {}
            Some(Trouble::Closed(Stream::Out)) => self.post(Input::OutputClosed),
            Some(Trouble::Failed(problem)) => self.post(Input::OutputFailed(problem)),
        }
    }

    /// Writes what waits and lets those read whose gate is open again.
    pub(super) fn flush_outputs(&mut self) {
        for i in 0..self.outputs.sinks.len() {
            if self.outputs.sinks.contains(i) {
                let trouble = self.outputs.sinks[i].flush();
                self.after_write(trouble);
                self.admit_blocked(i);
            }
        }
        let is_silent = self.outputs.awaits_silence() && self.flows.waiting().is_empty();
        self.outputs.close_ended(is_silent);
    }

    fn admit_blocked(&mut self, sink: usize) {
        let now = self.now();
        let blocked = std::mem::take(&mut self.outputs.sinks[sink].blocked);
        for (rank, stream) in blocked {
            let Some(client) = self.clients.get_mut(rank) else { continue };
            if self.outputs.sinks[sink].admits(&alone(rank), stream) {
                let source = &mut client.sources[stream.index()];
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
            let is_due = |sink: &Sink| sink.deadline().is_some_and(|at| at <= now);
            if self.outputs.sinks.contains(i) && is_due(&self.outputs.sinks[i]) {
                let trouble = self.outputs.sinks[i].handle_timeout(now);
                self.after_write(trouble);
            }
        }
    }

    /// No process of the job lives: what is in the pipes now is all there is.
    pub(super) fn start_draining(&mut self) {
        self.draining = true;
        for rank in self.started() {
            for stream in Stream::BOTH {
                let source = &mut self.clients[rank].sources[stream.index()];
                source.ready = true;
                source.ending = true;
                self.run_source(rank, stream);
            }
        }
    }

    pub(super) fn is_drained(&mut self) -> bool {
        let unread = |c: &Client| c.sources.iter().any(|s| s.pipe.is_some() && s.ready);
        if self.clients.started().any(|(_, client)| unread(client)) {
            return false;
        }
        // A pipe that somebody outside the job holds open has no end; what was in it has been read.
        for rank in self.started() {
            for stream in Stream::BOTH {
                let client = self.clients.get(rank);
                if client.is_some_and(|client| client.sources[stream.index()].pipe.is_some()) {
                    self.end_source(rank, stream);
                }
            }
        }
        self.flows.are_drained() && self.outputs.are_empty() && self.is_all_up()
    }

    // ----- output of the managers below -----

    /// Records came from the manager at `place`.
    pub(super) fn take_flow(&mut self, place: usize, stream: Stream, bytes: &[u8]) {
        let Some(flow) = self.flows.get_mut(place, stream) else { return };
        if let Err(e) = flow.push(bytes) {
            self.branches.close(End::Child(place));
            self.lose_below(place, format!("its manager broke the protocol: {e}"));
        }
    }

    /// Passes on what the managers below said, as far as the gates let it in.
    pub(super) fn serve_flows(&mut self) {
        for (place, stream) in self.flows.waiting() {
            self.serve_flow(place, stream);
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

    fn serve_flow(&mut self, place: usize, stream: Stream) {
        let now = self.now();
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
                let spawned = ranks.ranks().filter(|rank| rank.0 >= self.spec.size());
                spawned.for_each(|rank| self.outputs.end(rank, stream));
            }
            trouble = trouble.or(told);
        }
        self.after_write(trouble);
    }

    /// Throws away what is left of the output.
    pub(super) fn discard_output(&mut self) {
        self.outputs.discard();
    }

    /// Ranks that were started here.
    fn started(&self) -> Vec<Rank> {
        self.clients.started().map(|(rank, _)| rank).collect()
    }

    pub(super) fn label_of(&self, rank: Rank, pid: u32) -> Vec<u8> {
        let name = self.name_of(rank);
        match &self.spec.output.label {
            Some(format) => {
                let place = self.pump.machine().place_of(rank).unwrap_or(0);
                fill(format, (&self.spec, &self.order), (&name, place), pid)
            }
            None if rank.0 >= self.spec.size() => format!("{name}: ").into_bytes(),
            None => Vec::new(),
        }
    }

    /// Opens the files that take the output of a world that is to be started; for the root.
    ///
    /// # Errors
    /// Why one cannot be.
    pub(super) fn open_files_of(&mut self, world: &World, parts: &Parts) -> Result<(), String> {
        let job = (&*self.spec, &self.order);
        let files = parts.0.iter().flat_map(|(place, ranks)| {
            let place = *place as usize;
            ranks.ranks().flat_map(move |rank| {
                let name = World::name(Some(world), rank);
                files_of(job, rank, (&name, place))
            })
        });
        let files: Vec<Wanted> = files.collect();
        // Of the others there are no more than hosts.
        let own = files.iter().filter(|file| file.is_own).count();
        start::check_files(self.clients.len(), self.outputs.files() + own)?;
        let opened = self.outputs.open_files(&files, self.poll.registry(), FIRST_OUTPUT);
        opened.map_err(|problem| format!("cannot open output {problem}"))
    }
}

/// A pattern filled for a rank of that name at that place of the job.
fn fill(
    format: &LabelFormat,
    (spec, order): (&JobSpec, &StartJob),
    (name, place): (&str, usize),
    pid: u32,
) -> Vec<u8> {
    format.fill(|field| match field {
        b'r' => name.as_bytes().to_vec(),
        b'h' => host_at(order, place).into_bytes(),
        b'p' => pid.to_string().into_bytes(),
        b'j' => order.job.to_string().into_bytes(),
        _ => alias_of(spec),
    })
}

fn alias_of(spec: &JobSpec) -> Vec<u8> {
    spec.alias.clone().unwrap_or_default().into_bytes()
}

/// The name of the host at a place of the job, as the ring knows it.
pub(super) fn host_at(order: &StartJob, place: usize) -> String {
    order.shares.get(place).map_or_else(|| order.host.clone(), |share| share.member.to_string())
}

/// Who takes input for `ranks` here: some of this host, and managers directly below.
fn receivers(order: &StartJob, ranks: &RankSet) -> Vec<Receiver> {
    let place = order.place as usize;
    let here = order.shares.get(place).map(|share| share.ranks.clone()).unwrap_or_default();
    let below: Vec<(usize, RankSet)> =
        order.shares.children(place).map(|p| (p, order.shares.ranks_below(p))).collect();
    Receiver::of(ranks, &here, below.iter().map(|(place, ranks)| (*place, ranks)))
}

/// The input of this manager's ranks and of the managers below.
pub(super) fn feed_of(spec: &JobSpec, order: &StartJob) -> Feed {
    let below = order.shares.children(order.place as usize).map(Receiver::Below);
    let mut others: Vec<Receiver> = below.collect();
    if spec.stdin_switch {
        // Those that do not receive yet are to hear of the end.
        others.extend(receivers(order, &RankSet::all()));
    }
    Feed::new(receivers(order, &spec.stdin), others, WINDOW)
}

/// The outputs of this manager. Trouble with those of the console is told by way of what is left.
///
/// # Errors
/// Not even `/dev/null` can be opened.
pub(super) fn outputs_of(
    spec: &JobSpec,
    order: &StartJob,
    console: [OwnedFd; 2],
) -> Result<(Outputs, Option<String>)> {
    if order.place != 0 {
        return Ok((Outputs::above(spec, order), None));
    }
    let files = (0..spec.size()).map(Rank).flat_map(|rank| {
        let place = order.shares.place_of_rank(rank).unwrap_or(0);
        files_of((spec, order), rank, (&rank.to_string(), place))
    });
    let (size, levels) = (spec.size(), order.shares.depth_below(0));
    match Outputs::open(console, &spec.output, (size, levels), files) {
        Ok(mut outputs) => {
            let called = (order.job.to_string().into_bytes(), alias_of(spec));
            let hosts = order.shares.iter();
            let hosts = hosts.map(|share| (share.ranks.clone(), share.member.to_string()));
            if let Some(labels) = HostLabels::new(spec.output.label.as_ref(), called, hosts) {
                outputs.label_by_host(&Rc::new(labels));
            }
            Ok((outputs, None))
        }
        Err(e) => {
            let null = || OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from);
            let plain = OutputSpec::default();
            let silent = Outputs::open([null()?, null()?], &plain, (size, levels), []);
            let outputs = silent.map_err(anyhow::Error::msg)?;
            Ok((outputs, Some(format!("cannot open output {e}"))))
        }
    }
}

/// The files that the streams of a rank go to instead of the console's output, for a rank of that name at that place.
/// Relative names are seen from the directory of the first program, which is where `mpirun` was started unless told
/// otherwise.
fn files_of(
    (spec, order): (&JobSpec, &StartJob),
    rank: Rank,
    called: (&str, usize),
) -> Vec<Wanted> {
    let patterns = [(Stream::Out, &spec.output.outfile), (Stream::Err, &spec.output.errfile)];
    let file = |(stream, pattern): (Stream, &Option<LabelFormat>)| {
        let pattern = pattern.as_ref()?;
        let name = fill(pattern, (spec, order), called, 0);
        // Those that are spawned are at home where the job is.
        let argset = if rank.0 < spec.size() { spec.argset_of(rank) } else { 0 };
        let argset = spec.argsets.get(argset)?;
        Some(Wanted {
            rank,
            stream,
            path: Path::new(OsStr::from_bytes(&argset.directory)).join(OsStr::from_bytes(&name)),
            mode: 0o666 & !argset.umask,
            is_own: pattern.names(b'r'),
        })
    };
    patterns.into_iter().filter_map(file).collect()
}
