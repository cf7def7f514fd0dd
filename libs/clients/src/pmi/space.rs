//! The data that the ranks of one world share by PMI.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::{Bytes, JobSpec};
use mpd_wire::message::FenceGroup;
use pmi_proto::pairs::Pieces;
use pmi_proto::{Kvs, NodeAttributes, Ticket};

use crate::caller::Caller;
use crate::libraries::Beginnings;
use crate::worlds::World;

/// The key with the failed ranks of a job that continues without them.
const DEAD: &[u8] = b"PMI_dead_processes";

/// The key with the kinds of memory that the job wants to use.
const MEMORY_KINDS: &[u8] = b"PMI_mpi_memory_alloc_kinds";

/// The shared state of one world.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) kvs: Kvs,
    /// Keys that were put in this subtree since the last fence; the other hosts do not have them.
    fresh: BTreeSet<Vec<u8>>,
    /// The attributes of this host.
    pub(super) node: NodeAttributes<Caller>,
    /// Ranks of this host in the ring of PMI-2, which closes with a fence.
    pub(super) rings: BTreeMap<Rank, Ticket>,
    /// Ranks of this host that wait at barriers of groups, an operation of PMI-1.2.
    pub(super) barriers: BTreeMap<FenceGroup, Vec<Caller>>,
    /// What ranks of this host have shown of their MPI library in their first requests.
    pub(super) beginnings: Beginnings,
    /// Failed ranks, as numbered in the world, in the order of the reports.
    dead: Vec<Rank>,
}

impl Space {
    /// The state of a new world, with the values that its spawner has put.
    pub(super) fn new(world: &World, spec: &JobSpec, preput: &[(Bytes, Bytes)]) -> Self {
        let mut kvs = Kvs::new();
        let tree_indices = world.parts.tree_indices_of(&world.numbers);
        if let Some(mapping) = pmi_proto::process_mapping::encode(&tree_indices) {
            // An empty store has room for some keys.
            let _ = kvs.put(b"PMI_process_mapping", mapping.as_bytes());
        }
        let _ = kvs.put(DEAD, b"");
        if let Some(kinds) = &spec.memory_kinds {
            let _ = kvs.put(MEMORY_KINDS, kinds.as_bytes());
        }
        for (key, value) in preput {
            let _ = kvs.put(key, value);
        }
        Self {
            kvs,
            fresh: BTreeSet::new(),
            node: NodeAttributes::default(),
            rings: BTreeMap::new(),
            barriers: BTreeMap::new(),
            beginnings: Beginnings::default(),
            dead: Vec::new(),
        }
    }

    /// Notes a key that the other hosts need.
    pub(super) fn note_fresh(&mut self, key: Vec<u8>) {
        self.fresh.insert(key);
    }

    /// Keys and values that the other hosts do not have, in pieces for the job links.
    pub(super) fn take_fresh(&mut self, first: Rank) -> Vec<Vec<u8>> {
        let mut pieces = Pieces::default();
        for key in std::mem::take(&mut self.fresh) {
            if let Some(value) = self.kvs.get(&key) {
                pieces.put(&key, value);
            }
        }
        let first = first.0.to_be_bytes();
        pieces.take().into_iter().map(|piece| [&first[..], &piece].concat()).collect()
    }

    /// Notes the failure of a rank, as numbered in the world.
    pub(super) fn note_dead(&mut self, rank: Rank) {
        self.dead.push(rank);
        let list: Vec<String> = self.dead.iter().map(ToString::to_string).collect();
        let _ = self.kvs.put(DEAD, list.join(",").as_bytes());
    }
}
