//! The part of a branch that handles spawned worlds: their parts on this host and below, and their messages.

use std::collections::BTreeSet;

use crate::manager::Output;
use crate::manager::branch::{Branch, BranchOutput, Branching, Child, Question};
use crate::manager::groups::GroupEntries;
use mpd_wire::job::{Failure, HostSlice, HostSlices, Parts, World};
use mpd_wire::message::{Down, FenceGroup, FenceMembers, Up};
use mpd_wire::{Rank, RankSet};

impl Branch {
    /// A command about worlds or single ranks, while the job runs.
    pub(super) fn command_worlds(&mut self, down: Down) {
        match down {
            Down::Grow { from, host_slices } => self.grow(from, host_slices),
            Down::World { world, parts } => self.begin_world(world, parts),
            Down::ReleaseGroup { ref group, .. } if !group.name.is_empty() => {
                self.release_named(group.clone(), down);
            }
            Down::Release { first }
            | Down::ReleaseGroup { first, .. }
            | Down::GoWorld { first }
            | Down::EndWorld { first } => self.command_world(first, down),
            Down::Forget { first } => self.forget_world(first, down),
            Down::Spawned { spawner: rank, .. } | Down::Interrupt { rank, .. } => {
                self.command_rank(rank, down);
            }
            Down::Retire { ranks } => self.retire(&ranks),
            Down::Dead { rank } => {
                self.pass_down(down);
                self.perform(Output::Dead(rank));
            }
            // They are about the whole job.
            Down::Spec { .. }
            | Down::Preloads { .. }
            | Down::Go
            | Down::Signal { .. }
            | Down::SignalProcesses { .. }
            | Down::Resize { .. }
            | Down::Stop { .. }
            | Down::Continue
            | Down::GoOn
            | Down::Kill
            | Down::Debug { .. }
            | Down::Restart
            | Down::Drain
            | Down::Discard
            | Down::CleanUp
            | Down::OutputCredit { .. }
            | Down::LookAt { .. }
            | Down::Pulse => {}
        }
    }

    /// Hosts join the job at the tree indices from `from` on. A host that has just joined knows some of them already.
    fn grow(&mut self, from: u32, host_slices: Vec<HostSlice>) {
        self.pass_down(Down::Grow { from, host_slices: host_slices.clone() });
        self.perform(Output::Grow(from, host_slices.clone()));
        let known = self.host_slices.len();
        if self.host_slices.join(from, host_slices).is_err() {
            return;
        }
        for tree_index in known..self.host_slices.len() {
            if HostSlices::parent(tree_index) == Some(self.tree_index) {
                self.children.extend(Child::at(&self.host_slices, tree_index));
            } else if let Some(host_slice) = self.host_slices.get(tree_index) {
                let over =
                    |child: &&mut Child| HostSlices::is_in_subtree(tree_index, child.tree_index);
                if let Some(child) = self.children.iter_mut().find(over) {
                    child.members.insert(host_slice.member.clone());
                }
            }
        }
    }

    /// Prepares a world, if it has a part in this subtree.
    fn begin_world(&mut self, world: World, parts: Parts) {
        let first = world.first;
        if self.worlds.contains_key(&first) || !parts.are_of(&world) {
            return;
        }
        let here = parts.at(self.tree_index);
        let mut children = Vec::new();
        for child in &mut self.children {
            let ranks =
                parts.at_all(|tree_index| HostSlices::is_in_subtree(tree_index, child.tree_index));
            if !ranks.is_empty() {
                child.ranks.join(&ranks);
                children.push(child.tree_index);
            }
        }
        let all = parts.at_all(|tree_index| HostSlices::is_in_subtree(tree_index, self.tree_index));
        self.ranks.join(&here);
        let reduce = self.reduce_of(&all);
        let is_concerned = !all.is_empty();
        let entries = GroupEntries::default();
        let libraries = BTreeSet::new();
        self.worlds.insert(first, Branching { world, here, children, reduce, entries, libraries });
        let tree_indices: Vec<usize> = self.with_part(first).into_iter().collect();
        if !tree_indices.is_empty() {
            self.emit(BranchOutput::Announce(tree_indices, world, parts.clone()));
        }
        if is_concerned || self.is_root() {
            self.emit_if_living(BranchOutput::Prepare(world, parts));
        }
        self.ask_world(Question::Prepared(first), first);
    }

    /// A command for the hosts with a part in a world.
    fn command_world(&mut self, first: Rank, down: Down) {
        let Some(world) = self.worlds.get_mut(&first) else { return };
        let output = match &down {
            Down::Release { .. } => {
                world.reduce.release();
                Output::ReleaseFence(first)
            }
            Down::ReleaseGroup { group, .. } => Output::ReleaseGroup(first, group.clone()),
            Down::GoWorld { .. } => Output::StartWorld(first),
            _ => Output::EndWorld(first),
        };
        let is_here = !world.here.is_empty();
        let begins = matches!(down, Down::GoWorld { .. });
        if matches!(output, Output::EndWorld(_)) {
            self.questions.remove(&Question::Prepared(first));
            self.questions.remove(&Question::WorldStarted(first));
        }
        self.emit_world(first, down);
        if is_here {
            self.perform(output);
        }
        if begins {
            self.ask_world(Question::WorldStarted(first), first);
        }
    }

    /// Releases the fence of a group whose members may belong to several worlds, on the hosts with members.
    fn release_named(&mut self, group: FenceGroup, down: Down) {
        let Down::ReleaseGroup { first, .. } = down else { return };
        let FenceMembers::Ranks(members) = &group.members else { return };
        let over = self.living_children().filter(|child| child.ranks.meets(members));
        let tree_indices: Vec<usize> = over.map(|child| child.tree_index).collect();
        let is_here = self.ranks.meets(members);
        if !tree_indices.is_empty() {
            self.push(Output::ToSome(tree_indices, down));
        }
        if is_here {
            self.perform(Output::ReleaseGroup(first, group));
        }
    }

    /// All ranks of a world have ended.
    fn forget_world(&mut self, first: Rank, down: Down) {
        self.emit_world(first, down);
        let Some(world) = self.worlds.remove(&first) else { return };
        self.questions.remove(&Question::Prepared(first));
        self.questions.remove(&Question::WorldStarted(first));
        self.ranks.remove(&world.here);
        for child in &mut self.children {
            child.ranks.remove(&world.world.ranks());
        }
        self.push(Output::ForgetWorld(first));
    }

    fn command_rank(&mut self, rank: Rank, down: Down) {
        if self.ranks.contains(rank) {
            if let Down::Spawned { outcome, .. } = down {
                self.emit_if_living(BranchOutput::Spawned(rank, outcome));
            } else if let Down::Interrupt { signal, .. } = down {
                self.perform(Output::Interrupt(rank, signal));
            }
            return;
        }
        let over = self.living_children().find(|child| child.ranks.contains(rank));
        if let Some(tree_index) = over.map(|child| child.tree_index) {
            self.push(Output::ToSome(vec![tree_index], down));
        }
    }

    /// These ranks are to end, wherever they run in the subtree.
    pub(super) fn retire(&mut self, ranks: &RankSet) {
        let over = self.living_children().filter(|child| child.ranks.meets(ranks));
        let tree_indices: Vec<usize> = over.map(|child| child.tree_index).collect();
        if !tree_indices.is_empty() {
            self.push(Output::ToSome(tree_indices, Down::Retire { ranks: ranks.clone() }));
        }
        let here: RankSet = ranks.ranks().filter(|rank| self.ranks.contains(*rank)).collect();
        if !here.is_empty() {
            self.perform(Output::Retire(here));
        }
    }

    /// Something of a world cannot be started on this host.
    pub(super) fn world_failed(&mut self, first: Rank, failure: Failure) {
        self.send_up(Up::WorldFailed { first, member: self.member.clone(), failure });
    }

    /// The world of a rank, if it has a part in this subtree.
    pub(super) fn world_of(&mut self, rank: Rank) -> Option<&mut Branching> {
        self.worlds.range_mut(..=rank).next_back().map(|(_, world)| world)
    }

    /// Sends a command to the children whose subtrees have a part in the world.
    fn emit_world(&mut self, first: Rank, down: Down) {
        let tree_indices: Vec<usize> = self.with_part(first).into_iter().collect();
        if !tree_indices.is_empty() {
            self.push(Output::ToSome(tree_indices, down));
        }
    }

    fn ask_world(&mut self, question: Question, first: Rank) {
        let mut waiting = self.with_part(first);
        if self.worlds.get(&first).is_some_and(|world| !world.here.is_empty()) {
            waiting.insert(self.tree_index);
        }
        // The loss of a child was reported already.
        let nobody = waiting.is_empty();
        if nobody {
            waiting.insert(self.tree_index);
        }
        self.questions.insert(question, waiting);
        if nobody {
            self.answer(question, self.tree_index);
        }
    }

    /// The tree indices of the living children whose subtrees have a part in a world.
    fn with_part(&self, first: Rank) -> BTreeSet<usize> {
        let Some(world) = self.worlds.get(&first) else { return BTreeSet::new() };
        let living = self.living_children().map(|child| child.tree_index);
        living.filter(|tree_index| world.children.contains(tree_index)).collect()
    }
}
