//! Spawned worlds.

use super::super::{SIGKILL, name};
use super::{Cluster, Host, Pmi, Process, Task, WorldFault};
use mpd_job::manager::{Input, Output, WorldPlan};
use mpd_wire::job::{Failure, HostSlice, Parts, RankEnd, World};
use mpd_wire::message::Down;
use mpd_wire::{Instance, Rank, RankSet};
use std::collections::BTreeSet;
impl Cluster {
    pub(super) fn spawn(
        &mut self,
        spawner: Rank,
        tree_indices: &[usize],
        joining: usize,
        fails: Option<WorldFault>,
    ) {
        let known = self.host_slices.len();
        let mut tree_indices: BTreeSet<usize> = tree_indices.iter().copied().collect();
        tree_indices.retain(|tree_index| !self.hosts[0].manager.machine().is_lost(*tree_index));
        tree_indices.extend(known..known + joining);
        let Some(&first_tree_index) = tree_indices.first() else { return };
        let size = u32::try_from(tree_indices.len()).unwrap();
        self.spawned += 1;
        let first = Rank(self.size + 1000 * self.spawned);
        let world = World { number: self.spawned, first, size };
        let part = |(rank, tree_index): (u32, usize)| {
            (u32::try_from(tree_index).unwrap(), RankSet::from_iter([Rank(first.0 + rank)]))
        };
        let parts = Parts((0..).zip(tree_indices.iter().copied()).map(part).collect());
        let host_slice = |tree_index: usize| HostSlice {
            member: name(tree_index),
            manager: Instance::from_bytes([2; 16]),
            addresses: Vec::new(),
            ranks: RankSet::none(),
        };
        if let Some(fails) = fails {
            self.fails.insert((first_tree_index, first), fails);
        }
        let joining = (known..known + joining).map(host_slice).collect();
        let kvsname = "kvs".to_owned();
        self.turn(
            0,
            Input::Spawn(WorldPlan {
                world,
                parts,
                spawner: Some(spawner),
                kvsname,
                joining,
                is_awaited: false,
            }),
        );
    }

    pub(super) fn send_down(&mut self, tree_indices: Vec<usize>, down: &Down) {
        for child in tree_indices {
            let child = &mut self.hosts[child];
            if child.linked {
                child.from_parent.push_back(down.clone());
            }
        }
    }

    pub(super) fn perform_world(&mut self, tree_index: usize, output: Output) {
        let host = &mut self.hosts[tree_index];
        match output {
            Output::Grow(_, host_slices) if tree_index == 0 => {
                self.host_slices.extend(host_slices).unwrap();
                for tree_index in self.hosts.len()..self.host_slices.len() {
                    let manager = self.manager(tree_index);
                    self.hosts.push(Host::of(manager, tree_index, Vec::new()));
                }
            }
            Output::Prepare(world, parts) => {
                self.announced += usize::from(tree_index == 0);
                let here = parts.at(tree_index);
                if !here.is_empty() {
                    host.parts.insert(world.first, here);
                    self.give_task(tree_index, Task::Prepare(world.first));
                }
            }
            Output::StartWorld(first) => self.give_task(tree_index, Task::Begin(first)),
            Output::EndWorld(first) => {
                host.owed.remove(&Task::Prepare(first));
                host.owed.remove(&Task::Begin(first));
                for rank in host.parts[&first].clone().ranks() {
                    if self.hosts[tree_index].processes.contains_key(&rank.0) {
                        self.end(
                            tree_index,
                            rank,
                            RankEnd::Signaled { signal: SIGKILL, core: false },
                        );
                    } else {
                        self.post(tree_index, Input::Exited(rank, RankEnd::NotStarted));
                    }
                }
            }
            Output::ForgetWorld(first) => drop(host.parts.remove(&first)),
            Output::Spawned(_, outcome) => self.answers.push(outcome),
            _ => {}
        }
    }

    pub(super) fn prepare(&mut self, tree_index: usize, first: Rank) {
        if self.fails.get(&(tree_index, first)) == Some(&WorldFault::Preparing) {
            self.fail(tree_index, first);
        }
        self.done(tree_index, Task::Prepare(first), Input::Prepared(first));
    }

    pub(super) fn begin(&mut self, tree_index: usize, first: Rank) {
        if self.fails.get(&(tree_index, first)) == Some(&WorldFault::Beginning) {
            self.fail(tree_index, first);
        } else {
            let fences = self.fences;
            let host = &mut self.hosts[tree_index];
            let pmi = if fences > 0 { Pmi::Unused } else { Pmi::Finalized };
            let ranks: Vec<Rank> = host.parts[&first].ranks().collect();
            for rank in &ranks {
                let process = Process { pmi, inside: false, fences, doomed: None, end: None };
                host.processes.insert(rank.0, process);
            }
            let pids = ranks.into_iter().map(|rank| (rank, 100 + rank.0)).collect();
            self.post(tree_index, Input::Pids(pids));
        }
        self.done(tree_index, Task::Begin(first), Input::Begun(first));
    }

    pub(super) fn fail(&mut self, tree_index: usize, first: Rank) {
        self.failed.insert(first);
        let problem = "no such program".to_owned();
        self.post(tree_index, Input::WorldFailed(first, Failure::Suite { problem }));
    }
}
