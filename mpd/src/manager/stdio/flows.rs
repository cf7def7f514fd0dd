//! Output on its way from the managers below: a flow per place and stream, held back by credit until
//! whoever may take it has room.

use std::collections::{BTreeMap, BTreeSet};

use mpd_stdio::inflow::Inflow;
use mpd_wire::job::{MAX_RANKS_EVER, Shares};
use mpd_wire::message::TREE_WINDOW;
use mpd_wire::{RankSet, Stream};

/// All flows of this manager.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: BTreeMap<(usize, Stream), Inflow>,
    /// Places that have not yet said that nothing more comes.
    undrained: BTreeSet<usize>,
}

impl Flows {
    /// Of the places directly below `place`.
    pub(crate) fn new(shares: &Shares, place: usize) -> Self {
        let undrained: BTreeSet<usize> = shares.children(place).collect();
        let both = |&child: &usize| {
            let mut ranks = shares.ranks_below(child);
            ranks.join(&spawned(shares.size()));
            Stream::BOTH.map(|s| ((child, s), Inflow::new(ranks.clone(), TREE_WINDOW)))
        };
        Self { flows: undrained.iter().flat_map(both).collect(), undrained }
    }

    /// Of a host that joined a job of that size.
    pub(crate) fn add(&mut self, place: usize, size: u32) {
        for stream in Stream::BOTH {
            self.flows.insert((place, stream), Inflow::new(spawned(size), TREE_WINDOW));
        }
        self.undrained.insert(place);
    }

    /// The flow of a stream of a place.
    pub(crate) fn get(&self, place: usize, stream: Stream) -> Option<&Inflow> {
        self.flows.get(&(place, stream))
    }

    /// The same, to fill it and to take from it.
    pub(crate) fn get_mut(&mut self, place: usize, stream: Stream) -> Option<&mut Inflow> {
        self.flows.get_mut(&(place, stream))
    }

    /// Flows with records that nobody has taken yet.
    pub(crate) fn waiting(&self) -> Vec<(usize, Stream)> {
        let waiting = self.flows.iter().filter(|(_, flow)| !flow.is_empty());
        waiting.map(|(&key, _)| key).collect()
    }

    /// Nothing more comes from `place`.
    pub(crate) fn drained(&mut self, place: usize) {
        self.undrained.remove(&place);
    }

    /// `place` is lost; what came from it before still counts, but a line without an end keeps nobody
    /// out any longer.
    pub(crate) fn lose(&mut self, place: usize) {
        self.undrained.remove(&place);
        for stream in Stream::BOTH {
            if let Some(flow) = self.flows.get_mut(&(place, stream)) {
                flow.break_off();
            }
        }
    }

    /// Whether nothing waits and nothing more comes.
    pub(crate) fn are_drained(&self) -> bool {
        self.undrained.is_empty() && self.flows.values().all(Inflow::is_empty)
    }

    /// Credit that is worth a message.
    pub(crate) fn take_credit(&mut self) -> Vec<(usize, Stream, u32)> {
        let credit = |(&(place, stream), flow): (&(usize, Stream), &mut Inflow)| {
            flow.take_credit().map(|bytes| (place, stream, bytes))
        };
        self.flows.iter_mut().filter_map(credit).collect()
    }
}

/// Ranks that a job of that size may spawn, wherever they run.
fn spawned(size: u32) -> RankSet {
    RankSet::from_ranges(vec![(size, MAX_RANKS_EVER)])
}
