//! What has happened to a job, as the kernels, the network and the user know it. The machines have no part in it.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::{HostSlices, RankEnd};

use super::links::host_of;

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The hosts of its first placement.
    pub(super) hosts: BTreeSet<usize>,
    /// Ranks whose processes were started.
    pub(super) started: BTreeSet<Rank>,
    /// How their processes ended.
    pub(super) ends: BTreeMap<Rank, RankEnd>,
    /// The ends to which a rank has come by itself.
    pub(super) ends_of_own: BTreeMap<Rank, RankEnd>,
    /// Ranks that a fault has killed, with the signals.
    pub(super) killed: BTreeMap<Rank, u8>,
    /// Bytes that ranks have written to each stream, and that a manager has read.
    pub(super) written: BTreeMap<(Rank, usize), usize>,
    pub(super) read: BTreeMap<(Rank, usize), usize>,
    /// A rank has aborted.
    pub(super) has_aborted: bool,
    /// Signals of the user to the console.
    pub(super) signals: BTreeSet<u8>,
    /// Signals of a user to the ranks, through the ring.
    pub(super) ordered_signals: BTreeSet<u8>,
    pub(super) is_kill_ordered: bool,
    /// A daemon has refused it, or there was none.
    pub(super) refused: bool,
    /// A host could start no process, or write no record, while it ran.
    pub(super) refused_starts: bool,
    /// A host had no program of ranks while it ran.
    pub(super) lacked_programs: bool,
    pub(super) has_refused_spawn: bool,
    /// A user has ordered more processes.
    pub(super) has_grown: bool,
    /// A user has started processes that connect with a rank which does not know of them.
    pub(super) has_strays: bool,
    /// Its console was killed.
    pub(super) lost_console: bool,
    /// A manager of it was killed.
    pub(super) lost_manager: bool,
    /// A host was cut, frozen or without power, or had no daemon at a time when it needed one.
    pub(super) is_disturbed: bool,
}

impl Facts {
    pub(super) fn placed_on(&mut self, host_slices: &HostSlices) {
        self.hosts.extend(host_slices.iter().map(|host_slice| host_of(&host_slice.member)));
    }

    /// Whether nothing has happened that ends a job early.
    pub(super) fn is_clean(&self) -> bool {
        let fails = |end: &RankEnd| *end != RankEnd::Exited(0);
        !self.ends_of_own.values().any(fails)
            && self.killed.is_empty()
            && !self.has_aborted
            && self.signals.is_empty()
            && self.ordered_signals.is_empty()
            && !self.is_kill_ordered
            && !self.refused
            && !self.refused_starts
            && !self.lacked_programs
            && !self.has_strays
            && !self.lost_console
            && !self.lost_manager
            && !self.is_disturbed
    }
}
