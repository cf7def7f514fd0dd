//! Output on its way from child managers: one flow per child and stream. Credit holds a flow back until the next
//! output has room.

use std::collections::{BTreeMap, BTreeSet};

use crate::inflow::Inflow;
use mpd_wire::job::{HostSlices, MAX_RANKS_EVER};
use mpd_wire::message::TREE_WINDOW;
use mpd_wire::{RankSet, Stream};

/// All flows of this manager.
#[derive(Debug)]
pub(super) struct Flows {
    flows: BTreeMap<(usize, Stream), Inflow>,
    /// Children that have not reported the end of their output.
    undrained: BTreeSet<usize>,
}

impl Flows {
    /// The children that have not reported the end of their output, and are not lost.
    pub(super) fn undrained(&self) -> impl Iterator<Item = usize> + '_ {
        self.undrained.iter().copied()
    }

    /// The flows of the children of `tree_index`.
    pub(super) fn new(host_slices: &HostSlices, tree_index: usize) -> Self {
        let undrained: BTreeSet<usize> = host_slices.children(tree_index).collect();
        let both = |&child: &usize| {
            let mut ranks = host_slices.subtree_ranks(child);
            ranks.join(&spawned(host_slices.size()));
            Stream::BOTH.map(|s| ((child, s), Inflow::new(ranks.clone(), TREE_WINDOW)))
        };
        Self { flows: undrained.iter().flat_map(both).collect(), undrained }
    }

    /// Adds the flows of a host that joined a job of that size.
    pub(super) fn add(&mut self, tree_index: usize, size: u32) {
        for stream in Stream::BOTH {
            self.flows.insert((tree_index, stream), Inflow::new(spawned(size), TREE_WINDOW));
        }
        self.undrained.insert(tree_index);
    }

    /// The flow of a stream of a child.
    pub(super) fn get(&self, tree_index: usize, stream: Stream) -> Option<&Inflow> {
        self.flows.get(&(tree_index, stream))
    }

    /// The flow of a stream of a child, for changes.
    pub(super) fn get_mut(&mut self, tree_index: usize, stream: Stream) -> Option<&mut Inflow> {
        self.flows.get_mut(&(tree_index, stream))
    }

    /// Flows with records that are not taken yet.
    pub(super) fn waiting(&self) -> Vec<(usize, Stream)> {
        let waiting = self.flows.iter().filter(|(_, flow)| !flow.is_empty());
        waiting.map(|(&key, _)| key).collect()
    }

    /// Notes that `tree_index` has sent all its output.
    pub(super) fn drained(&mut self, tree_index: usize) {
        self.undrained.remove(&tree_index);
    }

    /// Gives up the flows of `tree_index`, which is lost. Received output still counts, but an unfinished line no
    /// longer blocks other writers.
    pub(super) fn lose(&mut self, tree_index: usize) {
        self.undrained.remove(&tree_index);
        for stream in Stream::BOTH {
            if let Some(flow) = self.flows.get_mut(&(tree_index, stream)) {
                flow.break_off();
            }
        }
    }

    /// Whether no record waits and no more output comes.
    pub(super) fn are_drained(&self) -> bool {
        self.undrained.is_empty() && self.flows.values().all(Inflow::is_empty)
    }

    /// The credits that are large enough for a message.
    pub(super) fn take_credit(&mut self) -> Vec<(usize, Stream, u32)> {
        let credit = |(&(tree_index, stream), flow): (&(usize, Stream), &mut Inflow)| {
            flow.take_credit().map(|bytes| (tree_index, stream, bytes))
        };
        self.flows.iter_mut().filter_map(credit).collect()
    }
}

/// Ranks that a job of that size may spawn, on any host.
fn spawned(size: u32) -> RankSet {
    RankSet::from_ranges(vec![(size, MAX_RANKS_EVER)])
}
