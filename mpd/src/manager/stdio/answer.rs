//! Questions of the root about ranks for which merged lines wait, and the answers of hosts.

use mpd_wire::{RankSet, Stream};

/// What a host says about ranks in one stream.
#[derive(Debug)]
pub(in crate::manager) struct Answer {
    /// The child from which it came; `None` if it is about ranks here.
    pub(in crate::manager) child: Option<usize>,
    pub(in crate::manager) stream: Stream,
    /// Ranks that get no CPU, or whose output is on its way.
    pub(in crate::manager) behind: RankSet,
    pub(in crate::manager) others: RankSet,
}

/// Questions and answers of this turn.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Ranks here to look at, by stream.
    pub(super) asked: [RankSet; 2],
    pub(super) answers: Vec<Answer>,
}
