//! The processes of a rank that get a signal.

use mpd_wire::{Rank, RankSet};

/// The processes of a rank that get a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalTarget {
    /// The process group of each rank.
    Group,
    /// The process groups of these ranks.
    Groups(RankSet),
    /// Only the process of each rank.
    Process,
}

impl SignalTarget {
    /// Whether this rank gets the signal.
    pub fn means(&self, rank: Rank) -> bool {
        match self {
            Self::Group | Self::Process => true,
            Self::Groups(ranks) => ranks.contains(rank),
        }
    }

    /// Whether the whole process group of a rank gets the signal.
    pub(crate) const fn means_groups(&self) -> bool {
        matches!(self, Self::Group | Self::Groups(_))
    }
}
