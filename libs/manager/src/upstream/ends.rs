//! The ends of ranks, for the console.

use mpd_wire::job::{RankEnd, World};
use mpd_wire::message::JobNews;
use mpd_wire::{Rank, RankSet};

/// Ends per message, so that a frame stays far below its limit.
const ENDS_PER_MESSAGE: usize = 4096;

/// The ends of ranks of one host; `end` returns the process id and the end of a rank.
pub(super) fn ends_of(
    host: &str,
    world: Option<World>,
    ranks: &RankSet,
    end: impl Fn(Rank) -> (u32, RankEnd),
) -> Vec<JobNews> {
    let all: Vec<Rank> = ranks.ranks().collect();
    let news = |part: &[Rank]| JobNews::Ends {
        host: host.to_owned(),
        world,
        ranks: part.iter().copied().collect(),
        ends: part.iter().map(|&rank| end(rank)).collect(),
    };
    all.chunks(ENDS_PER_MESSAGE).map(news).collect()
}
