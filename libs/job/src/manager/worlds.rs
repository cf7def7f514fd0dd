//! What a branch does for worlds that are spawned: who has a part in them, and what goes to whom.

use std::collections::BTreeSet;

use crate::manager::Output;
use crate::manager::branch::{Branch, Branching, Child, Question};
use crate::manager::groups::GroupEntries;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, Parts, Share, Shares, World};
use mpd_wire::message::{Down, Up};

impl Branch {
    /// A command about worlds or single ranks, while the job runs.
    pub(super) fn command_worlds(&mut self, down: Down) {
        match down {
            Down::Grow { from, shares } => self.grow(from, shares),
            Down::World { world, parts } => self.begin_world(world, parts),
            Down::Release { first }
            | Down::ReleaseGroup { first, .. }
            | Down::GoWorld { first }
            | Down::EndWorld { first } => self.command_world(first, down),
            Down::Forget { first } => self.forget_world(first, down),
            Down::Spawned { spawner: rank, .. } | Down::Interrupt { rank, .. } => {
                self.command_rank(rank, down);
            }
            Down::Dead { rank } => {
                self.pass_down(down);
                self.perform(Output::Dead(rank));
            }
            _ => {}
        }
    }

    /// Hosts join the job at the places from `from` on. Who has just joined has heard of some already.
    fn grow(&mut self, from: u32, shares: Vec<Share>) {
        self.pass_down(Down::Grow { from, shares: shares.clone() });
        self.perform(Output::Grow(from, shares.clone()));
        let known = self.shares.len();
        if self.shares.join(from, shares).is_err() {
            return;
        }
        for place in known..self.shares.len() {
            if Shares::parent(place) == Some(self.place) {
                self.children.extend(Child::at(&self.shares, place));
            } else if let Some(share) = self.shares.get(place) {
                let over = |child: &&mut Child| Shares::is_below(place, child.place);
                if let Some(child) = self.children.iter_mut().find(over) {
                    child.members.insert(share.member.clone());
                }
            }
        }
    }

    /// A world is to be started, if somebody has a part in it here or below.
    fn begin_world(&mut self, world: World, parts: Parts) {
        let first = world.first;
        if self.worlds.contains_key(&first) || !parts.are_of(&world) {
            return;
        }
        let here = parts.at(self.place);
        let mut below = Vec::new();
        for child in &mut self.children {
            let ranks = parts.at_all(|place| Shares::is_below(place, child.place));
            if !ranks.is_empty() {
                child.ranks.join(&ranks);
                below.push(child.place);
            }
        }
        let all = parts.at_all(|place| Shares::is_below(place, self.place));
        self.ranks.join(&here);
        let reduce = self.reduce_of(&all);
        let is_concerned = !all.is_empty();
        let entries = GroupEntries::default();
        self.worlds.insert(first, Branching { world, here, below, reduce, entries });
        self.tell_world(first, Down::World { world, parts: parts.clone() });
        if is_concerned || self.is_root() {
            self.perform(Output::Prepare(world, parts));
        }
        self.ask_world(Question::Prepared(first), first);
    }

    /// A command for those with a part in a world.
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
            self.questions.remove(&Question::Begun(first));
        }
        self.tell_world(first, down);
        if is_here {
            self.perform(output);
        }
        if begins {
            self.ask_world(Question::Begun(first), first);
        }
    }

    /// All ranks of a world have ended.
    fn forget_world(&mut self, first: Rank, down: Down) {
        self.tell_world(first, down);
        let Some(world) = self.worlds.remove(&first) else { return };
        self.questions.remove(&Question::Prepared(first));
        self.questions.remove(&Question::Begun(first));
        self.ranks.remove(&world.here);
        for child in &mut self.children {
            child.ranks.remove(&world.world.ranks());
        }
        self.push(Output::ForgetWorld(first));
    }

    /// A command for one rank.
    fn command_rank(&mut self, rank: Rank, down: Down) {
        if self.ranks.contains(rank) {
            match down {
                Down::Spawned { outcome, .. } => self.perform(Output::Spawned(rank, outcome)),
                Down::Interrupt { signal, .. } => self.perform(Output::Interrupt(rank, signal)),
                _ => {}
            }
            return;
        }
        let over = self.living_children().find(|child| child.ranks.contains(rank));
        if let Some(place) = over.map(|child| child.place) {
            self.push(Output::ToSome(vec![place], down));
        }
    }

    /// Something of a world cannot be started on this host.
    pub(super) fn world_failed(&mut self, first: Rank, failure: Failure) {
        self.say(Up::WorldFailed { first, member: self.member.clone(), failure });
    }

    /// The world that a rank belongs to, if it has a part here or below.
    pub(super) fn world_of(&mut self, rank: Rank) -> Option<&mut Branching> {
        self.worlds.range_mut(..=rank).next_back().map(|(_, world)| world)
    }

    /// Those directly below with a part in the world hear of it.
    fn tell_world(&mut self, first: Rank, down: Down) {
        let places: Vec<usize> = self.with_part(first).into_iter().collect();
        if !places.is_empty() {
            self.push(Output::ToSome(places, down));
        }
    }

    fn ask_world(&mut self, question: Question, first: Rank) {
        let mut waiting = self.with_part(first);
        if self.worlds.get(&first).is_some_and(|world| !world.here.is_empty()) {
            waiting.insert(self.place);
        }
        // Whoever is lost has told that already.
        let nobody = waiting.is_empty();
        if nobody {
            waiting.insert(self.place);
        }
        self.questions.insert(question, waiting);
        if nobody {
            self.answer(question, self.place);
        }
    }

    /// The places directly below that live and have a part in a world.
    fn with_part(&self, first: Rank) -> BTreeSet<usize> {
        let Some(world) = self.worlds.get(&first) else { return BTreeSet::new() };
        let living = self.living_children().map(|child| child.place);
        living.filter(|place| world.below.contains(place)).collect()
    }
}
