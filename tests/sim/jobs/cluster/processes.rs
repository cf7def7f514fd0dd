//! The processes of ranks, and what they do.

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;

use super::Cluster;
use super::programs::Program;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pmi {
    Unused,
    Initialized,
    Finalized,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pmi: Pmi,
    pub(crate) inside: bool,
    /// The number of fences that it will still enter.
    pub(crate) fences: u32,
    /// The number of spawns whose answers it awaits.
    pub(crate) spawns: u32,
    /// It computes until time passes.
    pub(crate) computes: bool,
    /// The signal that will kill it.
    pub(super) doomed: Option<u8>,
    /// What it does, if ranks speak.
    pub(super) program: Program,
    pub(crate) end: Option<RankEnd>,
}

impl Process {
    /// A process that uses PMI if it will enter fences.
    pub(super) fn new(fences: u32) -> Self {
        let pmi = if fences > 0 { Pmi::Unused } else { Pmi::Finalized };
        Self {
            pmi,
            inside: false,
            fences,
            spawns: 0,
            computes: false,
            doomed: None,
            program: Program::default(),
            end: None,
        }
    }

    /// Whether it speaks PMI and has no answer to its last request.
    pub(crate) const fn waits(&self) -> bool {
        self.program.waits()
    }

    /// Whether it can perform a step, unless it is stopped.
    pub(super) fn can_step(&self) -> bool {
        self.end.is_none()
            && (self.doomed.is_some()
                || !(self.inside || self.computes || self.spawns > 0 || self.waits()))
    }
}

impl Cluster {
    /// Ranks that compute continue. Whether there were some.
    pub(super) fn wake(&mut self) -> bool {
        let living = self.hosts.iter_mut().filter(|host| host.alive);
        let processes = living.flat_map(|host| host.processes.values_mut());
        processes.fold(false, |any, process| any | std::mem::take(&mut process.computes))
    }

    /// A rank performs the next of: init, its fences, finalize, exit.
    pub(super) fn let_rank_run(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive || host.stopped || host.processes.is_empty() {
            return false;
        }
        let first = self.dice.below(host.processes.len());
        let mut order =
            host.processes.range(..).skip(first).chain(host.processes.iter().take(first));
        let Some((&rank, _)) = order.find(|(_, process)| process.can_step()) else {
            return false;
        };
        let process = host.processes.get_mut(&rank).unwrap();
        let rank = Rank(rank);
        if process.doomed.is_none() && self.dice.one_in(12) {
            process.computes = true;
        } else if let Some(signal) = process.doomed {
            self.end(tree_index, rank, RankEnd::Signaled { signal, core: false });
        } else if host.speakers.is_some() {
            self.run_program(tree_index, rank);
        } else if process.pmi == Pmi::Unused {
            process.pmi = Pmi::Initialized;
            self.post(tree_index, Input::Initialized(rank));
        } else if process.fences > 0 {
            process.fences -= 1;
            self.enter(tree_index, rank.0);
        } else if process.pmi == Pmi::Initialized {
            process.pmi = Pmi::Finalized;
            self.post(tree_index, Input::Finalized(rank));
        } else {
            self.end(tree_index, rank, RankEnd::Exited(0));
        }
        true
    }

    pub(crate) fn enter(&mut self, tree_index: usize, rank: u32) {
        self.hosts[tree_index].processes.get_mut(&rank).unwrap().inside = true;
        self.post(tree_index, Input::EnteredFence(Rank(rank)));
    }

    /// All ranks of the job enter the fence in one step, host by host.
    pub(crate) fn enter_all(&mut self) {
        for tree_index in 0..self.hosts.len() {
            for rank in self.hosts[tree_index].ranks.clone() {
                self.enter(tree_index, rank);
            }
            self.end_turn(tree_index);
        }
    }

    pub(crate) fn end(&mut self, tree_index: usize, rank: Rank, end: RankEnd) {
        let process = self.hosts[tree_index].processes.get_mut(&rank.0);
        let Some(process) = process.filter(|process| process.end.is_none()) else { return };
        process.end = Some(end);
        process.inside = false;
        self.forget_spawns(rank);
        self.end_program(tree_index, rank);
        self.post(tree_index, Input::Exited(rank, end));
    }
}
