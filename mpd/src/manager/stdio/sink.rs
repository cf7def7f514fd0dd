//! One output: formats records, queues data that the output does not accept at once, and asks its write admission
//! which sources may be read.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use mpd_io::files::logging::plain;
use mpd_io::files::output::Output;
use mpd_sansio::Time;
use mpd_stdio::format;
use mpd_stdio::format::Formatter;
use mpd_stdio::hostlabel::HostLabels;
use mpd_stdio::line_splitter::Record;
use mpd_stdio::merge;
use mpd_stdio::merge::Merger;
use mpd_stdio::record::Item;
use mpd_stdio::silence::Task;
use mpd_stdio::uplink::Uplink;
use mpd_stdio::write_admission::WriteAdmission;
use mpd_wire::job::OutputSpec;
use mpd_wire::{Rank, RankSet, Stream};

/// Most bytes in the queue that are already written.
const COMPACT_AT: usize = 256 * 1024;

/// The problem that a write has found.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The reader has closed the output.
    Closed(Stream),
    /// Writing has failed.
    Failed(String),
}

/// The destination of an output.
#[derive(Debug)]
enum Destination {
    Descriptor(Writer),
    /// To the parent, which formats.
    Parent(Uplink),
}

/// A descriptor, and the data that it has not accepted yet.
#[derive(Debug)]
struct Writer {
    output: Output,
    queue: Vec<u8>,
    sent: usize,
    formatter: Formatter,
    /// Present if merged lines are labelled by host.
    hosts: Option<Rc<HostLabels>>,
}

/// One output.
#[derive(Debug)]
pub(crate) struct Sink {
    destination: Destination,
    name: String,
    stream: Stream,
    pub(crate) write_admission: WriteAdmission,
    style: Style,
    /// One merger per stream, since both streams may go to one output.
    mergers: Option<[Merger; 2]>,
    /// The first spawned rank. Lines of spawned ranks are not merged.
    unmerged: Rank,
    /// The first spawned rank, if the streams of spawned ranks go to files. Then their ends are passed on without
    /// merging.
    ends_from: Option<Rank>,
    /// Bytes that the output has accepted. They show whether its reader reads.
    pub(crate) taken: u64,
    /// Sources that wait for the write admission.
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
        Self::new(Destination::Descriptor(writer), name, stream, spec)
    }

    /// The output of one stream to the parent.
    pub(crate) fn parent(window: usize, stream: Stream, spec: &OutputSpec) -> Self {
        Self::new(
            Destination::Parent(Uplink::new(window)),
            "to the parent manager".to_owned(),
            stream,
            spec,
        )
    }

    fn new(destination: Destination, name: String, stream: Stream, spec: &OutputSpec) -> Self {
        Self {
            destination,
            name,
            stream,
            write_admission: WriteAdmission::default(),
            style: Style { labels: spec.label.is_some(), timestamps: spec.timestamp },
            mergers: None,
            unmerged: Rank(0),
            ends_from: None,
            taken: 0,
            blocked: Vec::new(),
        }
    }

    /// Joins equal lines of `ranks`, of a job that began with `size` ranks, in a manager with `levels` levels of
    /// other managers in its subtree.
    pub(crate) fn merging(mut self, (ranks, size): (&RankSet, u32), levels: u32) -> Self {
        self.mergers = Some([Merger::new(ranks, levels), Merger::new(ranks, levels)]);
        self.unmerged = Rank(size);
        self
    }

    /// Whether lines have labels from now on. `hosts` are those of merged lines, if these are labelled by host.
    pub(crate) fn label(&mut self, labels: bool, hosts: Option<&Rc<HostLabels>>) {
        self.style.labels = labels;
        if let Destination::Descriptor(writer) = &mut self.destination {
            writer.hosts = hosts.cloned();
        }
    }

    /// Passes on the ends of streams of spawned ranks; `spawned` is the first of them.
    pub(crate) const fn passing_ends(mut self, spawned: Rank) -> Self {
        self.ends_from = Some(spawned);
        self
    }

    /// Expects output of these ranks from now on.
    pub(crate) fn begin(&mut self, now: Time, ranks: &RankSet) {
        self.mergers.iter_mut().flatten().for_each(|merger| merger.begin(now, ranks));
    }

    /// Notes that these ranks were asked something: see [`Merger::ask`].
    pub(crate) fn ask(&mut self, now: Time, ranks: &RankSet) {
        if let Some(mergers) = &mut self.mergers {
            mergers[self.stream.index()].ask(now, ranks);
        }
    }

    /// The descriptor to watch for writability, if it can block.
    pub(crate) fn watched(&self) -> Option<RawFd> {
        match &self.destination {
            Destination::Descriptor(writer) if writer.output.can_block() => {
                Some(writer.output.as_raw_fd())
            }
            Destination::Descriptor(_) | Destination::Parent(_) => None,
        }
    }

    /// Queues text of the manager; the next flush sends it.
    pub(crate) fn print(&mut self, text: &str) {
        if let (Destination::Descriptor(writer), false) =
            (&mut self.destination, self.write_admission.is_closed())
        {
            writer.queue.extend_from_slice(text.as_bytes());
        }
    }

    /// Takes a record of ranks; `label` is the label of a single rank.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        stream: Stream,
        label: &[u8],
        item: &Item<'_>,
    ) -> Option<Trouble> {
        if self.write_admission.is_closed() {
            return None;
        }
        if let (Some(rank), Some(record)) = (item.source(), item.record()) {
            self.write_admission.wrote(source(rank, stream), !record.end);
        }
        let is_spawned = item.source().is_some_and(|rank| rank >= self.unmerged);
        let merges = self.mergers.is_some();
        if merges && !is_spawned {
            self.merge(now, stream, item);
        } else if let (Item::Ended { ranks }, Some(spawned)) = (item, self.ends_from) {
            if ranks.ranks().next().is_some_and(|lowest| lowest >= spawned) {
                self.destination.ended(ranks);
            }
        } else if let Item::Piece { rank, time, record } = item {
            match &mut self.destination {
                Destination::Parent(uplink) => uplink.accept(*rank, *time, *record),
                Destination::Descriptor(writer)
                    if self.style.labels || self.style.timestamps || merges =>
                {
                    let mut prefix = Vec::new();
                    if let (true, Some(time)) = (self.style.timestamps, time) {
                        prefix.extend_from_slice(format::utc(*time).as_bytes());
                        prefix.push(b' ');
                    }
                    prefix.extend_from_slice(label);
                    let source = source(*rank, stream);
                    writer.formatter.format(source, &prefix, *record, &mut writer.queue);
                }
                Destination::Descriptor(writer) => {
                    writer.formatter.passed(source(*rank, stream), *record);
                    match writer.pass(*record) {
                        Ok(taken) => self.taken += taken,
                        Err(e) => return Some(self.fail(&e)),
                    }
                }
            }
        }
        self.flush()
    }

    fn merge(&mut self, now: Time, stream: Stream, item: &Item<'_>) {
        let Self { destination, mergers: Some(mergers), .. } = self else { return };
        let merger = &mut mergers[stream.index()];
        let mut emit = |ranks: &RankSet, line: &[u8]| destination.line(ranks, line);
        match item {
            Item::Piece { rank, record, .. } => {
                merger.push(now, &alone(*rank), *record, &mut emit);
            }
            Item::Merged { ranks, record } => merger.push(now, ranks, *record, &mut emit),
            Item::Ended { ranks } => merger.end(ranks, &mut emit),
        }
        destination.ended(&merger.take_ended());
    }

    /// Sends queued data, as much as the output accepts.
    pub(crate) fn flush(&mut self) -> Option<Trouble> {
        let waiting = match &mut self.destination {
            Destination::Parent(uplink) => uplink.waiting(),
            Destination::Descriptor(writer) => match writer.flush() {
                Ok(taken) => {
                    self.taken += taken;
                    writer.waiting()
                }
                Err(e) => return Some(self.fail(&e)),
            },
        };
        self.write_admission.set_waiting(waiting);
        None
    }

    /// The parent accepts `bytes` more bytes.
    pub(crate) fn grant(&mut self, bytes: u32) {
        if let Destination::Parent(uplink) = &mut self.destination {
            uplink.grant(bytes);
        }
    }

    /// The next piece for the parent.
    pub(crate) fn next_payload(&mut self) -> Option<Vec<u8>> {
        let Destination::Parent(uplink) = &mut self.destination else { return None };
        let payload = uplink.next_payload()?;
        self.taken += payload.len() as u64;
        self.write_admission.set_waiting(uplink.waiting());
        Some(payload)
    }

    fn fail(&mut self, error: &io::Error) -> Trouble {
        let is_terminal = matches!(&self.destination, Destination::Descriptor(writer) if writer.output.is_terminal());
        self.discard();
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => Trouble::Closed(self.stream),
            // The terminal was hung up.
            Some(libc::EIO) if is_terminal => Trouble::Closed(self.stream),
            _ => Trouble::Failed(format!("cannot write {}: {}", self.name, plain(error))),
        }
    }

    /// Discards queued and later data.
    pub(crate) fn discard(&mut self) {
        self.write_admission.close();
        self.mergers = None;
        match &mut self.destination {
            Destination::Parent(uplink) => uplink.discard(),
            Destination::Descriptor(writer) => {
                writer.queue.clear();
                writer.sent = 0;
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let mergers = self.mergers.as_ref()?;
        mergers.iter().filter_map(Merger::deadline).min()
    }

    /// Ranks for which a merger waits no longer.
    pub(crate) fn overdue(&self, now: Time) -> Vec<(Stream, Rank)> {
        let of = |stream: Stream| {
            let ranks = self.mergers.iter().flat_map(move |all| all[stream.index()].overdue(now));
            ranks.map(move |rank| (stream, rank))
        };
        Stream::BOTH.into_iter().flat_map(of).collect()
    }

    /// See [`Merger::excuse`].
    pub(crate) fn excuse(
        &mut self,
        now: Time,
        (stream, rank): (Stream, Rank),
        writer: Option<&[Task]>,
    ) -> bool {
        let merger = self.mergers.as_mut().map(|all| &mut all[stream.index()]);
        merger.is_some_and(|merger| merger.excuse(now, rank, writer))
    }

    /// See [`Merger::question`].
    pub(crate) fn question(&mut self, now: Time, stream: Stream, overdue: &[Rank]) -> RankSet {
        let merger = self.mergers.as_mut().map(|all| &mut all[stream.index()]);
        merger.map_or_else(RankSet::none, |merger| merger.question(now, overdue))
    }

    /// See [`Merger::answer`].
    pub(crate) fn answer(&mut self, now: Time, (stream, rank): (Stream, Rank), is_behind: bool) {
        if let Some(mergers) = &mut self.mergers {
            mergers[stream.index()].answer(now, rank, is_behind);
        }
    }

    /// See [`Merger::has_waiting`].
    pub(crate) fn has_waiting(&self, stream: Stream, rank: Rank) -> bool {
        self.mergers.as_ref().is_some_and(|all| all[stream.index()].has_waiting(rank))
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) -> Option<Trouble> {
        let destination = &mut self.destination;
        for merger in self.mergers.iter_mut().flatten() {
            merger.flush(now, &mut |ranks, line| destination.line(ranks, line));
            destination.ended(&merger.take_ended());
        }
        self.flush()
    }

    /// Whether nothing is to be written or resumed until a change.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() && self.blocked.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.has_sent() && self.deadline().is_none()
    }

    /// Whether nothing waits, except for equal lines of other ranks.
    pub(crate) const fn has_sent(&self) -> bool {
        match &self.destination {
            Destination::Parent(uplink) => uplink.is_empty(),
            Destination::Descriptor(writer) => writer.queue.is_empty(),
        }
    }

    /// Whether a record of `ranks` may be taken now; all of them are at the same line.
    pub(crate) fn admits(&self, ranks: &RankSet, stream: Stream) -> bool {
        let ahead = |mergers: &[Merger; 2]| mergers[stream.index()].holds_back(ranks);
        let lowest = ranks.ranks().next();
        lowest.is_none_or(|rank| self.write_admission.admits(source(rank, stream)))
            && (lowest.is_some_and(|rank| rank >= self.unmerged)
                || !self.mergers.as_ref().is_some_and(ahead))
    }

    /// Most bytes to read from a source at once.
    pub(crate) const fn at_once(&self) -> usize {
        if self.mergers.is_some() { merge::AT_ONCE } else { usize::MAX }
    }
}

pub(crate) fn alone(rank: Rank) -> RankSet {
    RankSet::from_iter([rank])
}

impl Destination {
    /// Writes a line, without its newline, that all of `ranks` wrote.
    fn line(&mut self, ranks: &RankSet, line: &[u8]) {
        match self {
            Self::Parent(uplink) => uplink.accept_merged(ranks, line),
            Self::Descriptor(writer) => match &writer.hosts {
                Some(hosts) => hosts.append(ranks, line, &mut writer.queue),
                None => format::merged(ranks, line, &mut writer.queue),
            },
        }
    }

    /// Notes the end of the streams of these ranks.
    fn ended(&mut self, ranks: &RankSet) {
        if let Self::Parent(uplink) = self {
            uplink.accept_end(ranks);
        }
    }
}

impl Writer {
    /// Writes plain output directly from the read buffer if no data waits. Returns the accepted bytes.
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

    /// Writes queued data. Returns the accepted bytes.
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
            // With a slow but steady reader the queue is never empty.
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

/// The number of an output stream of a rank, for write admissions and timers.
pub(crate) const fn source(rank: Rank, stream: Stream) -> u32 {
    (rank.0 << 1) | stream.index() as u32
}
