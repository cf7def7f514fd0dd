use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::{PARENT, RANKS, SIZE, children, set, subtree};
use crate::feed::{Feed, Receiver};
use crate::input::Stdin;
use mpd_wire::{Rank, RankSet};

const WINDOW: usize = 64;

/// A manager's message about input to its parent.
#[derive(Clone, Copy, Debug)]
enum Word {
    Credit(u32),
    Unwanted(u32),
}

struct Host {
    feed: Feed,
    /// Payloads on their way down to this tree index.
    down: VecDeque<Vec<u8>>,
    /// Messages on their way up from this tree index.
    up: VecDeque<Word>,
}

struct Job {
    hosts: Vec<Host>,
    /// Bytes that the console may still send.
    credit: usize,
    /// Whether the console was informed that no rank receives.
    unwanted: bool,
    /// The ranks that receive the next bytes, and the bytes that each rank should have been given.
    current: RankSet,
    due: BTreeMap<u32, Vec<u8>>,
    given: BTreeMap<u32, Vec<u8>>,
    closed: RankSet,
    /// Ranks that received the end.
    done: RankSet,
    next_byte: u8,
}

fn receivers(at: usize, ranks: &RankSet) -> Vec<Receiver> {
    let subtrees: Vec<_> = children(at).map(|host| (host, subtree(host))).collect();
    let children = subtrees.iter().map(|(host, ranks)| (*host, ranks));
    Receiver::of(ranks, &set(RANKS[at]), children)
}

impl Job {
    fn new(first: &RankSet) -> Self {
        let host = |at| Host {
            feed: Feed::new(receivers(at, first), receivers(at, &RankSet::all()), WINDOW),
            down: VecDeque::new(),
            up: VecDeque::new(),
        };
        let mut job = Self {
            hosts: (0..RANKS.len()).map(host).collect(),
            credit: 0,
            unwanted: false,
            current: first.clone(),
            due: BTreeMap::new(),
            given: BTreeMap::new(),
            closed: RankSet::none(),
            done: RankSet::none(),
            next_byte: 0,
        };
        (0..RANKS.len()).for_each(|at| job.speak(at));
        job
    }

    /// Passes the feed's messages to the sender.
    fn speak(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let unwanted = host.feed.take_unwanted().map(Word::Unwanted);
        let credit = host.feed.take_credit().map(Word::Credit);
        for word in [unwanted, credit].into_iter().flatten() {
            match word {
                _ if at > 0 => host.up.push_back(word),
                Word::Credit(bytes) => {
                    self.credit += bytes as usize;
                    self.unwanted = false;
                }
                Word::Unwanted(_) => self.unwanted = true,
            }
        }
    }

    fn push(&mut self, most: usize) -> bool {
        let length = most.min(self.credit);
        if length == 0 || self.unwanted {
            return false;
        }
        let bytes: Vec<u8> = (0..length).map(|n| self.next_byte.wrapping_add(n as u8)).collect();
        self.next_byte = self.next_byte.wrapping_add(length as u8);
        self.credit -= length;
        self.hosts[0].feed.push(&bytes).unwrap();
        for rank in (0..SIZE).filter(|&rank| self.current.contains(Rank(rank))) {
            self.due.entry(rank).or_default().extend_from_slice(&bytes);
        }
        self.speak(0);
        true
    }

    fn switch(&mut self, ranks: RankSet) {
        self.hosts[0].feed.switch(&ranks, receivers(0, &ranks)).unwrap();
        self.current = ranks;
        self.speak(0);
    }

    /// A receiver gets its next item, `most` bytes at most.
    fn give(&mut self, at: usize, receiver: Receiver, most: usize) -> bool {
        let feed = &mut self.hosts[at].feed;
        let Some(next) = feed.next(receiver) else { return false };
        match (receiver, next) {
            (Receiver::Rank(rank), Stdin::Bytes(bytes)) => {
                let length = most.min(bytes.len());
                self.given.entry(rank.0).or_default().extend_from_slice(&bytes[..length]);
                feed.took(receiver, length);
            }
            (Receiver::Rank(rank), Stdin::End) => {
                self.done.insert(rank);
                feed.reported(receiver);
            }
            (Receiver::Rank(_), Stdin::Switch(_)) => panic!("a rank is told nothing"),
            (Receiver::Child(host), Stdin::Bytes(bytes)) => {
                let length = most.min(bytes.len());
                let payload = Stdin::Bytes(&bytes[..length]).encode();
                feed.took(receiver, length);
                self.hosts[host].down.push_back(payload);
            }
            (Receiver::Child(host), word) => {
                let payload = word.encode();
                feed.reported(receiver);
                self.hosts[host].down.push_back(payload);
            }
        }
        self.speak(at);
        true
    }

    /// A payload arrives.
    fn arrive(&mut self, at: usize) -> bool {
        let Some(payload) = self.hosts[at].down.pop_front() else { return false };
        let feed = &mut self.hosts[at].feed;
        match Stdin::decode(&payload).unwrap() {
            Stdin::Bytes(bytes) => feed.push(bytes).unwrap(),
            Stdin::Switch(ranks) => feed.switch(&ranks, receivers(at, &ranks)).unwrap(),
            Stdin::End => feed.end(),
        }
        self.speak(at);
        true
    }

    /// A message arrives at the parent.
    fn receive(&mut self, at: usize) -> bool {
        let Some(word) = self.hosts[at].up.pop_front() else { return false };
        let feed = &mut self.hosts[PARENT[at]].feed;
        match word {
            Word::Credit(bytes) => feed.grant(at, bytes),
            Word::Unwanted(switches) => feed.drop_out_child(at, switches),
        }
        self.speak(PARENT[at]);
        true
    }

    /// A rank closes its input.
    fn close(&mut self, rank: Rank) {
        let at = RANKS.iter().position(|ranks| ranks.contains(&rank.0)).unwrap();
        self.closed.insert(rank);
        self.hosts[at].feed.drop_out(Receiver::Rank(rank));
        self.speak(at);
    }

    fn turn(&mut self, what: u8, pick: u8) {
        let at = usize::from(pick) % RANKS.len();
        match what % 32 {
            0 => self.close(Rank(u32::from(pick) % SIZE)),
            1 | 2 => self.switch((0..7).filter(|n| pick >> n & 1 == 1).map(Rank).collect()),
            3 => self.switch(set(&[u32::from(pick) % SIZE])),
            4..8 => drop(self.push(usize::from(pick) % 40)),
            8..14 => drop(self.arrive(at)),
            14..20 => drop(self.receive(at)),
            _ => {
                let receivers: Vec<_> = self.hosts[at].feed.receivers().collect();
                if let Some(&receiver) = receivers.get(usize::from(pick) / 4 % 4) {
                    self.give(at, receiver, usize::from(what) % 9 + 1);
                }
            }
        }
    }

    fn settle(&mut self) {
        loop {
            let mut moved = 0;
            for at in 0..RANKS.len() {
                let receivers: Vec<_> = self.hosts[at].feed.receivers().collect();
                for receiver in receivers {
                    moved += usize::from(self.give(at, receiver, 50));
                }
                moved += usize::from(self.arrive(at)) + usize::from(self.receive(at));
            }
            if moved == 0 {
                return;
            }
        }
    }
}

proptest! {
    #[test]
    fn each_rank_gets_exactly_what_was_pushed_while_it_received(
        first in 0u8..128, turns in proptest::collection::vec(any::<(u8, u8)>(), 0..500),
    ) {
        let first = (0..7).filter(|n| first >> n & 1 == 1).map(Rank).collect();
        let mut job = Job::new(&first);
        for (what, pick) in turns {
            job.turn(what, pick);
        }
        job.settle();
        let open = |job: &Job| job.current.ranks().any(|rank| !job.closed.contains(rank));
        // As long as a rank receives, the console can continue.
        if open(&job) {
            prop_assert!(job.push(1));
            job.settle();
        }
        job.hosts[0].feed.end();
        job.settle();
        let none = Vec::new();
        for rank in 0..SIZE {
            let due = job.due.get(&rank).unwrap_or(&none);
            let given = job.given.get(&rank).unwrap_or(&none);
            if job.closed.contains(Rank(rank)) {
                prop_assert!(due.starts_with(given), "rank {}", rank);
            } else {
                prop_assert_eq!(given, due, "rank {}", rank);
                prop_assert!(job.done.contains(Rank(rank)), "rank {} waits for ever", rank);
            }
        }
    }

    #[test]
    fn input_that_no_rank_takes_stops_at_the_console(first in 1u8..128) {
        let first: RankSet = (0..7).filter(|n| first >> n & 1 == 1).map(Rank).collect();
        let mut job = Job::new(&first);
        job.settle();
        for rank in first.ranks() {
            job.close(rank);
        }
        job.settle();
        prop_assert!(job.unwanted && !job.push(1));
        job.switch(RankSet::below(SIZE));
        job.settle();
        let somebody = first != RankSet::below(SIZE);
        prop_assert_eq!(job.push(1), somebody);
    }
}
