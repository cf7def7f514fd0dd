//! The ranks of this host that were started, of all worlds, and the tokens of their descriptors.

use std::collections::BTreeMap;

use mpd_wire::Rank;
use nix::unistd::Pid;

use super::descriptors::{RankDescriptor, TOKENS};
use super::process::RankProcess;

/// Processes by rank; only ranks of this host.
#[derive(Debug)]
pub(super) struct Table {
    first_token: usize,
    processes: BTreeMap<Rank, (usize, RankProcess)>,
    by_pid: BTreeMap<Pid, Rank>,
    /// The rank of each group of tokens. The tokens of removed ranks are used again.
    slots: Vec<Option<Rank>>,
    free: Vec<usize>,
}

impl Table {
    /// An empty table. The tokens of ranks begin at `first_token`.
    pub(super) const fn new(first_token: usize) -> Self {
        Self {
            first_token,
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The number of started ranks.
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    /// The first token of the next rank.
    pub(super) fn next_token(&self) -> usize {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.first_token + slot * TOKENS
    }

    /// Adds a started rank, with [`Table::next_token`].
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

    /// Removes a rank whose descriptors are closed.
    pub(super) fn remove(&mut self, rank: Rank) {
        if let Some((slot, _)) = self.processes.remove(&rank) {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// The ranks, each with the first of its tokens.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (Rank, usize)> {
        let token = |slot: &usize| self.first_token + slot * TOKENS;
        self.processes.iter().map(move |(&rank, (slot, _))| (rank, token(slot)))
    }

    /// The rank and the descriptor of a token.
    pub(super) fn of_token(&self, token: usize) -> Option<(Rank, RankDescriptor)> {
        let at = token.checked_sub(self.first_token)?;
        let rank = self.slots.get(at / TOKENS).copied().flatten()?;
        Some((rank, RankDescriptor::of(at)))
    }

    /// The rank of a child.
    pub(super) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.by_pid.get(&pid).copied()
    }

    /// The number of children that are ranks.
    pub(super) fn children(&self) -> usize {
        self.by_pid.len()
    }

    /// Notes that the child is no longer a rank.
    pub(super) fn forget_pid(&mut self, pid: Pid) -> Option<Rank> {
        self.by_pid.remove(&pid)
    }

    /// All ranks, for changes.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (Rank, &mut RankProcess)> {
        self.processes.iter_mut().map(|(&rank, (_, process))| (rank, process))
    }

    /// Some children that are ranks: from the rank `next` on, and after the last one from the first one on. Moves `next`
    /// behind the last of them.
    pub(super) fn next_children(&self, next: &mut Rank, most: usize) -> Vec<(Rank, Pid)> {
        let most = most.min(self.by_pid.len());
        let behind = self.processes.range(*next..).chain(self.processes.range(..*next));
        let children = behind.filter_map(|(&rank, (_, process))| Some((rank, process.child()?)));
        let some: Vec<_> = children.take(most).collect();
        if let Some((last, _)) = some.last() {
            *next = Rank(last.0 + 1);
        }
        some
    }

    /// The process of a rank that was started here.
    pub(super) fn get(&self, rank: Rank) -> Option<&RankProcess> {
        self.processes.get(&rank).map(|(_, process)| process)
    }

    /// The process of a rank that was started here, for changes.
    pub(super) fn get_mut(&mut self, rank: Rank) -> Option<&mut RankProcess> {
        self.processes.get_mut(&rank).map(|(_, process)| process)
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Handle;
    use super::*;

    #[test]
    fn some_children_are_found_in_turn() {
        let mut table = Table::new(100);
        for rank in 0..5 {
            let pid = 1000 + rank;
            let process = RankProcess::of(Handle::Child(Pid::from_raw(pid)), pid.cast_unsigned());
            table.insert(Rank(rank.cast_unsigned()), process);
        }
        let mut next = Rank(0);
        let mut some = |most| -> Vec<u32> {
            table.next_children(&mut next, most).iter().map(|(rank, _)| rank.0).collect()
        };
        assert_eq!([some(2), some(2), some(2)], [[0, 1], [2, 3], [4, 0]]);
        assert_eq!(some(64), [1, 2, 3, 4, 0], "each once");
    }
}
