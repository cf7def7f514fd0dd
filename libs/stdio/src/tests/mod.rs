//! Output and input of a job through a tree of managers, in turns of any order.

mod input;
mod output;

use mpd_wire::{Rank, RankSet};

/// The ranks at each place, and the place above: three levels, the root with ranks of its own.
const RANKS: [&[u32]; 4] = [&[0, 3], &[1, 5], &[2], &[4, 6]];
const ABOVE: [usize; 4] = [0, 0, 0, 1];
const SIZE: u32 = 7;

fn set(ranks: &[u32]) -> RankSet {
    ranks.iter().map(|&rank| Rank(rank)).collect()
}

/// The places directly below this one.
fn below(place: usize) -> impl Iterator<Item = usize> {
    (1..ABOVE.len()).filter(move |&other| ABOVE[other] == place)
}

/// The ranks at this place and below.
fn subtree(place: usize) -> RankSet {
    let mut ranks = set(RANKS[place]);
    for other in below(place) {
        ranks.join(&subtree(other));
    }
    ranks
}
