//! The roll of a job: every rank of every world that lives, as the root knows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::manager::WorldEnds;
use crate::manager::fence::Fence;
use crate::manager::groups::GroupFences;
use mpd_wire::job::{Failure, Parts, RankEnd, Shares, World};
use mpd_wire::message::{FenceGroup, FenceMembers};
use mpd_wire::{DaemonName, Rank, RankSet};

/// How a rank stands with PMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pmi {
    #[default]
    Unused,
    Initialized,
    Finalized,
}

/// A rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) pmi: Pmi,
    pub(super) end: Option<RankEnd>,
}

/// How far the start of a world has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Preparing,
    Starting,
    Running,
    /// It could not be started, and what there is of it is being removed.
    Failed,
}

/// A world that was spawned.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) stage: Stage,
    pub(super) spawner: Rank,
    pub(super) kvsname: String,
    /// Why it cannot be started, and where.
    pub(super) failure: Option<(DaemonName, Failure)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) world: World,
    parts: Parts,
    members: Vec<Member>,
    living: u32,
    fence: Fence,
    groups: GroupFences,
    /// It is being ended, whatever becomes of the others.
    is_given_up: bool,
    /// None for the world that the job began with.
    pub(super) spawned: Option<Spawned>,
}

impl Entry {
    /// The ranks of a group, if it has some and all are of this world.
    fn members_of(&self, group: &FenceGroup) -> Option<RankSet> {
        let ranks = match &group.members {
            FenceMembers::World => self.world.ranks(),
            FenceMembers::Place(place) => self.parts.at(*place as usize),
            FenceMembers::Ranks(ranks) => ranks.clone(),
        };
        Some(ranks).filter(|ranks| !ranks.is_empty() && ranks.is_within(&self.world.ranks()))
    }

    /// How its ranks ended, and where they ran. One of which nothing was heard never started.
    pub(super) fn ends(&self) -> WorldEnds {
        let end = |member: &Member| member.end.unwrap_or(RankEnd::NotStarted);
        let ends = self.members.iter().map(end).collect();
        WorldEnds { world: self.world, parts: self.parts.clone(), ends }
    }
}

/// What is known of the end of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The first rank of its world.
    pub(super) first: Rank,
    pub(super) pmi: Pmi,
    /// Its world could not be started, or is being ended.
    pub(super) is_unwanted: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Roll {
    /// By first rank. The first world stays, the others go when they have ended.
    worlds: BTreeMap<Rank, Entry>,
    living: u32,
    /// Pairs of worlds that share their fate, by their first ranks.
    bonds: BTreeSet<(Rank, Rank)>,
}

impl Roll {
    /// Of a job about to start.
    pub(super) fn of(size: u32, shares: &Shares) -> Self {
        let part = |(place, share): (u32, _)| {
            let share: &mpd_wire::job::Share = share;
            (place, share.ranks.clone())
        };
        let parts = Parts((0..).zip(shares.iter()).map(part).collect());
        let mut roll = Self { worlds: BTreeMap::new(), living: 0, bonds: BTreeSet::new() };
        roll.add(World::of_job(size), parts, None);
        roll
    }

    pub(super) fn add(&mut self, world: World, parts: Parts, spawned: Option<Spawned>) {
        let entry = Entry {
            members: vec![Member::default(); world.size as usize],
            living: world.size,
            fence: Fence::of(&world.ranks()),
            groups: GroupFences::default(),
            world,
            parts,
            is_given_up: false,
            spawned,
        };
        self.living += world.size;
        self.worlds.insert(world.first, entry);
    }

    /// Ranks that have not ended, of all worlds.
    pub(super) const fn living(&self) -> u32 {
        self.living
    }

    /// The worlds that were spawned, by their first ranks.
    pub(super) fn spawned(&self) -> Vec<Rank> {
        let spawned = self.worlds.iter().filter(|(_, entry)| entry.spawned.is_some());
        spawned.map(|(first, _)| *first).collect()
    }

    /// How the ranks of the worlds that were spawned and are not forgotten have ended so far.
    pub(super) fn spawned_ends(&self) -> Vec<WorldEnds> {
        let spawned = self.worlds.values().filter(|entry| entry.spawned.is_some());
        spawned.map(Entry::ends).collect()
    }

    /// The ranks of the first world have new PMI sessions and a new fence.
    pub(super) fn restart(&mut self) {
        let Some(entry) = self.worlds.get_mut(&Rank(0)) else { return };
        entry.fence = Fence::of(&entry.world.ranks());
        entry.groups = GroupFences::default();
        for (own, member) in (0..).zip(&mut entry.members) {
            member.pmi = Pmi::Unused;
            if member.end.is_some() {
                entry.fence.leave(entry.world.in_job(Rank(own)));
            }
        }
    }

    /// Whether all ranks of the first world have exited with 0, and none of them used PMI.
    pub(super) fn ended_without_pmi(&self) -> bool {
        let unheard =
            |member: &Member| member.pmi == Pmi::Unused && member.end == Some(RankEnd::Exited(0));
        self.worlds.get(&Rank(0)).is_some_and(|entry| entry.members.iter().all(unheard))
    }

    fn entry_of(&self, rank: Rank) -> Option<&Entry> {
        let (_, entry) = self.worlds.range(..=rank).next_back()?;
        Some(entry).filter(|entry| entry.world.contains(rank))
    }

    fn entry_of_mut(&mut self, rank: Rank) -> Option<&mut Entry> {
        let (_, entry) = self.worlds.range_mut(..=rank).next_back()?;
        Some(entry).filter(|entry| entry.world.contains(rank))
    }

    /// The world that was spawned with this first rank.
    pub(super) fn spawned_mut(&mut self, first: Rank) -> Option<&mut Spawned> {
        self.worlds.get_mut(&first)?.spawned.as_mut()
    }

    /// Worlds that have a part at a place that `is_meant`, by their first ranks.
    pub(super) fn worlds_at(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Rank> {
        let has_part = |entry: &&Entry| !entry.parts.at_all(&is_meant).is_empty();
        self.worlds.values().filter(has_part).map(|entry| entry.world.first).collect()
    }

    pub(super) fn world_of(&self, rank: Rank) -> Option<World> {
        self.entry_of(rank).map(|entry| entry.world)
    }

    pub(super) fn place_of(&self, rank: Rank) -> Option<usize> {
        self.entry_of(rank)?.parts.place_of(rank)
    }

    pub(super) fn member(&self, rank: Rank) -> Option<&Member> {
        let entry = self.entry_of(rank)?;
        entry.members.get(entry.world.own(rank).index())
    }

    pub(super) fn member_mut(&mut self, rank: Rank) -> Option<&mut Member> {
        let entry = self.entry_of_mut(rank)?;
        let own = entry.world.own(rank);
        entry.members.get_mut(own.index())
    }

    /// A rank that lived has ended.
    pub(super) fn end(&mut self, rank: Rank, end: RankEnd) -> Option<Ended> {
        let entry = self.entry_of_mut(rank)?;
        let own = entry.world.own(rank).index();
        let member = entry.members.get_mut(own).filter(|member| member.end.is_none())?;
        member.end = Some(end);
        entry.living -= 1;
        entry.fence.leave(rank);
        entry.groups.leave(rank);
        let is_failed = |spawned: &Spawned| spawned.stage == Stage::Failed;
        let ended = Ended {
            first: entry.world.first,
            pmi: entry.members[own].pmi,
            is_unwanted: entry.is_given_up || entry.spawned.as_ref().is_some_and(is_failed),
        };
        self.living -= 1;
        Some(ended)
    }

    /// The spawned world of that first rank, if all of it has ended and nobody waits for its start.
    pub(super) fn take_ended(&mut self, first: Rank) -> Option<Entry> {
        let entry = self.worlds.get(&first)?;
        let stage = entry.spawned.as_ref()?.stage;
        let is_over = entry.living == 0 && matches!(stage, Stage::Running | Stage::Failed);
        if !is_over {
            return None;
        }
        // Whom it joined stay joined.
        let bonds = std::mem::take(&mut self.bonds);
        let (own, mut rest): (BTreeSet<_>, BTreeSet<_>) =
            bonds.into_iter().partition(|&(one, other)| one == first || other == first);
        let others: Vec<Rank> =
            own.into_iter().map(|(one, other)| if one == first { other } else { one }).collect();
        rest.extend(others.windows(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))));
        self.bonds = rest;
        self.worlds.remove(&first)
    }

    /// The world of a rank and the one of that number share their fate, or do not.
    pub(super) fn bond(&mut self, rank: Rank, number: u32, joined: bool) {
        let one = self.world_of(rank);
        let mut worlds = self.worlds.values().map(|entry| entry.world);
        let other = worlds.find(|world| world.number == number);
        let (Some(one), Some(other)) = (one, other) else { return };
        let pair = (one.first.min(other.first), one.first.max(other.first));
        if !joined {
            self.bonds.remove(&pair);
        } else if pair.0 != pair.1 {
            self.bonds.insert(pair);
        }
    }

    /// The worlds that share the fate of a rank, if others have ranks that live.
    pub(super) fn part_of(&self, rank: Rank) -> Option<BTreeSet<Rank>> {
        let mut part = BTreeSet::from([self.world_of(rank)?.first]);
        loop {
            let before = part.len();
            for &(one, other) in &self.bonds {
                if part.contains(&one) || part.contains(&other) {
                    part.extend([one, other]);
                }
            }
            if part.len() == before {
                break;
            }
        }
        let lives = |entry: &&Entry| entry.living > 0 && !entry.is_given_up;
        let mut living = self.worlds.values().filter(lives);
        living.any(|entry| !part.contains(&entry.world.first)).then_some(part)
    }

    /// The end of that world is no failure any more. Says whether all of it was started.
    pub(super) fn give_up(&mut self, first: Rank) -> bool {
        let Some(entry) = self.worlds.get_mut(&first) else { return false };
        entry.is_given_up = true;
        entry.spawned.as_ref().is_none_or(|spawned| spawned.stage >= Stage::Running)
    }

    pub(super) fn is_given_up(&self, first: Rank) -> bool {
        self.worlds.get(&first).is_some_and(|entry| entry.is_given_up)
    }

    /// Whether a rank has not ended, and its world is not being ended.
    pub(super) fn lives(&self, rank: Rank) -> bool {
        let entry = self.entry_of(rank).filter(|entry| !entry.is_given_up);
        let own = |entry: &Entry| entry.world.own(rank).index();
        entry.is_some_and(|entry| entry.members[own(entry)].end.is_none())
    }

    /// These ranks, of one world, wait in its fence. Says which world that is.
    pub(super) fn enter(&mut self, ranks: &RankSet) -> Option<Rank> {
        let first = ranks.ranks().next()?;
        let entry = self.entry_of_mut(first)?;
        for rank in ranks.ranks() {
            entry.fence.enter(rank);
        }
        Some(entry.world.first)
    }

    /// These ranks, of one world, wait in the fence of a group. Says which world that is.
    pub(super) fn enter_group(&mut self, group: FenceGroup, ranks: &RankSet) -> Option<Rank> {
        let entry = self.entry_of_mut(ranks.ranks().next()?)?;
        let members = entry.members_of(&group)?;
        let world = entry.world;
        let ended = (0..).zip(&entry.members).filter(|(_, member)| member.end.is_some());
        let ended = ended.map(|(own, _)| world.in_job(Rank(own)));
        entry.groups.enter(group, ranks, (members, ended));
        Some(world.first)
    }

    /// Lets everybody out of those fences of groups that are complete, and says which.
    pub(super) fn release_groups(&mut self, first: Rank) -> Vec<FenceGroup> {
        let entry = self.worlds.get_mut(&first);
        entry.map(|entry| entry.groups.take_complete()).unwrap_or_default()
    }

    /// See [`Fence::deserter`].
    pub(super) fn deserter(&self, first: Rank) -> Option<Rank> {
        let entry = self.worlds.get(&first)?;
        entry.fence.deserter().or_else(|| entry.groups.deserter())
    }

    /// Lets everybody out of a fence that is complete, and says whether it was.
    pub(super) fn release(&mut self, first: Rank) -> bool {
        let Some(entry) = self.worlds.get_mut(&first) else { return false };
        let is_complete = entry.fence.is_complete();
        if is_complete {
            entry.fence.release();
        }
        is_complete
    }

    /// Ranks that have not ended, at places that `is_meant`.
    pub(super) fn living_ranks(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Rank> {
        let mut living = Vec::new();
        for entry in self.worlds.values() {
            let there = entry.parts.at_all(&is_meant);
            let lives = |rank: &Rank| entry.members[entry.world.own(*rank).index()].end.is_none();
            living.extend(there.ranks().filter(lives));
        }
        living
    }

    /// How many ranks have not ended at each place.
    pub(super) fn living_at(&self) -> Vec<(usize, u32)> {
        let mut places: BTreeMap<usize, u32> = BTreeMap::new();
        for entry in self.worlds.values() {
            for (place, ranks) in &entry.parts.0 {
                let lives =
                    |rank: &Rank| entry.members[entry.world.own(*rank).index()].end.is_none();
                let living = ranks.ranks().filter(lives).count();
                *places.entry(*place as usize).or_default() +=
                    u32::try_from(living).unwrap_or(u32::MAX);
            }
        }
        places.into_iter().filter(|(_, living)| *living > 0).collect()
    }
}
