//! Spawned worlds.

use super::super::SIGKILL;
use super::links::Message;
use super::tasks::Task;
use super::{Cluster, Host, Process, WorldFault};
use mpd_job::manager::spawns::Announced;
use mpd_job::manager::{Input, Output};
use mpd_wire::Rank;
use mpd_wire::job::{Failure, Parts, RankEnd, World};
use mpd_wire::message::Down;

impl Cluster {
    pub(super) fn send_down(&mut self, tree_indices: Vec<usize>, down: &Down) {
        for child in tree_indices {
            let child = &mut self.hosts[child];
            if child.linked {
                child.from_parent.push_back(Message::Control(down.clone()));
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
                    self.link_newcomer(tree_index);
                }
            }
            Output::Prepare(announced) => {
                let Announced { world, parts, order } = *announced;
                assert!(
                    order.is_some(),
                    "the order precedes the announcement, and has the same size"
                );
                if tree_index == 0 {
                    self.begin_world(world, &parts);
                }
                let host = &mut self.hosts[tree_index];
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
                for rank in host.ranks_of(first) {
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
            Output::Spawn(output) => self.perform_spawn(tree_index, output),
            _ => {}
        }
    }

    /// The root has numbered a world. Its start may fail somewhere.
    fn begin_world(&mut self, world: World, parts: &Parts) {
        assert_eq!(self.worlds.insert(world.first, world), None, "numbers are not used twice");
        let fault = match self.dice.below(8) {
            0 => WorldFault::Preparing,
            1 => WorldFault::Beginning,
            _ => return,
        };
        let (tree_index, _) = parts.0[self.dice.below(parts.0.len())];
        self.fails.insert((tree_index as usize, world.first), fault);
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
            let ranks: Vec<Rank> = host.parts[&first].ranks().collect();
            for rank in &ranks {
                host.processes.insert(rank.0, Process::new(fences));
            }
            let pids = ranks.into_iter().map(|rank| (rank, 100 + rank.0)).collect();
            self.post(tree_index, Input::Pids(pids));
        }
        self.done(tree_index, Task::Begin(first), Input::WorldStarted(first));
    }

    pub(super) fn fail(&mut self, tree_index: usize, first: Rank) {
        self.failed.insert(first);
        let problem = "no such program".to_owned();
        self.post(tree_index, Input::WorldFailed(first, Failure::Suite { problem }));
    }
}
