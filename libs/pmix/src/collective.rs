//! Collective operations of the processes on one host: which have arrived, and which are missing.
//!
//! An operation is known by its kind, its sorted members, and a counter. A member may arrive again while others are
//! missing: it begins the next operation of this kind with these members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::MAX_COLLECTIVES;
use crate::status::Status;
use crate::view::Proc;

/// What is done together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A fence.
    Fence,
    /// Jobs connect.
    Connect,
    /// Jobs disconnect.
    Disconnect,
    /// A group of this name is constructed.
    Construct(Vec<u8>),
    /// A group of this name is destructed.
    Destruct(Vec<u8>),
}

/// Which operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// What is done.
    pub kind: Kind,
    /// The members, sorted, without repetition.
    pub members: Vec<Proc>,
}

/// An operation for which no member is missing any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion<W> {
    /// Which operation.
    pub key: Key,
    /// How many of this key were before it.
    pub count: u64,
    /// The waiting members.
    pub waiters: Vec<(Proc, W)>,
    /// Success, or that a member is gone.
    pub status: Status,
}

/// All operations that wait for members. `W` is what the caller keeps for a waiting member.
#[derive(Debug)]
pub struct Collectives<W> {
    keys: BTreeMap<Key, Uses<W>>,
    open: usize,
}

#[derive(Debug)]
struct Uses<W> {
    /// How many were completed.
    completed: u64,
    open: VecDeque<Gathering<W>>,
}

#[derive(Debug)]
struct Gathering<W> {
    missing: BTreeSet<Proc>,
    arrived: Vec<(Proc, W)>,
    is_partial: bool,
}

impl<W> Default for Collectives<W> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), open: 0 }
    }
}

impl<W> Collectives<W> {
    /// A member arrives. `local` are the members on this host, each as a single process, with whether it is alive.
    ///
    /// # Errors
    ///
    /// The process is not a member, or too many operations are open.
    pub fn arrive(
        &mut self,
        key: Key,
        proc: &Proc,
        waiter: W,
        local: &BTreeMap<Proc, bool>,
    ) -> Result<Option<Completion<W>>, Status> {
        if local.get(proc) != Some(&true) {
            return Err(Status::BAD_PARAM);
        }
        let uses = self
            .keys
            .entry(key.clone())
            .or_insert_with(|| Uses { completed: 0, open: VecDeque::new() });
        let waiting = uses.open.iter().position(|one| one.missing.contains(proc));
        let index = match waiting {
            Some(index) => index,
            None if self.open >= MAX_COLLECTIVES => return Err(Status::OUT_OF_RESOURCE),
            None => {
                let alive = local.iter().filter(|(_, alive)| **alive);
                let missing: BTreeSet<_> = alive.map(|(proc, _)| proc.clone()).collect();
                let is_partial = missing.len() < local.len();
                uses.open.push_back(Gathering { missing, arrived: Vec::new(), is_partial });
                self.open += 1;
                uses.open.len() - 1
            }
        };
        let Some(gathering) = uses.open.get_mut(index) else { return Err(Status::ERROR) };
        gathering.missing.remove(proc);
        gathering.arrived.push((proc.clone(), waiter));
        if !gathering.missing.is_empty() {
            return Ok(None);
        }
        Ok(self.complete(&key, index))
    }

    /// A process has ended: what waits for it alone is complete.
    pub fn remove(&mut self, proc: &Proc) -> Vec<Completion<W>> {
        let mut completions = Vec::new();
        let keys: Vec<_> = self.keys.keys().cloned().collect();
        for key in keys {
            let Some(uses) = self.keys.get_mut(&key) else { continue };
            for gathering in &mut uses.open {
                let arrived = gathering.arrived.len();
                gathering.arrived.retain(|(one, _)| one != proc);
                let was_member =
                    gathering.missing.remove(proc) || gathering.arrived.len() != arrived;
                gathering.is_partial |= was_member;
            }
            while let Some(index) = self.index_of_complete(&key) {
                completions.extend(self.complete(&key, index));
            }
        }
        completions
    }

    /// Forgets a waiting member, which gets another answer. The operation continues without it.
    pub fn withdraw(&mut self, mut is_meant: impl FnMut(&W) -> bool) {
        for uses in self.keys.values_mut() {
            for gathering in &mut uses.open {
                gathering.arrived.retain(|(_, waiter)| !is_meant(waiter));
            }
        }
    }

    fn index_of_complete(&self, key: &Key) -> Option<usize> {
        self.keys.get(key)?.open.iter().position(|gathering| gathering.missing.is_empty())
    }

    fn complete(&mut self, key: &Key, index: usize) -> Option<Completion<W>> {
        let uses = self.keys.get_mut(key)?;
        let gathering = uses.open.remove(index)?;
        self.open -= 1;
        let count = uses.completed;
        uses.completed += 1;
        // The name of a group is used once; other operations come again, and are counted.
        if uses.open.is_empty() && matches!(key.kind, Kind::Construct(_) | Kind::Destruct(_)) {
            self.keys.remove(key);
        }
        let status = if gathering.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        Some(Completion { key: key.clone(), count, waiters: gathering.arrived, status })
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }
}
