//! Collective operations of the processes on one host: the arrived and the missing members.
//!
//! The identity of an operation is its kind, its sorted members, and a counter. A member may arrive again while others
//! are missing. Then it begins the next operation of this kind with these members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::MAX_COLLECTIVES;
use crate::status::Status;
use crate::view::Proc;

/// The kind of a collective operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

/// The kind and the members of an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    /// The members, sorted, without repetition.
    pub members: Vec<Proc>,
}

/// A completed operation: no member is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion<W> {
    /// The kind and the members.
    pub key: Key,
    /// The number of completed operations of this key before it.
    pub count: u64,
    /// The waiting members.
    pub waiters: Vec<(Proc, W)>,
    /// Success, or the error that a member has ended.
    pub status: Status,
}

/// All operations that wait for members. `W` is the caller's data about a waiting member.
#[derive(Debug)]
pub struct Collectives<W> {
    keys: BTreeMap<Key, Uses<W>>,
    open: usize,
}

#[derive(Debug)]
struct Uses<W> {
    /// The number of completed operations.
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
    /// A member arrives. `local` has the members on this host as single processes, and whether each is alive.
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

    /// A process has ended. Operations that wait only for it are complete.
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

    /// Removes waiting members that get another answer. The operation continues without them.
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
        // The name of a group is used once. Other operations repeat, and are counted.
        if uses.open.is_empty() && matches!(key.kind, Kind::Construct(_) | Kind::Destruct(_)) {
            self.keys.remove(key);
        }
        let status = if gathering.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        Some(Completion { key: key.clone(), count, waiters: gathering.arrived, status })
    }

    /// Whether no operation waits.
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }
}
