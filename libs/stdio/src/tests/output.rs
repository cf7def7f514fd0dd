use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::{PARENT, RANKS, SIZE, children, set, subtree};
use crate::inflow::{Inflow, InvalidInflow};
use crate::line_splitter::{HOLD_BYTES, LineSplitter, Record};
use crate::merge::{AT_ONCE, Merger, PROMPT_PATIENCE};
use crate::record::{Item, MAX_PAYLOAD};
use crate::uplink::Uplink;
use crate::write_admission::{MAX_WAITING, WriteAdmission};
use mpd_sansio::Time;
use mpd_wire::message::TREE_WINDOW;
use mpd_wire::{Rank, RankSet};

/// A piece that a line splitter emits: bytes, and whether they end a line.
type Piece = (Vec<u8>, bool);

/// An item that the root received: its ranks, bytes, and whether they end a line.
type Received = (RankSet, Vec<u8>, bool);

struct TreeHost {
    write_admission: WriteAdmission,
    sources: BTreeMap<Rank, VecDeque<Piece>>,
    inflows: Vec<(usize, Inflow)>,
    merger: Option<Merger>,
    uplink: Uplink,
    /// Payloads on their way to the parent.
    link: VecDeque<Vec<u8>>,
}

/// One output stream of a job.
struct Job {
    hosts: Vec<TreeHost>,
    timed: bool,
    received: Vec<Received>,
    /// Bytes that the root's output has not taken.
    unread: usize,
    ended: RankSet,
    window: usize,
    /// Bytes that may wait at a write admission that admits a source, and the bytes that this source may add.
    most: usize,
}

impl Job {
    fn new(scripts: &[Vec<Piece>], window: usize, most: usize, merge: bool, timed: bool) -> Self {
        let host = |at: usize| TreeHost {
            write_admission: WriteAdmission::new(most),
            sources: RANKS[at]
                .iter()
                .map(|&r| (Rank(r), scripts[r as usize].iter().cloned().collect()))
                .collect(),
            inflows: children(at).map(|b| (b, Inflow::new(subtree(b), window))).collect(),
            merger: merge.then(|| Merger::begun(&subtree(at))),
            uplink: Uplink::new(window),
            link: VecDeque::new(),
        };
        let hosts = (0..RANKS.len()).map(host).collect();
        let (received, ended) = (Vec::new(), RankSet::none());
        Self { hosts, timed, received, unread: 0, ended, window, most }
    }

    /// Reads the pipe of one rank if its write admission admits it.
    fn read(&mut self, rank: Rank) -> bool {
        let at = RANKS.iter().position(|ranks| ranks.contains(&rank.0)).unwrap();
        let host = &mut self.hosts[at];
        let holds = |merger: &Merger| merger.holds_back(&set(&[rank.0]));
        if !host.write_admission.admits(rank.0) || host.merger.as_ref().is_some_and(holds) {
            return false;
        }
        let Some(script) = host.sources.get_mut(&rank) else { return false };
        let from = set(&[rank.0]);
        match script.pop_front() {
            Some((bytes, end)) => self.accept(at, &from, &bytes, end),
            None => {
                host.sources.remove(&rank);
                self.accept_end(at, &from);
            }
        }
        true
    }

    /// Takes the next item of an inflow if its write admission admits it.
    fn take(&mut self, at: usize, nth: usize) -> bool {
        let host = &mut self.hosts[at];
        let Some((_, inflow)) = host.inflows.get_mut(nth) else { return false };
        let Some(item) = inflow.peek() else { return false };
        if item.source().is_some_and(|source| !host.write_admission.admits(source.0)) {
            return false;
        }
        assert_eq!(inflow.peek(), Some(item.clone()));
        match inflow.pop().unwrap() {
            Item::Piece { rank, time, record } => {
                assert_eq!(
                    time,
                    self.timed.then_some(u64::from(rank.0)),
                    "the time of its reading"
                );
                let (bytes, end) = (record.body.to_vec(), record.end);
                self.accept(at, &set(&[rank.0]), &bytes, end);
            }
            Item::Merged { ranks, record } => {
                let (bytes, end) = (record.body.to_vec(), record.end);
                self.accept(at, &ranks, &bytes, end);
            }
            Item::Ended { ranks } => self.accept_end(at, &ranks),
        }
        true
    }

    fn accept(&mut self, at: usize, ranks: &RankSet, bytes: &[u8], end: bool) {
        let source = ranks.ranks().next().unwrap();
        let host = &mut self.hosts[at];
        host.write_admission.wrote(source.0, !end);
        let record = Record { begin: true, end, head: &bytes[..0], body: bytes };
        if let Some(merger) = &mut host.merger {
            let mut lines = Vec::new();
            merger.push(Time::ZERO, ranks, record, &mut |ranks, line| {
                lines.push((ranks.clone(), line.to_vec()));
            });
            self.pass_merged(at, lines);
        } else if at == 0 {
            self.received.push((ranks.clone(), bytes.to_vec(), end));
            self.unread += bytes.len();
        } else {
            let time = self.timed.then_some(u64::from(source.0));
            host.uplink.accept(source, time, record);
        }
        self.look(at);
    }

    fn accept_end(&mut self, at: usize, ranks: &RankSet) {
        let host = &mut self.hosts[at];
        if let Some(merger) = &mut host.merger {
            let mut lines = Vec::new();
            merger.end(ranks, &mut |ranks, line| lines.push((ranks.clone(), line.to_vec())));
            self.pass_merged(at, lines);
        } else {
            self.pass_end(at, ranks);
        }
        self.look(at);
    }

    /// The patience of a merger has passed.
    fn flush(&mut self, at: usize) {
        if let Some(merger) = &mut self.hosts[at].merger {
            let mut lines = Vec::new();
            let keep =
                &mut |ranks: &RankSet, line: &[u8]| lines.push((ranks.clone(), line.to_vec()));
            merger.flush(Time::ZERO + PROMPT_PATIENCE, keep);
            self.pass_merged(at, lines);
            self.look(at);
        }
    }

    fn pass_merged(&mut self, at: usize, lines: Vec<(RankSet, Vec<u8>)>) {
        for (ranks, line) in lines {
            if at == 0 {
                self.unread += line.len() + 1;
                self.received.push((ranks, line, true));
            } else {
                self.hosts[at].uplink.accept_merged(&ranks, &line);
            }
        }
        let ended = self.hosts[at].merger.as_mut().unwrap().take_ended();
        self.pass_end(at, &ended);
    }

    fn pass_end(&mut self, at: usize, ranks: &RankSet) {
        if at == 0 {
            assert!(ranks.ranks().all(|rank| !self.ended.contains(rank)), "an end is told once");
            self.ended.join(ranks);
        } else {
            self.hosts[at].uplink.accept_end(ranks);
        }
    }

    fn look(&mut self, at: usize) {
        let waiting = if at == 0 { self.unread } else { self.hosts[at].uplink.waiting() };
        self.hosts[at].write_admission.set_waiting(waiting);
    }

    /// Sends a payload for which there is credit.
    fn send(&mut self, at: usize) -> bool {
        let host = &mut self.hosts[at];
        let Some(payload) = host.uplink.next_payload() else { return false };
        assert!(payload.len() <= MAX_PAYLOAD);
        host.link.push_back(payload);
        self.look(at);
        true
    }

    /// A payload arrives at the parent.
    fn arrive(&mut self, at: usize) -> bool {
        let Some(payload) = self.hosts[at].link.pop_front() else { return false };
        self.inflow(at).push(&payload).unwrap();
        true
    }

    /// Credit goes back.
    fn credit(&mut self, at: usize) -> bool {
        let Some(bytes) = self.inflow(at).take_credit() else { return false };
        self.hosts[at].uplink.grant(bytes);
        true
    }

    /// The inflow at which the output of `at` arrives.
    fn inflow(&mut self, at: usize) -> &mut Inflow {
        let mut inflows = self.hosts[PARENT[at]].inflows.iter_mut();
        &mut inflows.find(|(host, _)| *host == at).unwrap().1
    }

    /// The root's output takes some bytes.
    fn drain(&mut self, bytes: usize) -> bool {
        let taken = bytes.min(self.unread);
        self.unread -= taken;
        self.look(0);
        taken > 0
    }

    fn turn(&mut self, what: u8, pick: u8) {
        let host = usize::from(pick) % RANKS.len();
        match what % 8 {
            0 | 1 => drop(self.read(Rank(u32::from(pick) % SIZE))),
            2 => drop(self.take(host, usize::from(pick) / 4 % 2)),
            3 if host > 0 => drop(self.send(host)),
            4 if host > 0 => drop(self.arrive(host)),
            5 if host > 0 => drop(self.credit(host)),
            6 => drop(self.drain(usize::from(pick))),
            7 if pick < 32 => self.flush(host),
            _ => {}
        }
        self.check_bounds();
    }

    fn check_bounds(&mut self) {
        for at in 1..RANKS.len() {
            let under_way: usize = self.hosts[at].link.iter().map(Vec::len).sum();
            assert!(under_way + self.inflow(at).waiting() <= self.window);
            let waiting = self.hosts[at].uplink.waiting();
            assert!(self.hosts[at].merger.is_some() || waiting < 2 * self.most, "{waiting}");
        }
    }

    /// Turns for all tree indices until nothing moves, while the output takes `drain` bytes at a time.
    fn settle(&mut self, drain: usize) {
        loop {
            let mut moved = (0..SIZE).filter(|&rank| self.read(Rank(rank))).count();
            for at in (0..RANKS.len()).rev() {
                moved += (0..2).filter(|&nth| self.take(at, nth)).count();
                if at > 0 {
                    moved += usize::from(self.send(at));
                    moved += usize::from(self.arrive(at));
                    moved += usize::from(self.credit(at));
                }
            }
            moved += usize::from(self.drain(drain));
            self.check_bounds();
            if moved == 0 {
                return;
            }
        }
    }

    /// The lines of a rank that the root received, divided by the marks.
    fn lines_of(&self, rank: u32) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut open = Vec::new();
        for (_, bytes, end) in
            self.received.iter().filter(|received| received.0.contains(Rank(rank)))
        {
            open.extend_from_slice(bytes);
            if *end {
                lines.push(std::mem::take(&mut open));
            }
        }
        assert!(open.is_empty());
        lines
    }

    /// Whether the pieces of each line are contiguous.
    fn no_line_is_torn(&self) -> bool {
        self.received.windows(2).all(|pair| pair[0].2 || pair[0].0 == pair[1].0)
    }
}

/// The lines of a script, divided by the marks.
fn lines(script: &[Piece]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut open = Vec::new();
    for (bytes, end) in script {
        open.extend_from_slice(bytes);
        if *end {
            lines.push(std::mem::take(&mut open));
        }
    }
    lines
}

fn scripts(piece: impl Strategy<Value = Piece>) -> impl Strategy<Value = Vec<Vec<Piece>>> {
    let script = proptest::collection::vec(piece, 0..12).prop_map(|mut script| {
        if let Some(last) = script.last_mut() {
            last.1 = true;
        }
        script
    });
    proptest::collection::vec(script, SIZE as usize)
}

/// Pieces of lines that differ in their bytes.
fn piece() -> impl Strategy<Value = Piece> {
    (proptest::collection::vec(any::<u8>(), 1..150), any::<bool>())
}

/// A whole line from a small set.
fn line() -> impl Strategy<Value = Piece> {
    (0u8..3, 1usize..20).prop_map(|(letter, length)| {
        let mut text = vec![b'a' + letter; if letter == 0 { length } else { 4 }];
        text.push(b'\n');
        (text, true)
    })
}

fn turns() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec(any::<(u8, u8)>(), 0..600)
}

proptest! {
    #[test]
    fn the_output_of_each_rank_arrives_in_order_and_no_line_is_split(
        scripts in scripts(piece()), turns in turns(), window in 256usize..700, timed in any::<bool>(),
    ) {
        let mut job = Job::new(&scripts, window, 400, false, timed);
        for (what, pick) in turns {
            job.turn(what, pick);
        }
        job.settle(37);
        prop_assert!(job.no_line_is_torn());
        for rank in 0..SIZE {
            prop_assert_eq!(job.lines_of(rank), lines(&scripts[rank as usize]), "rank {}", rank);
        }
        prop_assert_eq!(job.ended, RankSet::below(SIZE));
    }

    #[test]
    fn merging_on_the_way_does_not_change_the_output_of_a_rank(
        scripts in scripts(line()), turns in turns(), window in 256usize..700,
    ) {
        let mut job = Job::new(&scripts, window, 100, true, false);
        for (what, pick) in turns {
            job.turn(what, pick);
        }
        job.settle(37);
        for rank in 0..SIZE {
            let received = job.lines_of(rank).into_iter().map(|mut line| { line.push(b'\n'); line });
            let received: Vec<_> = received.collect();
            prop_assert_eq!(received, lines(&scripts[rank as usize]), "rank {}", rank);
        }
        prop_assert_eq!(job.ended, RankSet::below(SIZE));
    }

    #[test]
    fn an_output_that_takes_nothing_holds_every_rank_and_nothing_is_lost(
        scripts in scripts(piece()), turns in turns(),
    ) {
        let mut job = Job::new(&scripts, 256, 400, false, false);
        for (what, pick) in turns.into_iter().filter(|turn| turn.0 % 8 != 6) {
            job.turn(what, pick);
        }
        job.settle(0);
        prop_assert!(job.unread < 400 + 150, "{} bytes wait at the root", job.unread);
        job.settle(1000);
        for rank in 0..SIZE {
            prop_assert_eq!(job.lines_of(rank), lines(&scripts[rank as usize]), "rank {}", rank);
        }
    }
}

/// A link whose peer takes everything: the items that came through it.
fn through_a_link(ranks: RankSet, uplink: &mut Uplink, mut take: impl FnMut(Item<'_>)) -> usize {
    let mut inflow = Inflow::new(ranks, TREE_WINDOW);
    let mut bytes = 0;
    while let Some(payload) = uplink.next_payload() {
        bytes += payload.len();
        inflow.push(&payload).unwrap();
        while let Some(item) = inflow.pop() {
            take(item);
        }
        if let Some(credit) = inflow.take_credit() {
            uplink.grant(credit);
        }
    }
    assert!(uplink.is_empty() && inflow.is_empty());
    bytes
}

#[test]
fn a_line_of_a_megabyte_goes_up_in_pieces_as_one_line() {
    let line = vec![b'x'; 1 << 20];
    let (mut line_splitter, mut uplink) = (LineSplitter::default(), Uplink::new(TREE_WINDOW));
    for read in line.chunks(HOLD_BYTES - 1) {
        line_splitter.push(Time::ZERO, read, &mut |record| uplink.accept(Rank(9), Some(5), record));
    }
    line_splitter.flush(&mut |record| uplink.accept(Rank(9), None, record));
    let mut received = Vec::new();
    let mut marks = Vec::new();
    let bytes = through_a_link(set(&[9]), &mut uplink, |item| {
        let record = item.record().unwrap();
        received.extend_from_slice(record.body);
        marks.push((record.begin, record.end));
    });
    assert!(received == line);
    assert!(bytes < line.len() + line.len() / 100);
    assert_eq!(marks.iter().filter(|marks| marks.0).count(), 1);
    assert_eq!(marks.iter().position(|marks| marks.1), Some(marks.len() - 1));
}

#[test]
fn an_interrupted_line_is_ended_before_the_other_ranks_record() {
    let mut uplink = Uplink::new(TREE_WINDOW);
    let piece = |end, body| Record { begin: true, end, head: b"", body };
    uplink.accept(Rank(1), None, piece(false, b"long"));
    uplink.accept(Rank(2), None, piece(true, b"short\n"));
    uplink.accept(Rank(1), None, piece(true, b"er\n"));
    let mut received = Vec::new();
    through_a_link(set(&[1, 2]), &mut uplink, |item| {
        let record = item.record().unwrap();
        received.push((item.source(), record.begin, record.end, record.body.to_vec()));
    });
    let one = Some(Rank(1));
    let expected = [
        (one, true, false, b"long".to_vec()),
        (one, false, true, b"".to_vec()),
        (Some(Rank(2)), true, true, b"short\n".to_vec()),
        (one, true, true, b"er\n".to_vec()),
    ];
    assert_eq!(received, expected);
}

/// Ranks that write the same. One merger reads some of them as the manager does.
struct Host {
    merger: Merger,
    ranks: RankSet,
    read: Vec<usize>,
    uplink: Uplink,
}

impl Host {
    fn new(ranks: RankSet) -> Self {
        let read = vec![0; ranks.count() as usize];
        Self { merger: Merger::begun(&ranks), ranks, read, uplink: Uplink::new(TREE_WINDOW) }
    }

    /// Every rank's turn: the first rank has written all of the text, the others as much as fits a
    /// small pipe.
    fn turn(&mut self, text: &[u8]) {
        for (at, rank) in self.ranks.ranks().enumerate() {
            let most = if at == 0 { AT_ONCE } else { AT_ONCE / 3 };
            let (rank, rest) = (set(&[rank.0]), &text[self.read[at]..]);
            if !self.merger.holds_back(&rank) && !rest.is_empty() {
                let body = &rest[..rest.len().min(most)];
                self.read[at] += body.len();
                let record = Record { begin: false, end: false, head: b"", body };
                let up = &mut self.uplink;
                self.merger.push(Time::ZERO, &rank, record, &mut |ranks, line| {
                    up.accept_merged(ranks, line);
                });
            }
        }
    }
}

#[test]
fn merged_output_takes_less_than_twice_the_bytes_of_one_rank_on_each_link() {
    // The ranks go to 4 hosts in turn, so that their sets are as long as possible.
    let host = |host: u32| Host::new((0..16).map(|n| Rank(n * 4 + host)).collect());
    let mut hosts: Vec<Host> = (0..4).map(host).collect();
    let text: Vec<u8> = (0..6000).flat_map(|n| format!("step {n}\n").into_bytes()).collect();
    let mut root = Merger::begun(&RankSet::below(64));
    let mut bytes = [0; 4];
    let mut shown = Vec::new();
    for _ in 0..30 {
        for (host, bytes) in hosts.iter_mut().zip(&mut bytes) {
            host.turn(&text);
            *bytes += through_a_link(host.ranks.clone(), &mut host.uplink, |item| {
                let Item::Merged { ranks, record } = item else { panic!("{item:?}") };
                root.push(Time::ZERO, &ranks, record, &mut |ranks, line| {
                    assert_eq!(ranks, &RankSet::below(64));
                    shown.extend_from_slice(line);
                    shown.push(b'\n');
                });
            });
        }
    }
    assert!(shown == text, "{} of {} bytes", shown.len(), text.len());
    assert!(bytes.iter().all(|&bytes| bytes < 2 * text.len()), "{bytes:?} for {}", text.len());
}

#[test]
fn a_set_of_ranks_of_any_length_is_sent_in_parts() {
    let even: RankSet = (0..20_000).map(|n| Rank(2 * n)).collect();
    let mut uplink = Uplink::new(TREE_WINDOW);
    uplink.accept_merged(&even, b"hello");
    uplink.accept_end(&even);
    let (mut said, mut ended) = (RankSet::none(), RankSet::none());
    through_a_link(even.clone(), &mut uplink, |item| match item {
        Item::Merged { ranks, record } => {
            assert_eq!(record.body, b"hello\n");
            said.join(&ranks);
        }
        Item::Ended { ranks } => ended.join(&ranks),
        Item::Piece { .. } => panic!("{item:?}"),
    });
    assert!(said == even && ended == even);
}

#[test]
fn a_link_that_breaks_the_rules_is_detected() {
    let payload = |item: Item<'_>| {
        let mut payload = Vec::new();
        item.encode(&mut payload);
        payload
    };
    let piece = |rank, begin, end| {
        let record = Record { begin, end, head: b"", body: b"x" };
        payload(Item::Piece { rank: Rank(rank), time: None, record })
    };
    let mut inflow = Inflow::new(set(&[1, 2]), 256);
    assert_eq!(inflow.push(&[0; 257]), Err(InvalidInflow::TooMuch));
    assert_eq!(inflow.push(&piece(3, true, true)), Err(InvalidInflow::Stranger));
    let ended = payload(Item::Ended { ranks: RankSet::all() });
    assert_eq!(inflow.push(&ended), Err(InvalidInflow::Stranger));
    assert_eq!(inflow.push(&piece(1, false, true)), Err(InvalidInflow::Torn(Rank(1))));
    inflow.push(&piece(1, true, false)).unwrap();
    assert_eq!(inflow.push(&piece(2, true, true)), Err(InvalidInflow::Torn(Rank(2))));
    assert_eq!(inflow.push(&piece(1, true, true)), Err(InvalidInflow::Torn(Rank(1))));
    inflow.push(&piece(1, false, true)).unwrap();
    assert!(matches!(inflow.push(b"?"), Err(InvalidInflow::Item(_))));
    assert_eq!(inflow.waiting(), 22, "nothing of what was refused was taken");
}

#[test]
fn a_host_lost_in_the_middle_of_a_line_does_not_block_the_write_admission() {
    let mut uplink = Uplink::new(256);
    uplink.accept(Rank(1), None, Record { begin: true, end: false, head: b"", body: b"lo" });
    let mut inflow = Inflow::new(set(&[1]), 256);
    inflow.push(&uplink.next_payload().unwrap()).unwrap();
    inflow.break_off();
    inflow.break_off();
    let mut write_admission = WriteAdmission::default();
    while let Some(item) = inflow.pop() {
        write_admission.wrote(1, !item.record().unwrap().end);
    }
    assert!(write_admission.admits(2) && inflow.is_empty());
}

#[test]
fn a_discarded_uplink_accepts_output_and_keeps_none_of_it() {
    let mut uplink = Uplink::new(TREE_WINDOW);
    let body = vec![b'x'; MAX_WAITING];
    let record = Record { begin: true, end: false, head: b"", body: &body };
    uplink.accept(Rank(0), None, record);
    assert!(uplink.waiting() >= MAX_WAITING);
    uplink.discard();
    uplink.accept(Rank(0), None, record);
    uplink.accept_merged(&RankSet::below(2), b"line");
    uplink.accept_end(&RankSet::below(2));
    assert!(uplink.is_empty());
    assert_eq!(uplink.next_payload(), None);
}
