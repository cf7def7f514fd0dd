//! Hosts in a tree of three levels, in turns of any order: chunks of any size, a console that accepts little, lost
//! children, and input whose receivers change.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_stdio::machine::{Answer, Input, Output};
use mpd_wire::job::{HostSlices, JobSpec, LabelFormat};
use mpd_wire::message::{Down, JobNews, Up};
use mpd_wire::{Rank, RankSet, Stream};

use crate::check::{self, Lines};
use crate::host::Host;
use crate::job::Job;

/// The last host is below the second one.
const HOSTS: usize = 18;
const SIZE: u32 = 20;
const SEEDS: u64 = 40;

/// Rounds after which everything must have moved.
const ROUNDS: usize = 20_000;

/// A generator of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `most`, which is positive.
    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Labels,
    Merged,
}

struct World {
    job: Job,
    hosts: Vec<Host>,
    random: Random,
    style: Style,
    lost: RankSet,
    /// Messages on their way to the parent and to the children, by the tree index of the child.
    up: BTreeMap<usize, VecDeque<Output>>,
    down: BTreeMap<usize, VecDeque<Output>>,
    is_drained: bool,

    wrote: Lines,
    unwritten: BTreeMap<(Rank, Stream), VecDeque<Vec<u8>>>,

    /// Bytes of input for which the console has credit.
    credit: usize,
    is_unwanted: bool,
    receivers: RankSet,
    due: BTreeMap<Rank, Vec<u8>>,
    read: BTreeMap<Rank, Vec<u8>>,
    closed: RankSet,
    sent_bytes: u8,
}

/// The ranks at a tree index. Two hosts have two.
fn ranks_at(host: usize) -> RankSet {
    let extra = match host {
        1 => Some(Rank(18)),
        17 => Some(Rank(19)),
        _ => None,
    };
    std::iter::once(Rank(host as u32)).chain(extra).collect()
}

fn host_of(rank: Rank) -> usize {
    (0..HOSTS).find(|host| ranks_at(*host).contains(rank)).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let style = [Style::Plain, Style::Labels, Style::Merged][random.below(3)];
        let receivers = some_ranks(&mut random);
        let change = |spec: &mut JobSpec| {
            spec.output.merge = style == Style::Merged;
            spec.output.label =
                (style == Style::Labels).then(|| LabelFormat::new(b"%r: ").unwrap());
            spec.stdin = receivers.clone();
            spec.stdin_switch = true;
        };
        let ranks: Vec<RankSet> = (0..HOSTS).map(ranks_at).collect();
        let job = Job::new(&ranks, change);
        let is_shared = style != Style::Merged && random.below(2) == 0;
        let hosts = (0..HOSTS).map(|host| Host::new(&job, host, is_shared)).collect();
        let mut world = Self {
            job,
            hosts,
            style,
            lost: RankSet::none(),
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            is_drained: false,
            wrote: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            credit: 0,
            is_unwanted: false,
            receivers,
            due: BTreeMap::new(),
            read: BTreeMap::new(),
            closed: RankSet::none(),
            sent_bytes: 0,
            random,
        };
        world.invent_lines();
        world.give(0, Input::Running((0..SIZE).map(|rank| (Rank(rank), 100 + rank)).collect()));
        (0..HOSTS).for_each(|host| world.send(host));
        world
    }

    /// Invents what the ranks will write. Ranks often write equal lines if these are merged.
    fn invent_lines(&mut self) {
        for stream in Stream::BOTH {
            let common: Vec<Vec<u8>> = (0..12).map(|_| self.line(Rank(0), stream)).collect();
            for rank in (0..SIZE).map(Rank) {
                let lines: Vec<Vec<u8>> = match self.style {
                    Style::Merged => common.clone(),
                    _ => (0..self.random.below(12)).map(|_| self.line(rank, stream)).collect(),
                };
                let own = self.random.below(3) == 0;
                let lines = if own { vec![self.line(rank, stream)] } else { lines };
                self.unwritten.insert((rank, stream), lines.iter().cloned().collect());
                self.wrote.insert((rank, stream), lines);
            }
        }
    }

    fn line(&mut self, rank: Rank, stream: Stream) -> Vec<u8> {
        let most = match self.random.below(40) {
            0 if self.style != Style::Merged => 200_000,
            0..8 => 2000,
            _ => 60,
        };
        let (length, bits) = (1 + self.random.below(most), self.random.next());
        (0..length).map(|at| check::symbol(rank, stream, bits >> (at % 61) & 1 == 0)).collect()
    }

    // ----- hosts and links -----

    fn is_lost(&self, host: usize) -> bool {
        self.lost.contains(Rank(host as u32))
    }

    fn give(&mut self, host: usize, input: Input) {
        self.hosts[host].give(&self.job, input);
        self.send(host);
    }

    /// Puts the outputs of a host on their way.
    fn send(&mut self, host: usize) {
        for output in std::mem::take(&mut self.hosts[host].sent) {
            match output {
                Output::ToConsole(JobNews::StdinCredit { bytes }) => {
                    self.credit += bytes as usize;
                    self.is_unwanted = false;
                }
                Output::ToConsole(JobNews::StdinUnwanted) => self.is_unwanted = true,
                Output::StdinPiece(child, _) | Output::ToChild(child, _) => {
                    self.down.entry(child).or_default().push_back(output);
                }
                Output::Drained if host == 0 => self.is_drained = true,
                Output::DrainGoesOn => {}
                Output::Records(..)
                | Output::ToParent(_)
                | Output::ToParentIfRoom(_)
                | Output::Drained => self.up.entry(host).or_default().push_back(output),
                other => panic!("host {host}: {other:?}"),
            }
        }
    }

    /// A message of a child arrives.
    fn arrive_up(&mut self, child: usize) -> bool {
        let message = self.up.get_mut(&child).and_then(VecDeque::pop_front);
        let input = match message {
            None => return false,
            Some(Output::Records(stream, records)) => Input::Output(child, stream, records),
            Some(Output::ToParent(Up::StdinCredit { bytes })) => Input::StdinCredit(child, bytes),
            Some(Output::ToParent(Up::StdinUnwanted { switches })) => {
                Input::StdinUnwanted(child, switches)
            }
            Some(Output::ToParentIfRoom(Up::Looked { stream, behind, others })) => {
                Input::Looked(Answer { child: Some(child), stream, behind, others })
            }
            Some(Output::Drained) => Input::FlowDrained(child),
            Some(other) => panic!("{other:?}"),
        };
        self.give(HostSlices::parent(child).unwrap(), input);
        true
    }

    /// A message arrives at a child.
    fn arrive_down(&mut self, child: usize) -> bool {
        let message = self.down.get_mut(&child).and_then(VecDeque::pop_front);
        let input = match message {
            None => return false,
            Some(Output::StdinPiece(_, piece)) => Input::StdinPiece(piece),
            Some(Output::ToChild(_, Down::OutputCredit { stream, bytes })) => {
                Input::OutputCredit(stream, bytes)
            }
            Some(Output::ToChild(_, Down::LookAt { stream, ranks })) => {
                Input::LookAt(stream, ranks)
            }
            Some(other) => panic!("{other:?}"),
        };
        if !self.is_lost(child) {
            self.give(child, input);
        }
        true
    }

    fn turn(&mut self, host: usize) {
        self.hosts[host].turn(&self.job);
        self.send(host);
    }

    /// Loses a host and all below it.
    fn lose(&mut self, host: usize) {
        if self.is_lost(host) {
            return;
        }
        for below in self.job.orders[0].host_slices.subtree(host) {
            self.lost.join(&ranks_at(below));
            self.up.remove(&below);
            self.down.remove(&below);
        }
        self.give(HostSlices::parent(host).unwrap(), Input::ChildrenGone(host));
    }

    // ----- ranks and the console -----

    /// A rank writes a line, if its pipe has room.
    fn write(&mut self, rank: Rank, stream: Stream) {
        let host = &mut self.hosts[host_of(rank)];
        let pipe = &host.processes[&rank].outputs[stream.index()];
        if pipe.has_ended || pipe.bytes.len() > 65_536 || self.lost.contains(rank) {
            return;
        }
        match self.unwritten.get_mut(&(rank, stream)).and_then(VecDeque::pop_front) {
            Some(line) => host.write(rank, stream, &[&line[..], b"\n"].concat()),
            None => host.end(rank, stream),
        }
    }

    fn read_input(&mut self, rank: Rank, most: usize) {
        let read = self.hosts[host_of(rank)].read_input(rank, most);
        self.read.entry(rank).or_default().extend(read);
    }

    fn close_input(&mut self, rank: Rank) {
        let host = &mut self.hosts[host_of(rank)];
        host.processes.get_mut(&rank).unwrap().has_closed_input = true;
        self.closed.insert(rank);
    }

    fn type_input(&mut self, most: usize) {
        let length = most.min(self.credit);
        if length == 0 || self.is_unwanted {
            return;
        }
        let bytes: Vec<u8> = (0..length).map(|n| self.sent_bytes.wrapping_add(n as u8)).collect();
        self.sent_bytes = self.sent_bytes.wrapping_add(length as u8);
        self.credit -= length;
        for rank in self.receivers.ranks().take_while(|rank| rank.0 < SIZE) {
            self.due.entry(rank).or_default().extend_from_slice(&bytes);
        }
        self.give(0, Input::Stdin(bytes));
    }

    // ----- the course of a job -----

    fn step(&mut self) {
        let (rank, stream) =
            (Rank(self.random.below(SIZE as usize) as u32), Stream::BOTH[self.random.below(2)]);
        let host = self.random.below(HOSTS);
        match self.random.below(100) {
            0..25 => self.write(rank, stream),
            25..45 if !self.is_lost(host) => self.turn(host),
            45..60 => drop(self.arrive_up(host)),
            60..75 => drop(self.arrive_down(host)),
            75..83 => {
                let room = 1 << self.random.below(18);
                self.hosts[0].console[stream.index()].room += room;
            }
            83..88 => self.read_input(rank, 30),
            88..93 => {
                let most = 1 << self.random.below(14);
                self.type_input(most);
            }
            93 => {
                self.receivers = some_ranks(&mut self.random);
                self.give(0, Input::SwitchStdin(self.receivers.clone()));
            }
            94..97 => {
                let pause = self.random.below(40) as u64;
                self.job.now = self.job.now + Duration::from_millis(pause);
            }
            97 if self.random.below(20) == 0 => self.close_input(rank),
            98 if self.random.below(60) == 0 && host > 0 => self.lose(host),
            _ => {}
        }
    }

    /// Lets everything move that can.
    fn round(&mut self) {
        for host in (0..HOSTS).filter(|host| !self.is_lost(*host)).collect::<Vec<_>>() {
            self.turn(host);
            while self.arrive_up(host) {}
            while self.arrive_down(host) {}
        }
        for console in &mut self.hosts[0].console {
            console.room = 1 << 20;
        }
        for rank in (0..SIZE).map(Rank) {
            self.read_input(rank, usize::MAX);
            for stream in Stream::BOTH {
                self.write(rank, stream);
            }
        }
        self.job.now = self.job.now + Duration::from_millis(20);
    }

    fn rounds_until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        for _ in 0..ROUNDS {
            if is_done(self) {
                return;
            }
            self.round();
        }
        panic!("this never happens: {what}");
    }

    /// Living ranks that have not closed their inputs.
    fn readers(&self) -> Vec<Rank> {
        let reads = |rank: &Rank| !self.lost.contains(*rank) && !self.closed.contains(*rank);
        (0..SIZE).map(Rank).filter(reads).collect()
    }

    fn finish(&mut self) {
        self.give(0, Input::Stdin(Vec::new()));
        let has_end =
            |world: &Self, rank: Rank| world.hosts[host_of(rank)].processes[&rank].has_end_of_input;
        self.rounds_until("each rank gets the end of its input", |world| {
            world.readers().into_iter().all(|rank| has_end(world, rank))
        });
        self.round();
        let is_written = |world: &Self| {
            let ended = |rank: Rank| {
                world.hosts[host_of(rank)].processes[&rank].outputs.iter().all(|p| p.has_ended)
            };
            (0..SIZE).map(Rank).all(|rank| world.lost.contains(rank) || ended(rank))
        };
        self.rounds_until("each rank writes everything", is_written);
        for host in (0..HOSTS).filter(|host| !self.is_lost(*host)).collect::<Vec<_>>() {
            for rank in ranks_at(host).ranks() {
                self.give(host, Input::RankEnded(rank, None));
            }
            self.give(host, Input::Killing);
            self.give(host, Input::Drain);
        }
        self.rounds_until("the root has drained its output", |world| world.is_drained);
    }

    fn check(&self) {
        let [out, err] = &self.hosts[0].console;
        match self.style {
            Style::Merged => {
                check::merged_lines([&out.bytes, &err.bytes], &self.wrote, &self.lost);
            }
            Style::Plain | Style::Labels => {
                let consoles = [out.bytes.clone(), err.bytes.clone()];
                let has_labels = self.style == Style::Labels;
                check::whole_lines(&consoles, &self.wrote, &self.lost, has_labels);
            }
        }
        let none = Vec::new();
        for rank in (0..SIZE).map(Rank) {
            let due = self.due.get(&rank).unwrap_or(&none);
            let read = self.read.get(&rank).unwrap_or(&none);
            if self.lost.contains(rank) || self.closed.contains(rank) {
                assert!(due.starts_with(read), "input of {rank:?}");
            } else {
                assert!(due == read, "input of {rank:?}: {} of {} bytes", read.len(), due.len());
            }
        }
    }
}

fn some_ranks(random: &mut Random) -> RankSet {
    let bits = random.next() & random.next();
    match random.below(4) {
        0 => RankSet::all(),
        1 => RankSet::from_iter([Rank(random.below(SIZE as usize) as u32)]),
        _ => (0..SIZE).filter(|rank| bits >> rank & 1 == 1).map(Rank).collect(),
    }
}

#[test]
fn no_byte_is_lost_doubled_or_torn_on_its_way_through_the_tree() {
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..2000 {
                world.step();
            }
            world.finish();
            world.check();
        });
        assert!(run.is_ok(), "seed {seed} shows a fault");
    }
}
