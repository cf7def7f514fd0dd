//! Worlds that are spawned.

use super::super::{SIGKILL, name};
use super::{Cluster, Host, Pmi, Process, Task, WorldFault};
use mpd_job::manager::{Config, Input, Manager, Output, WorldPlan};
use mpd_wire::job::{Failure, Parts, RankEnd, Share, World};
use mpd_wire::message::Down;
use mpd_wire::{Instance, Rank, RankSet};
use std::collections::BTreeSet;
impl Cluster {
    pub(super) fn spawn(
        &mut self,
        spawner: Rank,
        places: &[usize],
        joining: usize,
        fails: Option<WorldFault>,
    ) {
        let known = self.shares.len();
        let mut places: BTreeSet<usize> = places.iter().copied().collect();
        places.retain(|place| !self.hosts[0].manager.machine().is_lost(*place));
        places.extend(known..known + joining);
        let Some(&first_place) = places.first() else { return };
        let size = u32::try_from(places.len()).unwrap();
        self.spawned += 1;
        let first = Rank(self.size + 1000 * self.spawned);
        let world = World { number: self.spawned, first, size };
        let part = |(rank, place): (u32, usize)| {
            (u32::try_from(place).unwrap(), RankSet::from_iter([Rank(first.0 + rank)]))
        };
        let parts = Parts((0..).zip(places.iter().copied()).map(part).collect());
        let share = |place: usize| Share {
            member: name(place),
            manager: Instance::from_bytes([2; 16]),
            addresses: Vec::new(),
            ranks: RankSet::none(),
        };
        if let Some(fails) = fails {
            self.fails.insert((first_place, first), fails);
        }
        let joining = (known..known + joining).map(share).collect();
        let kvsname = "kvs".to_owned();
        self.turn(0, Input::Spawn(WorldPlan { world, parts, spawner, kvsname, joining }));
    }

    pub(super) fn send_down(&mut self, places: Vec<usize>, down: &Down) {
        for child in places {
            let child = &mut self.hosts[child];
            if child.linked {
                child.from_parent.push_back(down.clone());
            }
        }
    }

    pub(super) fn perform_world(&mut self, place: usize, output: Output) {
        let host = &mut self.hosts[place];
        match output {
            Output::Grow(_, shares) if place == 0 => {
                self.shares.extend(shares).unwrap();
                for place in self.hosts.len()..self.shares.len() {
                    let (shares, size) = (&self.shares, self.size);
                    let on_failure = self.on_failure;
                    let config =
                        Config { shares, place, size, on_failure, limit: None, debugged: false };
                    self.hosts.push(Host::of(Manager::new(config), place, Vec::new()));
                }
            }
            Output::Prepare(world, parts) => {
                self.announced += usize::from(place == 0);
                let here = parts.at(place);
                if !here.is_empty() {
                    host.parts.insert(world.first, here);
                    self.owe(place, Task::Prepare(world.first));
                }
            }
            Output::StartWorld(first) => self.owe(place, Task::Begin(first)),
            Output::EndWorld(first) => {
                host.owed.remove(&Task::Prepare(first));
                host.owed.remove(&Task::Begin(first));
                for rank in host.parts[&first].clone().ranks() {
                    if self.hosts[place].processes.contains_key(&rank.0) {
                        self.end(place, rank, RankEnd::Signaled { signal: SIGKILL, core: false });
                    } else {
                        self.post(place, Input::Exited(rank, RankEnd::NotStarted));
                    }
                }
            }
            Output::ForgetWorld(first) => drop(host.parts.remove(&first)),
            Output::Spawned(_, outcome) => self.answers.push(outcome),
            _ => {}
        }
    }

    pub(super) fn prepare(&mut self, place: usize, first: Rank) {
        if self.fails.get(&(place, first)) == Some(&WorldFault::Preparing) {
            self.fail(place, first);
        }
        self.done(place, Task::Prepare(first), Input::Prepared(first));
    }

    pub(super) fn begin(&mut self, place: usize, first: Rank) {
        if self.fails.get(&(place, first)) == Some(&WorldFault::Beginning) {
            self.fail(place, first);
        } else {
            let fences = self.fences;
            let host = &mut self.hosts[place];
            let pmi = if fences > 0 { Pmi::Unused } else { Pmi::Finalized };
            let ranks: Vec<Rank> = host.parts[&first].ranks().collect();
            for rank in &ranks {
                let process = Process { pmi, inside: false, fences, doomed: None, end: None };
                host.processes.insert(rank.0, process);
            }
            let pids = ranks.into_iter().map(|rank| (rank, 100 + rank.0)).collect();
            self.post(place, Input::Pids(pids));
        }
        self.done(place, Task::Begin(first), Input::Begun(first));
    }

    pub(super) fn fail(&mut self, place: usize, first: Rank) {
        self.failed.insert(first);
        let problem = "no such program".to_owned();
        self.post(place, Input::WorldFailed(first, Failure::Suite { problem }));
    }
}
