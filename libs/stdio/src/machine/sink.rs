//! One output: formats records, queues bytes that the output does not accept at once, and asks its write admission
//! which sources may be read.

use std::rc::Rc;

use mpd_sansio::Time;
use mpd_wire::job::OutputSpec;
use mpd_wire::{Rank, RankSet, Stream};

use crate::format;
use crate::format::Formatter;
use crate::hostlabel::HostLabels;
use crate::line_splitter::Record;
use crate::merge;
use crate::merge::Merger;
use crate::record::Item;
use crate::silence::Task;
use crate::uplink::Uplink;
use crate::write_admission::WriteAdmission;

/// Most bytes in the queue that are already written.
const COMPACT_AT: usize = 256 * 1024;

/// The place of bytes that are written without a copy to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The read buffer.
    Buffer,
    /// The last record that was taken from a flow.
    Flow(usize, Stream),
}

/// Bytes in their place, from one position to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direct {
    pub(super) place: Place,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The destination of an output.
#[derive(Debug)]
enum Destination {
    Descriptor(Writer),
    /// To the parent, which formats.
    Parent(Uplink),
}

/// The bytes that a descriptor has not accepted yet. The direct ones come first.
#[derive(Debug, Default)]
struct Writer {
    direct: Option<Direct>,
    queue: Vec<u8>,
    sent: usize,
    formatter: Formatter,
    /// Present if merged lines are labelled by host.
    hosts: Option<Rc<HostLabels>>,
}

/// One output.
#[derive(Debug)]
pub(super) struct Sink {
    destination: Destination,
    name: String,
    stream: Stream,
    pub(super) write_admission: WriteAdmission,
    style: Style,
    /// One merger per stream, since both streams may go to one output.
    mergers: Option<[Merger; 2]>,
    /// The first spawned rank. Lines of spawned ranks are not merged.
    unmerged: Rank,
    /// The first spawned rank, if the streams of spawned ranks go to files. Then their ends are passed on without
    /// merging.
    ends_from: Option<Rank>,
    /// Bytes that the output has accepted. They show whether its reader reads.
    pub(super) taken: u64,
    /// Sources that wait for the write admission.
    pub(super) blocked: Vec<(Rank, Stream)>,
}

#[derive(Clone, Copy, Debug)]
struct Style {
    labels: bool,
    timestamps: bool,
}

impl Sink {
    /// An output with a descriptor.
    pub(super) fn to(name: String, stream: Stream, spec: &OutputSpec) -> Self {
        Self::new(Destination::Descriptor(Writer::default()), name, stream, spec)
    }

    /// The output of one stream to the parent.
    pub(super) fn parent(window: usize, stream: Stream, spec: &OutputSpec) -> Self {
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
    pub(super) fn merging(mut self, (ranks, size): (&RankSet, u32), levels: u32) -> Self {
        self.mergers = Some([Merger::new(ranks, levels), Merger::new(ranks, levels)]);
        self.unmerged = Rank(size);
        self
    }

    /// Whether lines have labels from now on. `hosts` are those of merged lines, if these are labelled by host.
    pub(super) fn label(&mut self, labels: bool, hosts: Option<&Rc<HostLabels>>) {
        self.style.labels = labels;
        if let Destination::Descriptor(writer) = &mut self.destination {
            writer.hosts = hosts.cloned();
        }
    }

    /// Passes on the ends of streams of spawned ranks; `spawned` is the first of them.
    pub(super) const fn passing_ends(mut self, spawned: Rank) -> Self {
        self.ends_from = Some(spawned);
        self
    }

    /// Expects output of these ranks from now on.
    pub(super) fn begin(&mut self, now: Time, ranks: &RankSet) {
        self.mergers.iter_mut().flatten().for_each(|merger| merger.begin(now, ranks));
    }

    /// Notes that these ranks were asked something: see [`Merger::ask`].
    pub(super) fn ask(&mut self, now: Time, ranks: &RankSet) {
        if let Some(mergers) = &mut self.mergers {
            mergers[self.stream.index()].ask(now, ranks);
        }
    }

    /// Queues text of the manager; the next flush sends it.
    pub(super) fn print(&mut self, text: &str) {
        if let (Destination::Descriptor(writer), false) =
            (&mut self.destination, self.write_admission.is_closed())
        {
            writer.queue.extend_from_slice(text.as_bytes());
        }
    }

    /// Takes a record of ranks; `label` is the label of a single rank. The body of the record is at this position of
    /// that place.
    pub(super) fn accept(
        &mut self,
        now: Time,
        stream: Stream,
        label: &[u8],
        (item, place): (&Item<'_>, Option<(Place, usize)>),
    ) {
        if self.write_admission.is_closed() {
            return;
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
                    writer.pass(*record, place);
                }
            }
        }
        self.count_waiting();
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

    /// Informs the write admission of the bytes that wait.
    pub(super) fn count_waiting(&mut self) {
        self.write_admission.set_waiting(match &self.destination {
            Destination::Parent(uplink) => uplink.waiting(),
            Destination::Descriptor(writer) => writer.waiting(),
        });
    }

    /// Whether the descriptor is to get bytes.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(&self.destination, Destination::Descriptor(writer) if writer.waiting() > 0)
    }

    /// The bytes that the descriptor is to get first: direct ones, or the queue.
    pub(super) fn bytes(&self) -> (Option<Direct>, &[u8]) {
        match &self.destination {
            Destination::Descriptor(writer) => (writer.direct, &writer.queue[writer.sent..]),
            Destination::Parent(_) => (None, &[]),
        }
    }

    /// The descriptor has accepted the first `count` bytes.
    pub(super) fn wrote(&mut self, count: usize) {
        self.taken += count as u64;
        if let Destination::Descriptor(writer) = &mut self.destination {
            writer.wrote(count);
            if writer.waiting() == 0 {
                writer.compact();
            }
        }
        self.count_waiting();
    }

    /// The descriptor accepts nothing now. `direct` has the direct bytes.
    pub(super) fn is_full(&mut self, direct: &[u8]) {
        if let Destination::Descriptor(writer) = &mut self.destination {
            writer.keep(direct);
            writer.compact();
        }
        self.count_waiting();
    }

    /// The parent accepts `bytes` more bytes.
    pub(super) fn grant(&mut self, bytes: u32) {
        if let Destination::Parent(uplink) = &mut self.destination {
            uplink.grant(bytes);
        }
    }

    /// The next piece for the parent.
    pub(super) fn next_payload(&mut self) -> Option<Vec<u8>> {
        let Destination::Parent(uplink) = &mut self.destination else { return None };
        let payload = uplink.next_payload()?;
        self.taken += payload.len() as u64;
        self.write_admission.set_waiting(uplink.waiting());
        Some(payload)
    }

    /// The stream whose reader is lost if this output is closed.
    pub(super) const fn stream(&self) -> Stream {
        self.stream
    }

    /// The name of the output in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Discards queued and later data.
    pub(super) fn discard(&mut self) {
        self.write_admission.close();
        self.mergers = None;
        match &mut self.destination {
            Destination::Parent(uplink) => uplink.discard(),
            Destination::Descriptor(writer) => {
                writer.direct = None;
                writer.queue.clear();
                writer.sent = 0;
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let mergers = self.mergers.as_ref()?;
        mergers.iter().filter_map(Merger::deadline).min()
    }

    /// Ranks for which a merger waits no longer.
    pub(super) fn overdue(&self, now: Time) -> Vec<(Stream, Rank)> {
        let of = |stream: Stream| {
            let ranks = self.mergers.iter().flat_map(move |all| all[stream.index()].overdue(now));
            ranks.map(move |rank| (stream, rank))
        };
        Stream::BOTH.into_iter().flat_map(of).collect()
    }

    /// See [`Merger::excuse`].
    pub(super) fn excuse(
        &mut self,
        now: Time,
        (stream, rank): (Stream, Rank),
        writer: Option<&[Task]>,
    ) -> bool {
        let merger = self.mergers.as_mut().map(|all| &mut all[stream.index()]);
        merger.is_some_and(|merger| merger.excuse(now, rank, writer))
    }

    /// See [`Merger::question`].
    pub(super) fn question(&mut self, now: Time, stream: Stream, overdue: &[Rank]) -> RankSet {
        let merger = self.mergers.as_mut().map(|all| &mut all[stream.index()]);
        merger.map_or_else(RankSet::none, |merger| merger.question(now, overdue))
    }

    /// See [`Merger::answer`].
    pub(super) fn answer(&mut self, now: Time, (stream, rank): (Stream, Rank), is_behind: bool) {
        if let Some(mergers) = &mut self.mergers {
            mergers[stream.index()].answer(now, rank, is_behind);
        }
    }

    /// See [`Merger::has_waiting`].
    pub(super) fn has_waiting(&self, stream: Stream, rank: Rank) -> bool {
        self.mergers.as_ref().is_some_and(|all| all[stream.index()].has_waiting(rank))
    }

    /// Passes on merged lines whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        let destination = &mut self.destination;
        for merger in self.mergers.iter_mut().flatten() {
            merger.flush(now, &mut |ranks, line| destination.line(ranks, line));
            destination.ended(&merger.take_ended());
        }
        self.count_waiting();
    }

    /// Whether nothing is to be written or resumed until a change.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_empty() && self.blocked.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.has_sent() && self.deadline().is_none()
    }

    /// Whether nothing waits, except for equal lines of other ranks.
    pub(super) fn has_sent(&self) -> bool {
        match &self.destination {
            Destination::Parent(uplink) => uplink.is_empty(),
            Destination::Descriptor(writer) => writer.waiting() == 0,
        }
    }

    /// Whether a record of `ranks` may be taken now; all of them are at the same line.
    pub(super) fn admits(&self, ranks: &RankSet, stream: Stream) -> bool {
        let ahead = |mergers: &[Merger; 2]| mergers[stream.index()].holds_back(ranks);
        let lowest = ranks.ranks().next();
        lowest.is_none_or(|rank| self.write_admission.admits(source(rank, stream)))
            && (lowest.is_some_and(|rank| rank >= self.unmerged)
                || !self.mergers.as_ref().is_some_and(ahead))
    }

    /// Most bytes to read from a source at once.
    pub(super) const fn at_once(&self) -> usize {
        if self.mergers.is_some() { merge::AT_ONCE } else { usize::MAX }
    }
}

pub(super) fn alone(rank: Rank) -> RankSet {
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
    /// Passes on plain output. If no bytes wait, it is written from its place.
    fn pass(&mut self, record: Record<'_>, place: Option<(Place, usize)>) {
        let is_first = self.queue.is_empty() && record.head.is_empty();
        match (place.filter(|_| is_first), &mut self.direct) {
            (Some((place, from)), None) if !record.body.is_empty() => {
                self.direct = Some(Direct { place, from, to: from + record.body.len() });
            }
            // The parts of one read follow each other.
            (Some((_, from)), Some(direct)) if direct.to == from => {
                direct.to = from + record.body.len();
            }
            _ => {
                self.queue.extend_from_slice(record.head);
                self.queue.extend_from_slice(record.body);
            }
        }
    }

    fn wrote(&mut self, count: usize) {
        match &mut self.direct {
            Some(direct) => {
                direct.from += count;
                self.direct = self.direct.filter(|direct| direct.from < direct.to);
            }
            None => self.sent += count,
        }
    }

    /// Moves direct bytes into the queue: their place is used again.
    fn keep(&mut self, direct: &[u8]) {
        if self.direct.take().is_some() {
            let later = self.queue.len();
            self.queue.extend_from_slice(direct);
            self.queue.rotate_left(later);
        }
    }

    /// Gives up the memory of written bytes. With a slow but steady reader the queue is never empty.
    fn compact(&mut self) {
        if self.sent == self.queue.len() || self.sent >= COMPACT_AT {
            self.queue.drain(..self.sent);
            self.sent = 0;
            self.queue.shrink_to(2 * COMPACT_AT);
        }
    }

    fn waiting(&self) -> usize {
        let direct = self.direct.map_or(0, |direct| direct.to - direct.from);
        direct + self.queue.len() - self.sent
    }
}

/// The number of an output stream of a rank, for write admissions and timers.
pub(super) const fn source(rank: Rank, stream: Stream) -> u32 {
    (rank.0 << 1) | stream.index() as u32
}
