//! One output: it formats records, queues what is not taken at once, and has a gate that is asked who
//! may be read for it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use mpd_io::logging::plain;
use mpd_io::output::Output;
use mpd_machine::Time;
use mpd_stdio::format;
use mpd_stdio::format::Formatter;
use mpd_stdio::gate::Gate;
use mpd_stdio::hostlabel::HostLabels;
use mpd_stdio::leaf::Record;
use mpd_stdio::merge;
use mpd_stdio::merge::Merger;
use mpd_stdio::record::Item;
use mpd_stdio::uplink::Uplink;
use mpd_wire::job::OutputSpec;
use mpd_wire::{Rank, RankSet, Stream};

/// Bytes already written that the queue may still hold.
const COMPACT_AT: usize = 256 * 1024;

/// What a write told about an output.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Its reader closed it.
    Closed(Stream),
    /// It cannot be written.
    Failed(String),
}

/// By which way an output leaves.
#[derive(Debug)]
enum Way {
    Descriptor(Writer),
    /// To the manager above, which formats.
    Above(Uplink),
}

/// A descriptor, and what it has not taken yet.
#[derive(Debug)]
struct Writer {
    output: Output,
    queue: Vec<u8>,
    sent: usize,
    formatter: Formatter,
    /// Where merged lines are labelled by host.
    hosts: Option<Rc<HostLabels>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sink {
    way: Way,
    name: String,
    stream: Stream,
    pub(crate) gate: Gate,
    style: Style,
    /// One merger per stream, as both streams may lead to one output.
    mergers: Option<[Merger; 2]>,
    /// Lines of ranks from here on are not merged: they were spawned.
    unmerged: Rank,
    /// The ends of streams of ranks from here on are passed on though nothing is merged: they have files.
    tells_ends: Option<Rank>,
    /// Bytes the output has taken, for seeing whether its reader reads.
    pub(crate) taken: u64,
    /// Sources that wait for the gate.
    pub(crate) blocked: Vec<(Rank, Stream)>,
}

#[derive(Clone, Copy, Debug)]
struct Style {
    labels: bool,
    timestamps: bool,
}

impl Sink {
    /// An output with a descriptor.
    pub(crate) fn to(output: Output, name: String, stream: Stream, spec: &OutputSpec) -> Self {
        let (queue, formatter) = (Vec::new(), Formatter::default());
        let writer = Writer { output, queue, sent: 0, formatter, hosts: None };
        Self::new(Way::Descriptor(writer), name, stream, spec)
    }

    /// The way up of one stream.
    pub(crate) fn above(window: usize, stream: Stream, spec: &OutputSpec) -> Self {
        Self::new(Way::Above(Uplink::new(window)), "the manager above".to_owned(), stream, spec)
    }

    fn new(way: Way, name: String, stream: Stream, spec: &OutputSpec) -> Self {
        Self {
            way,
            name,
            stream,
            gate: Gate::default(),
            style: Style { labels: spec.label.is_some(), timestamps: spec.timestamp },
            mergers: None,
            unmerged: Rank(0),
            tells_ends: None,
            taken: 0,
            blocked: Vec::new(),
        }
    }

    /// Joins equal lines of `ranks`, of a job that began with `size`, in a manager with so many levels of others below.
    pub(crate) fn merging(mut self, (ranks, size): (&RankSet, u32), levels: u32) -> Self {
        self.mergers = Some([Merger::new(ranks, levels), Merger::new(ranks, levels)]);
        self.unmerged = Rank(size);
        self
    }

    /// Labels merged lines by host.
    pub(crate) fn label_by_host(&mut self, hosts: &Rc<HostLabels>) {
        if let Way::Descriptor(writer) = &mut self.way {
            writer.hosts = Some(Rc::clone(hosts));
        }
    }

    /// Passes on when streams of spawned ranks end, in a job that began with ranks below this one.
    pub(crate) const fn telling_ends(mut self, spawned: Rank) -> Self {
        self.tells_ends = Some(spawned);
        self
    }

    /// Something is expected of these ranks from now on.
    pub(crate) fn begin(&mut self, now: Time, ranks: &RankSet) {
        self.mergers.iter_mut().flatten().for_each(|merger| merger.begin(now, ranks));
    }

    /// They were asked something: see [`Merger::ask`].
    pub(crate) fn ask(&mut self, now: Time, ranks: &RankSet) {
        if let Some(mergers) = &mut self.mergers {
            mergers[self.stream.index()].ask(now, ranks);
        }
    }

    /// The descriptor to watch, if it can say that it takes no more.
    pub(crate) fn watched(&self) -> Option<RawFd> {
        match &self.way {
            Way::Descriptor(writer) if writer.output.can_block() => Some(writer.output.as_raw_fd()),
            Way::Descriptor(_) | Way::Above(_) => None,
        }
    }

    /// Takes text of ours; it goes with the next flush.
    pub(crate) fn say(&mut self, text: &str) {
        if let (Way::Descriptor(writer), false) = (&mut self.way, self.gate.is_closed()) {
            writer.queue.extend_from_slice(text.as_bytes());
        }
    }

    /// Takes what ranks wrote; `label` is that of the rank, if it is one.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        stream: Stream,
        label: &[u8],
        item: &Item<'_>,
    ) -> Option<Trouble> {
        if self.gate.is_closed() {
            return None;
        }
        if let (Some(rank), Some(record)) = (item.source(), item.record()) {
            self.gate.wrote(source(rank, stream), !record.end);
        }
        let is_spawned = item.source().is_some_and(|rank| rank >= self.unmerged);
        let merges = self.mergers.is_some();
        if merges && !is_spawned {
            self.merge(now, stream, item);
        } else if let (Item::Ended { ranks }, Some(spawned)) = (item, self.tells_ends) {
            if ranks.ranks().next().is_some_and(|lowest| lowest >= spawned) {
                self.way.ended(ranks);
            }
        } else if let Item::Piece { rank, time, record } = item {
            match &mut self.way {
                Way::Above(uplink) => uplink.accept(*rank, *time, *record),
                Way::Descriptor(writer) if self.style.labels || self.style.timestamps || merges => {
                    let mut prefix = Vec::new();
                    if let (true, Some(time)) = (self.style.timestamps, time) {
                        prefix.extend_from_slice(format::utc(*time).as_bytes());
                        prefix.push(b' ');
                    }
                    prefix.extend_from_slice(label);
                    let source = source(*rank, stream);
                    writer.formatter.format(source, &prefix, *record, &mut writer.queue);
                }
                Way::Descriptor(writer) => match writer.pass(*record) {
                    Ok(taken) => self.taken += taken,
                    Err(e) => return Some(self.fail(&e)),
                },
            }
        }
        self.flush()
    }

    fn merge(&mut self, now: Time, stream: Stream, item: &Item<'_>) {
        let Self { way, mergers: Some(mergers), .. } = self else { return };
        let merger = &mut mergers[stream.index()];
        let mut emit = |ranks: &RankSet, line: &[u8]| way.line(ranks, line);
        match item {
            Item::Piece { rank, record, .. } => {
                merger.push(now, &alone(*rank), *record, &mut emit);
            }
            Item::Merged { ranks, record } => merger.push(now, ranks, *record, &mut emit),
            Item::Ended { ranks } => merger.end(ranks, &mut emit),
        }
        way.ended(&merger.take_ended());
    }

    /// Sends what waits, as far as the output takes it.
    pub(crate) fn flush(&mut self) -> Option<Trouble> {
        let waiting = match &mut self.way {
            Way::Above(uplink) => uplink.waiting(),
            Way::Descriptor(writer) => match writer.flush() {
                Ok(taken) => {
                    self.taken += taken;
                    writer.waiting()
                }
                Err(e) => return Some(self.fail(&e)),
            },
        };
        self.gate.set_waiting(waiting);
        None
    }

    /// The manager above takes so many bytes more.
    pub(crate) fn grant(&mut self, bytes: u32) {
        if let Way::Above(uplink) = &mut self.way {
            uplink.grant(bytes);
        }
    }

    /// The next piece for the manager above.
    pub(crate) fn next_payload(&mut self) -> Option<Vec<u8>> {
        let Way::Above(uplink) = &mut self.way else { return None };
        let payload = uplink.next_payload()?;
        self.taken += payload.len() as u64;
        self.gate.set_waiting(uplink.waiting());
        Some(payload)
    }

    fn fail(&mut self, error: &io::Error) -> Trouble {
        let is_terminal =
            matches!(&self.way, Way::Descriptor(writer) if writer.output.is_terminal());
        self.discard();
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => Trouble::Closed(self.stream),
            // A terminal that was hung up.
            Some(libc::EIO) if is_terminal => Trouble::Closed(self.stream),
            _ => Trouble::Failed(format!("cannot write {}: {}", self.name, plain(error))),
        }
    }

    /// Throws away what waits and all that comes.
    pub(crate) fn discard(&mut self) {
        self.gate.close();
        self.mergers = None;
        match &mut self.way {
            Way::Above(uplink) => uplink.discard(),
            Way::Descriptor(writer) => {
                writer.queue.clear();
                writer.sent = 0;
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let mergers = self.mergers.as_ref()?;
        mergers.iter().filter_map(Merger::deadline).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) -> Option<Trouble> {
        let way = &mut self.way;
        for merger in self.mergers.iter_mut().flatten() {
            merger.flush(now, &mut |ranks, line| way.line(ranks, line));
            way.ended(&merger.take_ended());
        }
        self.flush()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let nothing_waits = match &self.way {
            Way::Above(uplink) => uplink.is_empty(),
            Way::Descriptor(writer) => writer.queue.is_empty(),
        };
        nothing_waits && self.deadline().is_none()
    }

    /// Whether what one of `ranks` wrote may be taken now; all of them are at the same line.
    pub(crate) fn admits(&self, ranks: &RankSet, stream: Stream) -> bool {
        let ahead = |mergers: &[Merger; 2]| mergers[stream.index()].holds_back(ranks);
        let lowest = ranks.ranks().next();
        lowest.is_none_or(|rank| self.gate.admits(source(rank, stream)))
            && (lowest.is_some_and(|rank| rank >= self.unmerged)
                || !self.mergers.as_ref().is_some_and(ahead))
    }

    /// Most bytes to read of a source at once.
    pub(crate) const fn at_once(&self) -> usize {
        if self.mergers.is_some() { merge::AT_ONCE } else { usize::MAX }
    }
}

/// The set of one rank.
pub(crate) fn alone(rank: Rank) -> RankSet {
    RankSet::from_iter([rank])
}

impl Way {
    /// A line, without its newline, that all of `ranks` wrote.
    fn line(&mut self, ranks: &RankSet, line: &[u8]) {
        match self {
            Self::Above(uplink) => uplink.accept_merged(ranks, line),
            Self::Descriptor(writer) => match &writer.hosts {
                Some(hosts) => hosts.append(ranks, line, &mut writer.queue),
                None => format::merged(ranks, line, &mut writer.queue),
            },
        }
    }

    /// The streams of these ranks came to their end.
    fn ended(&mut self, ranks: &RankSet) {
        if let Self::Above(uplink) = self {
            uplink.accept_end(ranks);
        }
    }
}

impl Writer {
    /// Plain output: straight from the read buffer when nothing waits. Bytes that were taken.
    fn pass(&mut self, record: Record<'_>) -> io::Result<u64> {
        let mut rest = record.body;
        let mut taken = 0;
        if self.queue.is_empty() && record.head.is_empty() {
            match self.output.write(rest) {
                Ok(n) => {
                    taken = n as u64;
                    rest = &rest[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        self.queue.extend_from_slice(record.head);
        self.queue.extend_from_slice(rest);
        Ok(taken)
    }

    /// Writes what waits. Bytes that were taken.
    fn flush(&mut self) -> io::Result<u64> {
        let mut taken = 0;
        while self.sent < self.queue.len() {
            match self.output.write(&self.queue[self.sent..]) {
                Ok(n) => {
                    taken += n as u64;
                    self.sent += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if self.sent == self.queue.len() || self.sent >= COMPACT_AT {
            // With a reader that is slow and steady the queue is never empty.
            self.queue.drain(..self.sent);
            self.sent = 0;
            self.queue.shrink_to(2 * COMPACT_AT);
        }
        Ok(taken)
    }

    const fn waiting(&self) -> usize {
        self.queue.len() - self.sent
    }
}

/// The number of an output stream of a rank, for gates and timers.
pub(crate) const fn source(rank: Rank, stream: Stream) -> u32 {
    (rank.0 << 1) | stream.index() as u32
}
