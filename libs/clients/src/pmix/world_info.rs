//! Descriptions of worlds, and what waits for them.

use std::collections::BTreeMap;

use mpd_wire::bounded::at_most;
use mpd_wire::job::{Bytes, MAX_HOST_SLICES, Parts, World as Numbers};
use mpd_wire::{JobId, Rank};
use pmix_proto::Operation;
use serde::{Deserialize, Serialize};

use super::waiter::Waiter;
use crate::job::Job;
use crate::worlds::{Spawner, World};

/// What a process of any world has to know of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorldInfo {
    pub(super) numbers: Numbers,
    pub(super) parts: Parts,
    /// The number of ranks and the directory of each program.
    pub(super) programs: Vec<(u32, Bytes)>,
    /// The rank that spawned it: the number of its world, and its own number there.
    pub(super) parent: Option<(u32, Rank)>,
    /// What is different if it is a world of another job. Its ranks then have numbers that no rank of this job has, and
    /// its parts are by the index of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) foreign: Option<Foreign>,
}

/// A world of another job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Foreign {
    pub(super) job: JobId,
    pub(super) namespace: String,
    /// The names of its hosts.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    pub(super) hosts: Vec<String>,
}

/// The tree index of the root, which knows all worlds.
pub(super) const ROOT: usize = 0;

/// The first number of worlds and ranks of other jobs.
pub(super) const FIRST_FOREIGN: u32 = 1 << 31;

impl WorldInfo {
    pub(super) fn of(job: &Job, world: &World) -> Self {
        let parent_of = |spawner: &Spawner| {
            let number = Numbers::number_of(spawner.kvsname.as_bytes(), &job.order.kvsname)?;
            Some((number, spawner.rank))
        };
        let argsets = world.spec.argsets.iter();
        Self {
            numbers: world.numbers,
            parts: world.parts.clone(),
            programs: argsets.map(|argset| (argset.size, argset.directory.clone())).collect(),
            parent: world.spawner.as_ref().and_then(parent_of),
            foreign: None,
        }
    }
}

/// The ranks of a world and their places.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorldRanks<'a> {
    pub(super) numbers: Numbers,
    pub(super) parts: &'a Parts,
    pub(super) is_foreign: bool,
}

impl<'a> WorldRanks<'a> {
    /// A world with ranks in this subtree.
    pub(super) const fn here(world: &'a World) -> Self {
        Self { numbers: world.numbers, parts: &world.parts, is_foreign: false }
    }

    /// The world of a description.
    pub(super) const fn of(info: &'a WorldInfo) -> Self {
        Self { numbers: info.numbers, parts: &info.parts, is_foreign: info.foreign.is_some() }
    }
}

impl WorldRanks<'_> {
    /// Whether a rank of it runs here.
    pub(super) fn has_here(&self, job: &Job, rank: Rank) -> bool {
        self.host_of(rank) == Some(job.tree_index()) && !self.is_foreign
    }

    /// The tree index of the manager that has its data or can get them.
    pub(super) fn host_of(&self, rank: Rank) -> Option<usize> {
        if self.is_foreign { Some(ROOT) } else { self.parts.tree_index_of(rank) }
    }
}

/// Descriptions of worlds without ranks in this subtree, and the operations that wait for one. By number.
#[derive(Debug, Default)]
pub(super) struct OtherWorlds {
    pub(super) foreign: BTreeMap<u32, WorldInfo>,
    pub(super) pending: BTreeMap<u32, Vec<Pending>>,
}

/// An operation that waits for the description of a world.
#[derive(Debug)]
pub(super) enum Pending {
    /// To be performed then.
    Operation(Waiter, Box<Operation>),
    /// The answer to a spawn.
    Spawned(Waiter),
}

impl Pending {
    pub(super) const fn waiter(&self) -> Waiter {
        match self {
            Self::Operation(waiter, _) | Self::Spawned(waiter) => *waiter,
        }
    }
}
