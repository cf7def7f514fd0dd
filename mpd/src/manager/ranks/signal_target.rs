//! The processes of a rank that get a signal.

use mpd_wire::{Rank, RankSet};

/// The processes of a rank that get a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manager) enum SignalTarget {
    /// The process group of each rank.
    Group,
    /// The process groups of these ranks.
    Groups(RankSet),
    /// Only the process of each rank.
    Process,
}

impl SignalTarget {
    /// Whether this rank gets the signal.
    pub(in crate::manager) fn means(&self, rank: Rank) -> bool {
        match self {
            Self::Group | Self::Process => true,
            Self::Groups(ranks) => ranks.contains(rank),
        }
    }
}
