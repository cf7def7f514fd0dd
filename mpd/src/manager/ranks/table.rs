//! The ranks of this host that were started, of all worlds, and the tokens of their descriptors.

use std::collections::BTreeMap;

use mpd_wire::{Rank, Stream};
use nix::unistd::Pid;

use super::process::RankProcess;

/// Tokens per rank: stdin, stdout, stderr, PMI, watcher.
const TOKENS: usize = 5;

/// Which descriptor of a rank an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stdin,
    Output(Stream),
    Pmi,
    Watcher,
}

impl End {
    const fn of(token: usize) -> Self {
        match token % TOKENS {
            0 => Self::Stdin,
            1 => Self::Output(Stream::Out),
            2 => Self::Output(Stream::Err),
            3 => Self::Pmi,
            _ => Self::Watcher,
        }
    }

    pub(super) const fn offset(self) -> usize {
        match self {
            Self::Stdin => 0,
            Self::Output(Stream::Out) => 1,
            Self::Output(Stream::Err) => 2,
            Self::Pmi => 3,
            Self::Watcher => 4,
        }
    }
}

/// Processes by rank. A rank of another host has none here.
#[derive(Debug)]
pub(super) struct Table {
    first_token: usize,
    processes: BTreeMap<Rank, (usize, RankProcess)>,
    by_pid: BTreeMap<Pid, Rank>,
    /// Which rank has which tokens; those of ranks that are gone are given out again.
    slots: Vec<Option<Rank>>,
    free: Vec<usize>,
}

impl Table {
    /// None started yet. Tokens are the ranks' from `first_token` on.
    pub(super) const fn new(first_token: usize) -> Self {
        Self {
            first_token,
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    /// The first of the tokens that the next rank will have.
    pub(super) fn next_token(&self) -> usize {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.first_token + slot * TOKENS
    }

    /// A rank was started, with [`Table::next_token`].
    pub(super) fn insert(&mut self, rank: Rank, process: RankProcess) {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(rank);
        if let Some(pid) = process.child() {
            self.by_pid.insert(pid, rank);
        }
        self.processes.insert(rank, (slot, process));
    }

    /// Nothing more is expected of a rank, whose descriptors are closed.
    pub(super) fn remove(&mut self, rank: Rank) {
        if let Some((slot, _)) = self.processes.remove(&rank) {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// The first of the tokens of a rank.
    pub(super) fn token_of(&self, rank: Rank) -> Option<usize> {
        self.processes.get(&rank).map(|(slot, _)| self.first_token + slot * TOKENS)
    }

    /// Whose token that is, and for what.
    pub(super) fn of_token(&self, token: usize) -> Option<(Rank, End)> {
        let at = token.checked_sub(self.first_token)?;
        let rank = self.slots.get(at / TOKENS).copied().flatten()?;
        Some((rank, End::of(at)))
    }

    /// The rank that a child of ours is.
    pub(super) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.by_pid.get(&pid).copied()
    }

    /// Children that are ranks.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.by_pid.keys().copied()
    }

    /// That child is no rank any more.
    pub(super) fn forget_pid(&mut self, pid: Pid) -> Option<Rank> {
        self.by_pid.remove(&pid)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (Rank, &RankProcess)> {
        self.processes.iter().map(|(&rank, (_, process))| (rank, process))
    }

    /// The same, to change them.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (Rank, &mut RankProcess)> {
        self.processes.iter_mut().map(|(&rank, (_, process))| (rank, process))
    }

    /// The process of a rank that was started here.
    pub(super) fn get(&self, rank: Rank) -> Option<&RankProcess> {
        self.processes.get(&rank).map(|(_, process)| process)
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, rank: Rank) -> Option<&mut RankProcess> {
        self.processes.get_mut(&rank).map(|(_, process)| process)
    }
}
