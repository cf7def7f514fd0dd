//! Descriptions of worlds, and what waits for them.

use std::collections::BTreeMap;

use mpd_wire::Rank;
use mpd_wire::job::{Bytes, Parts, World as Numbers};
use pmix_proto::Operation;
use serde::{Deserialize, Serialize};

use super::waiter::Waiter;
use crate::manager::context::Job;
use crate::manager::worlds::World;

/// What a process of any world has to know of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorldInfo {
    pub(super) numbers: Numbers,
    pub(super) parts: Parts,
    /// The number of ranks and the directory of each program.
    pub(super) programs: Vec<(u32, Bytes)>,
    /// The number of the world that spawned it.
    pub(super) parent: Option<u32>,
}

impl WorldInfo {
    pub(super) fn of(job: &Job, world: &World) -> Self {
        let spawner = world.spawner.as_ref();
        let argsets = world.spec.argsets.iter();
        Self {
            numbers: world.numbers,
            parts: world.parts.clone(),
            programs: argsets.map(|argset| (argset.size, argset.directory.clone())).collect(),
            parent: spawner
                .and_then(|name| Numbers::number_of(name.as_bytes(), &job.order.kvsname)),
        }
    }
}

/// The ranks of a world and their places.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorldRanks<'a> {
    pub(super) numbers: Numbers,
    pub(super) parts: &'a Parts,
}

impl<'a> WorldRanks<'a> {
    /// The world of a description.
    pub(super) const fn of(info: &'a WorldInfo) -> Self {
        Self { numbers: info.numbers, parts: &info.parts }
    }
}

impl WorldRanks<'_> {
    /// Whether a rank of it runs here.
    pub(super) fn has_here(&self, job: &Job, rank: Rank) -> bool {
        self.parts.tree_index_of(rank) == Some(job.tree_index())
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
