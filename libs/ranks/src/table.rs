//! The ranks of this host that were started, of all worlds.

use std::collections::BTreeMap;

use mpd_ending::{Pid, SignalTarget};
use mpd_wire::Rank;

use crate::output::{Slot, Way};
use crate::shim::Shim;

/// The rank of an adopted process.
pub(crate) const ADOPTED: Rank = Rank(0);

const SIGTERM: i32 = 15;

/// The process of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// A child. Until it is reaped, its process id and the id of the group that it leads are its own.
    Child(Pid),
    /// A process that ran before the job.
    Adopted {
        /// It has called `MPI_Abort`. It ends by itself, with a code that its user sees.
        has_aborted: bool,
    },
}

/// A rank that was started here.
#[derive(Debug)]
pub(crate) struct RankState {
    /// The process, until it is reaped or released.
    pub(crate) process: Option<Process>,
    /// The process id, for reports.
    pub(crate) number: u32,
    /// The launcher shim, if the process is one.
    pub(crate) shim: Option<Shim>,
    /// Whether both output streams have ended.
    pub(crate) is_silent: bool,
}

impl RankState {
    /// A rank without pipes.
    pub(crate) const fn of(process: Process, number: u32) -> Self {
        Self { process: Some(process), number, shim: None, is_silent: true }
    }

    /// The process, if it is a child.
    pub(crate) const fn child(&self) -> Option<Pid> {
        match self.process {
            Some(Process::Child(pid)) => Some(pid),
            Some(Process::Adopted { .. }) | None => None,
        }
    }

    /// The way of a signal to the process group or the process, unless the process has been reaped: only before that the
    /// group id is its own. A shim passes the signal on to the program's group.
    pub(crate) fn way(&self, signal: i32, target: &SignalTarget) -> Option<Way> {
        let order = self.shim.as_ref().and_then(|shim| shim.order_of(signal));
        Some(match (self.process.as_ref()?, order) {
            (Process::Child(pid), Some(order)) => Way::Shim(order, *pid),
            (Process::Child(pid), None) => {
                let is_alone = *target == SignalTarget::Process && self.shim.is_none();
                if is_alone { Way::Process(*pid) } else { Way::Group(*pid) }
            }
            (Process::Adopted { has_aborted: true }, _) if signal == SIGTERM => Way::None,
            // Its process group belongs to its user.
            (Process::Adopted { .. }, _) => Way::Adopted,
        })
    }
}

/// Ranks by number; only those of this host.
#[derive(Debug, Default)]
pub(crate) struct Table {
    ranks: BTreeMap<Rank, (Slot, RankState)>,
    by_pid: BTreeMap<Pid, Rank>,
    /// The rank at each slot. The slots of removed ranks are used again.
    slots: Vec<Option<Rank>>,
    free: Vec<Slot>,
}

impl Table {
    /// The number of started ranks.
    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// The slot of the next rank.
    pub(crate) fn next_slot(&self) -> Slot {
        self.free.last().copied().unwrap_or(Slot(self.slots.len()))
    }

    /// Adds a started rank, at [`Table::next_slot`].
    pub(crate) fn insert(&mut self, rank: Rank, state: RankState) {
        let slot = self.free.pop().unwrap_or(Slot(self.slots.len()));
        if slot.0 == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot.0] = Some(rank);
        if let Some(pid) = state.child() {
            self.by_pid.insert(pid, rank);
        }
        self.ranks.insert(rank, (slot, state));
    }

    /// Removes a rank whose descriptors are closed.
    pub(crate) fn remove(&mut self, rank: Rank) {
        if let Some((slot, _)) = self.ranks.remove(&rank) {
            self.slots[slot.0] = None;
            self.free.push(slot);
        }
    }

    /// The rank at a slot.
    pub(crate) fn at(&self, slot: Slot) -> Option<Rank> {
        self.slots.get(slot.0).copied().flatten()
    }

    /// The slot of a rank.
    pub(crate) fn slot_of(&self, rank: Rank) -> Option<Slot> {
        self.ranks.get(&rank).map(|(slot, _)| *slot)
    }

    /// The rank of a child.
    pub(crate) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.by_pid.get(&pid).copied()
    }

    /// The number of children that are ranks.
    pub(crate) fn children(&self) -> usize {
        self.by_pid.len()
    }

    /// Notes that the child is no longer a rank.
    pub(crate) fn forget_pid(&mut self, pid: Pid) -> Option<Rank> {
        self.by_pid.remove(&pid)
    }

    /// Notes that a rank has no process any more.
    pub(crate) fn end_process(&mut self, rank: Rank) {
        if let Some(state) = self.get_mut(rank) {
            state.process = None;
        }
    }

    /// Notes that a rank has called `MPI_Abort`. This has an effect only on an adopted process.
    pub(crate) fn note_abort(&mut self, rank: Rank) {
        if let Some(Process::Adopted { has_aborted }) =
            self.get_mut(rank).and_then(|state| state.process.as_mut())
        {
            *has_aborted = true;
        }
    }

    /// All ranks.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Rank, &RankState)> {
        self.ranks.iter().map(|(&rank, (_, state))| (rank, state))
    }

    /// The shims of all ranks that have one.
    pub(crate) fn shims_mut(&mut self) -> impl Iterator<Item = (Rank, &mut Shim)> {
        self.ranks.iter_mut().filter_map(|(&rank, (_, state))| Some((rank, state.shim.as_mut()?)))
    }

    /// The shim of a rank.
    pub(crate) fn shim_mut(&mut self, rank: Rank) -> Option<&mut Shim> {
        self.get_mut(rank)?.shim.as_mut()
    }

    /// Some children that are ranks: from the rank `next` on, and after the last one from the first one on. Moves `next`
    /// behind the last of them.
    pub(crate) fn next_children(&self, next: &mut Rank, most: usize) -> Vec<(Rank, Pid)> {
        let most = most.min(self.by_pid.len());
        let behind = self.ranks.range(*next..).chain(self.ranks.range(..*next));
        let children = behind.filter_map(|(&rank, (_, state))| Some((rank, state.child()?)));
        let some: Vec<_> = children.take(most).collect();
        if let Some((last, _)) = some.last() {
            *next = Rank(last.0 + 1);
        }
        some
    }

    /// A rank that was started here.
    pub(crate) fn get(&self, rank: Rank) -> Option<&RankState> {
        self.ranks.get(&rank).map(|(_, state)| state)
    }

    /// A rank that was started here, for changes.
    pub(crate) fn get_mut(&mut self, rank: Rank) -> Option<&mut RankState> {
        self.ranks.get_mut(&rank).map(|(_, state)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_children_are_found_in_turn() {
        let mut table = Table::default();
        for rank in 0..5 {
            let pid = 1000 + rank;
            let state = RankState::of(Process::Child(Pid(pid)), pid.cast_unsigned());
            table.insert(Rank(rank.cast_unsigned()), state);
        }
        let mut next = Rank(0);
        let mut some = |most| -> Vec<u32> {
            table.next_children(&mut next, most).iter().map(|(rank, _)| rank.0).collect()
        };
        assert_eq!([some(2), some(2), some(2)], [[0, 1], [2, 3], [4, 0]]);
        assert_eq!(some(64), [1, 2, 3, 4, 0], "each once");
    }

    #[test]
    fn the_slot_of_a_removed_rank_is_used_again() {
        let mut table = Table::default();
        for rank in 0..3 {
            table.insert(Rank(rank), RankState::of(Process::Child(Pid(7)), 7));
        }
        table.remove(Rank(1));
        assert_eq!((table.at(Slot(1)), table.next_slot()), (None, Slot(1)));
        table.insert(Rank(9), RankState::of(Process::Child(Pid(8)), 8));
        assert_eq!((table.at(Slot(1)), table.next_slot()), (Some(Rank(9)), Slot(3)));
        assert_eq!((table.slot_of(Rank(9)), table.at(Slot(3))), (Some(Slot(1)), None));
    }
}
