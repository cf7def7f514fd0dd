//! Output and input of a job through a tree of managers, in turns of any order.

mod input;
mod output;

use mpd_wire::{Rank, RankSet};

/// The ranks at each tree index, and the tree index above: three levels, the root with ranks of its own.
const RANKS: [&[u32]; 4] = [&[0, 3], &[1, 5], &[2], &[4, 6]];
const PARENT: [usize; 4] = [0, 0, 0, 1];
const SIZE: u32 = 7;

fn set(ranks: &[u32]) -> RankSet {
    ranks.iter().map(|&rank| Rank(rank)).collect()
}

/// The tree indices directly below this one.
fn children(tree_index: usize) -> impl Iterator<Item = usize> {
    (1..PARENT.len()).filter(move |&other| PARENT[other] == tree_index)
}

/// The ranks at this tree index and below.
fn subtree(tree_index: usize) -> RankSet {
    let mut ranks = set(RANKS[tree_index]);
    for other in children(tree_index) {
        ranks.join(&subtree(other));
    }
    ranks
}
