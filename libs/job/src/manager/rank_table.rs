//! The rank table of a job: every rank of every living world, as the root knows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::manager::WorldEnds;
use crate::manager::fence::{Fence, Leave};
use crate::manager::groups::GroupFences;
use mpd_wire::job::{Failure, HostSlices, MpiLibrary, Parts, RankEnd, World};
use mpd_wire::message::{FenceGroup, FenceMembers};
use mpd_wire::{DaemonName, Rank, RankSet};

/// The state of a rank in PMI.
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
    /// A user wants it to end.
    pub(super) is_retired: bool,
    /// Whether its start is an event already.
    pub(super) is_started: bool,
}

impl Member {
    const fn leave(&self) -> Leave {
        if self.is_retired { Leave::Permitted } else { Leave::Desertion }
    }
}

/// The progress of the start of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Preparing,
    Starting,
    Running,
    /// The start failed, and the started part is being removed.
    Failed,
}

/// A world that was spawned.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) stage: Stage,
    /// `None`: a user has requested the world.
    pub(super) spawner: Option<Rank>,
    pub(super) kvsname: String,
    /// The reason of a failed start, and the host.
    pub(super) failure: Option<(DaemonName, Failure)>,
    /// The spawner waits until the ranks have initialised MPI.
    pub(super) is_awaited: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) world: World,
    parts: Parts,
    members: Vec<Member>,
    pub(super) living: u32,
    fence: Fence,
    groups: GroupFences,
    /// It is being ended, independently of the other worlds.
    is_given_up: bool,
    /// The first rank whose MPI library is known.
    library: Option<(Rank, MpiLibrary)>,
    /// `None` for the first world of the job.
    pub(super) spawned: Option<Spawned>,
}

impl Entry {
    /// Whether it could not be started, or is being ended.
    fn is_unwanted(&self) -> bool {
        let is_failed =
            |spawned: &Spawned| spawned.failure.is_some() || spawned.stage == Stage::Failed;
        self.is_given_up || self.spawned.as_ref().is_some_and(is_failed)
    }

    /// The members of a group, if it has any and all are of this world.
    fn members_of(&self, group: &FenceGroup) -> Option<RankSet> {
        let ranks = match &group.members {
            FenceMembers::World => self.world.ranks(),
            FenceMembers::TreeIndex(tree_index) => self.parts.at(*tree_index as usize),
            FenceMembers::Ranks(ranks) => ranks.clone(),
        };
        Some(ranks).filter(|ranks| !ranks.is_empty() && ranks.is_within(&self.world.ranks()))
    }

    /// The ends of its ranks, and their hosts. A rank without a report never started.
    pub(super) fn ends(&self) -> WorldEnds {
        let end = |member: &Member| member.end.unwrap_or(RankEnd::NotStarted);
        let ends = self.members.iter().map(end).collect();
        WorldEnds { world: self.world, parts: self.parts.clone(), ends }
    }
}

/// The known facts about the end of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The first rank of its world.
    pub(super) first: Rank,
    pub(super) pmi: Pmi,
    /// Its world could not be started, or is being ended.
    pub(super) is_unwanted: bool,
    /// A user wants it to end.
    pub(super) is_retired: bool,
    pub(super) is_awaited: bool,
}

/// All ranks of the job, by world.
#[derive(Debug)]
pub(super) struct RankTable {
    /// The worlds by their first ranks. The first world stays; another one is removed after its end.
    pub(super) worlds: BTreeMap<Rank, Entry>,
    living: u32,
    /// Counts the ends of ranks and the changes of connections.
    freed: u64,
    /// Pairs of worlds that share their fate, by their first ranks.
    pub(super) connections: BTreeSet<(Rank, Rank)>,
    /// Those of them that share no fate: one has spawned the other, and no more.
    apart: BTreeSet<(Rank, Rank)>,
    /// The fences of groups with names. Their members may belong to several worlds.
    named: GroupFences,
}

impl RankTable {
    /// The table of a job that is about to start.
    pub(super) fn of(size: u32, host_slices: &HostSlices) -> Self {
        let part = |(tree_index, host_slice): (u32, _)| {
            let host_slice: &mpd_wire::job::HostSlice = host_slice;
            (tree_index, host_slice.ranks.clone())
        };
        let parts = Parts((0..).zip(host_slices.iter()).map(part).collect());
        let mut rank_table = Self {
            worlds: BTreeMap::new(),
            living: 0,
            freed: 0,
            connections: BTreeSet::new(),
            apart: BTreeSet::new(),
            named: GroupFences::default(),
        };
        rank_table.add(World::of_job(size), parts, None);
        rank_table
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
            library: None,
            spawned,
        };
        self.living += world.size;
        self.worlds.insert(world.first, entry);
    }

    /// Counts the events that may have freed a slot.
    pub(super) const fn freed(&self) -> u64 {
        self.freed
    }

    /// The number of ranks that have not ended, of all worlds.
    pub(super) const fn living(&self) -> u32 {
        self.living
    }

    /// The spawned worlds, by their first ranks.
    pub(super) fn spawned(&self) -> Vec<Rank> {
        let spawned = self.worlds.iter().filter(|(_, entry)| entry.spawned.is_some());
        spawned.map(|(first, _)| *first).collect()
    }

    /// The ends of the ranks of spawned worlds that are in the table.
    pub(super) fn spawned_ends(&self) -> Vec<WorldEnds> {
        let spawned = self.worlds.values().filter(|entry| entry.spawned.is_some());
        spawned.map(Entry::ends).collect()
    }

    /// Gives the ranks of the first world new PMI sessions and a new fence.
    pub(super) fn restart(&mut self) {
        self.named = GroupFences::default();
        let Some(entry) = self.worlds.get_mut(&Rank(0)) else { return };
        entry.fence = Fence::of(&entry.world.ranks());
        entry.groups = GroupFences::default();
        for (own, member) in (0..).zip(&mut entry.members) {
            member.pmi = Pmi::Unused;
            if member.end.is_some() {
                entry.fence.leave(entry.world.in_job(Rank(own)), member.leave());
            }
        }
    }

    /// Whether all ranks of the first world have exited with 0, and none of them used PMI.
    pub(super) fn ended_without_pmi(&self) -> bool {
        let unreported =
            |member: &Member| member.pmi == Pmi::Unused && member.end == Some(RankEnd::Exited(0));
        self.worlds.get(&Rank(0)).is_some_and(|entry| entry.members.iter().all(unreported))
    }

    fn entry_of(&self, rank: Rank) -> Option<&Entry> {
        let (_, entry) = self.worlds.range(..=rank).next_back()?;
        Some(entry).filter(|entry| entry.world.contains(rank))
    }

    fn entry_of_mut(&mut self, rank: Rank) -> Option<&mut Entry> {
        let (_, entry) = self.worlds.range_mut(..=rank).next_back()?;
        Some(entry).filter(|entry| entry.world.contains(rank))
    }

    /// The spawned world with this first rank.
    pub(super) fn spawned_mut(&mut self, first: Rank) -> Option<&mut Spawned> {
        self.worlds.get_mut(&first)?.spawned.as_mut()
    }

    /// The worlds with a part at a tree index that `is_meant`, by their first ranks.
    pub(super) fn worlds_at(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Rank> {
        let has_part = |entry: &&Entry| !entry.parts.at_all(&is_meant).is_empty();
        self.worlds.values().filter(has_part).map(|entry| entry.world.first).collect()
    }

    pub(super) fn world_of(&self, rank: Rank) -> Option<World> {
        self.entry_of(rank).map(|entry| entry.world)
    }

    /// Notes the MPI library of a rank. Returns a rank of its world with another library, if there is one.
    pub(super) fn note_library(
        &mut self,
        rank: Rank,
        library: MpiLibrary,
    ) -> Option<(Rank, MpiLibrary)> {
        let entry = self.entry_of_mut(rank)?;
        let first = entry.library.get_or_insert((rank, library));
        if !first.1.goes_with(library) {
            return Some(*first);
        }
        if first.1.is_vague() {
            *first = (rank, library);
        }
        None
    }

    pub(super) fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        self.entry_of(rank)?.parts.tree_index_of(rank)
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

    /// Records the end of a living rank.
    pub(super) fn end(&mut self, rank: Rank, end: RankEnd) -> Option<Ended> {
        let entry = self.entry_of_mut(rank)?;
        let own = entry.world.own(rank).index();
        let member = entry.members.get_mut(own).filter(|member| member.end.is_none())?;
        member.end = Some(end);
        let (pmi, is_retired, leave) = (member.pmi, member.is_retired, member.leave());
        entry.living -= 1;
        entry.fence.leave(rank, leave);
        entry.groups.leave(rank, leave);
        let ended = Ended {
            first: entry.world.first,
            pmi,
            is_retired,
            is_awaited: entry.spawned.as_ref().is_some_and(|spawned| spawned.is_awaited),
            is_unwanted: entry.is_unwanted(),
        };
        self.living -= 1;
        self.freed += 1;
        self.named.leave(rank, leave);
        Some(ended)
    }

    /// Removes the spawned world with that first rank, if all its ranks have ended and its start is complete.
    pub(super) fn take_ended(&mut self, first: Rank) -> Option<Entry> {
        let entry = self.worlds.get(&first)?;
        let stage = entry.spawned.as_ref()?.stage;
        let is_over = entry.living == 0 && matches!(stage, Stage::Running | Stage::Failed);
        if !is_over {
            return None;
        }
        // The worlds that it connected stay connected with each other.
        let connections = std::mem::take(&mut self.connections);
        let (own, mut rest): (BTreeSet<_>, BTreeSet<_>) =
            connections.into_iter().partition(|&(one, other)| one == first || other == first);
        let shares_fate = |pair: &(Rank, Rank)| !self.apart.remove(pair);
        let others: Vec<Rank> = own
            .into_iter()
            .filter(shares_fate)
            .map(|(one, other)| if one == first { other } else { one })
            .collect();
        rest.extend(others.windows(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))));
        self.connections = rest;
        self.worlds.remove(&first)
    }

    /// The world of a rank and the world of that number share their fate from now on, or no longer.
    pub(super) fn connect(&mut self, rank: Rank, number: u32, joined: bool) {
        let Some(pair) = self.pair_of(rank, number) else { return };
        self.apart.remove(&pair);
        if !joined {
            self.connections.remove(&pair);
            self.freed += 1;
        } else if pair.0 != pair.1 {
            self.connections.insert(pair);
            self.freed += 1;
        }
    }

    /// A rank has spawned the world of that number. With `shares_fate` they end together.
    pub(super) fn connect_spawned(&mut self, spawner: Rank, number: u32, shares_fate: bool) {
        self.connect(spawner, number, true);
        if !shares_fate {
            self.apart.extend(self.pair_of(spawner, number));
        }
    }

    fn pair_of(&self, rank: Rank, number: u32) -> Option<(Rank, Rank)> {
        let one = self.world_of(rank)?.first;
        let mut worlds = self.worlds.values().map(|entry| entry.world);
        let other = worlds.find(|world| world.number == number)?.first;
        Some((one.min(other), one.max(other)))
    }

    /// The worlds that share the fate of a rank, if there are other worlds with living ranks.
    pub(super) fn part_of(&self, rank: Rank) -> Option<BTreeSet<Rank>> {
        let mut part = BTreeSet::from([self.world_of(rank)?.first]);
        loop {
            let before = part.len();
            for &(one, other) in self.connections.difference(&self.apart) {
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

    /// The end of that world is no failure from now on. Returns whether all of it was started.
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

    /// The ranks that run and that no user has retired, of worlds that have started and are not being ended.
    pub(super) fn running(&self) -> impl DoubleEndedIterator<Item = Rank> + '_ {
        let runs = |spawned: &Spawned| spawned.stage == Stage::Running;
        let are_meant =
            move |entry: &&Entry| !entry.is_given_up && entry.spawned.as_ref().is_none_or(runs);
        self.worlds.values().filter(are_meant).flat_map(|entry| {
            let members = entry.world.ranks().ranks().collect::<Vec<_>>().into_iter();
            let lives = |(_, member): &(Rank, &Member)| member.end.is_none() && !member.is_retired;
            members.zip(&entry.members).filter(lives).map(|(rank, _)| rank)
        })
    }

    /// These ranks, of one world, wait in its fence. Returns the first rank of that world.
    pub(super) fn enter(&mut self, ranks: &RankSet) -> Option<Rank> {
        let first = ranks.ranks().next()?;
        let entry = self.entry_of_mut(first)?;
        for rank in ranks.ranks() {
            entry.fence.enter(rank);
        }
        Some(entry.world.first)
    }

    /// These ranks, of one world, wait in the fence of a group. Returns the first rank of that world.
    pub(super) fn enter_group(&mut self, group: FenceGroup, ranks: &RankSet) -> Option<Rank> {
        if !group.name.is_empty() {
            return self.enter_named(group, ranks);
        }
        let entry = self.entry_of_mut(ranks.ranks().next()?)?;
        let members = entry.members_of(&group)?;
        let world = entry.world;
        let ended = (0..).zip(&entry.members).filter(|(_, member)| member.end.is_some());
        let ended = ended.map(|(own, member)| (world.in_job(Rank(own)), member.leave()));
        entry.groups.enter(group, ranks, members, ended);
        Some(world.first)
    }

    /// The same for a group with a name. A member without a world has ended.
    fn enter_named(&mut self, group: FenceGroup, ranks: &RankSet) -> Option<Rank> {
        let FenceMembers::Ranks(members) = &group.members else { return None };
        let members = members.clone();
        let first = self.world_of(ranks.ranks().next()?)?.first;
        let ended = |rank: Rank| match self.member(rank) {
            Some(member) => member.end.map(|_| (rank, member.leave())),
            None => Some((rank, Leave::Desertion)),
        };
        let ended: Vec<(Rank, Leave)> = members.ranks().filter_map(ended).collect();
        self.named.enter(group, ranks, members, ended.into_iter());
        Some(first)
    }

    /// Releases the complete fences of groups, and returns the groups.
    pub(super) fn release_groups(&mut self, first: Rank) -> Vec<FenceGroup> {
        let entry = self.worlds.get_mut(&first);
        let mut complete = entry.map(|entry| entry.groups.take_complete()).unwrap_or_default();
        complete.extend(self.named.take_complete());
        complete
    }

    /// The same as [`Fence::deserter`], for the world and its groups. In a world that ends anyway there is none.
    pub(super) fn deserter(&self, first: Rank) -> Option<Rank> {
        let entry = self.worlds.get(&first).filter(|entry| !entry.is_unwanted())?;
        let own = entry.fence.deserter().or_else(|| entry.groups.deserter());
        own.or_else(|| self.named.deserter())
    }

    /// The ranks of any world that wait for this one, which has ended.
    pub(super) fn waiting_for(&self, rank: Rank) -> Vec<Rank> {
        self.named.waiting_for(rank)
    }

    /// Releases the fence if it is complete. Returns whether it was.
    pub(super) fn release(&mut self, first: Rank) -> bool {
        let Some(entry) = self.worlds.get_mut(&first) else { return false };
        let is_complete = entry.fence.is_complete();
        if is_complete {
            entry.fence.release();
        }
        is_complete
    }

    /// The ranks of all worlds here that have ended.
    pub(super) fn ended(&self) -> RankSet {
        let of = |entry: &Entry| {
            let world = entry.world;
            let ended = (0..).zip(&entry.members).filter(|(_, member)| member.end.is_some());
            ended.map(|(own, _)| world.in_job(Rank(own))).collect::<Vec<_>>()
        };
        self.worlds.values().flat_map(of).collect()
    }

    /// Ranks that have not ended, at tree indices that `is_meant`.
    pub(super) fn living_ranks(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Rank> {
        let mut living = Vec::new();
        for entry in self.worlds.values() {
            let there = entry.parts.at_all(&is_meant);
            let lives = |rank: &Rank| entry.members[entry.world.own(*rank).index()].end.is_none();
            living.extend(there.ranks().filter(lives));
        }
        living
    }

    /// How many ranks have not ended at each tree index.
    pub(super) fn living_at(&self) -> Vec<(usize, u32)> {
        let mut tree_indices: BTreeMap<usize, u32> = BTreeMap::new();
        for entry in self.worlds.values() {
            for (tree_index, ranks) in &entry.parts.0 {
                let lives =
                    |rank: &Rank| entry.members[entry.world.own(*rank).index()].end.is_none();
                let living = ranks.ranks().filter(lives).count();
                *tree_indices.entry(*tree_index as usize).or_default() +=
                    u32::try_from(living).unwrap_or(u32::MAX);
            }
        }
        tree_indices.into_iter().filter(|(_, living)| *living > 0).collect()
    }
}
