//! A job whose ranks are debuggers: their programs start and end while the ranks stay.
//!
//! A restart renews everything that the programs share, on every host, while no program runs. Its
//! messages travel with those of fences. All messages of the earlier run were therefore sent before
//! it.

use crate::manager::Output;
use crate::manager::branch::{Branch, Question};
use crate::manager::job::{Job, Phase};
use mpd_wire::message::{Down, MAX_DEBUG_LINE};
use mpd_wire::{Rank, RankSet};

/// Most ranges of ranks in one message: with the longest line they fit a frame of a job link.
const MAX_RANGES: usize = 1000;

impl Branch {
    /// Passes a line to debuggers here and below.
    pub(super) fn command_debuggers(&mut self, ranks: &RankSet, line: String) {
        // Spawned ranks may be on any host.
        let is_any = !ranks.is_within(&RankSet::below(self.host_slices.size()));
        let concerned = |child: &&crate::manager::branch::Child| is_any || child.ranks.meets(ranks);
        let children: Vec<usize> =
            self.living_children().filter(concerned).map(|child| child.tree_index).collect();
        // The debuggers here must expect an answer before one can come.
        self.perform(Output::Debug(ranks.clone(), line.clone()));
        if !children.is_empty() {
            self.push(Output::ToSome(children, Down::Debug { ranks: ranks.clone(), line }));
        }
    }

    /// Starts the programs of the first world again.
    pub(super) fn restart(&mut self) {
        let ranks = self.host_slices.subtree_ranks(self.tree_index);
        let reduce = self.reduce_of(&ranks);
        if let Some(world) = self.worlds.get_mut(&Rank(0)) {
            world.reduce = reduce;
            world.entries.clear();
        }
        self.pass_down(Down::Restart);
        self.ask(Question::Restarted);
        self.perform(Output::Restart);
    }
}

impl Job {
    /// Sends the console's line to debuggers.
    pub(super) fn debug(&mut self, ranks: RankSet, line: String) {
        if !self.debugged || self.phase != Phase::Running || line.len() > MAX_DEBUG_LINE {
            return;
        }
        for ranks in ranks.parts(MAX_RANGES) {
            self.command(Down::Debug { ranks, line: line.clone() });
        }
    }

    /// The console requests a restart of the programs. The worlds that they have spawned end.
    pub(super) fn restart(&mut self) {
        if !self.debugged || self.phase != Phase::Running {
            return;
        }
        self.end_worlds(self.rank_table.spawned());
        self.rank_table.restart();
        self.command(Down::Restart);
    }
}
