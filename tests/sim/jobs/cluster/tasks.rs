//! Tasks that a process of a manager has from its machine, and performs later.

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, RankEnd};

use super::super::SIGKILL;
use super::Cluster;
use super::processes::Process;

/// A task of a process that is not done yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Check,
    Spawn,
    Stop,
    Kill,
    Drain,
    CleanUp,
    Prepare(Rank),
    Begin(Rank),
}

impl Cluster {
    pub(super) fn do_task(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive || host.owed.is_empty() {
            return false;
        }
        let at = self.dice.below(host.owed.len());
        let task = *host.owed.iter().nth(at).unwrap();
        self.perform_task(tree_index, task)
    }

    /// The process of a manager gets a task. It performs the task later, or at once.
    pub(super) fn give_task(&mut self, tree_index: usize, task: Task) {
        self.hosts[tree_index].owed.insert(task);
        if self.dice.one_in(3) {
            self.perform_task(tree_index, task);
        }
    }

    pub(super) fn perform_task(&mut self, tree_index: usize, task: Task) -> bool {
        let host = &mut self.hosts[tree_index];
        if task == Task::Drain && tree_index == 0 && self.reader_stopped {
            return false;
        }
        let fails = host.fails == Some(task);
        match task {
            Task::Check if fails => {
                self.check_failed = true;
                let problem = "no such program".to_owned();
                self.done(tree_index, task, Input::StartFailed(Failure::Suite { problem }));
            }
            Task::Check => {
                host.ready = true;
                self.done(tree_index, task, Input::Ready);
            }
            Task::Spawn => self.spawn_one(tree_index, fails),
            Task::Stop => self.done(tree_index, task, Input::TreeStopped),
            Task::Kill => self.kill_one(tree_index),
            Task::Drain => self.done(tree_index, task, Input::Drained),
            Task::CleanUp => {
                host.cleaned_up = true;
                self.done(tree_index, task, Input::CleanedUp);
            }
            Task::Prepare(first) => self.prepare(tree_index, first),
            Task::Begin(first) if !host.stopped => self.begin(tree_index, first),
            Task::Begin(_) => return false,
        }
        true
    }

    pub(super) fn done(&mut self, tree_index: usize, task: Task, input: Input) {
        self.hosts[tree_index].owed.remove(&task);
        self.post(tree_index, input);
    }

    pub(super) fn spawn_one(&mut self, tree_index: usize, fails: bool) {
        let fences = self.fences;
        let host = &mut self.hosts[tree_index];
        let spawned = host.processes.len();
        if fails && spawned == 1 {
            let problem = "no process".to_owned();
            self.done(tree_index, Task::Spawn, Input::StartFailed(Failure::Suite { problem }));
        } else if let Some(&rank) = host.ranks.get(spawned) {
            host.processes.insert(rank, Process::new(fences));
            self.begin_program(tree_index, Rank(rank));
        } else {
            let pids = host.ranks.iter().map(|&rank| (Rank(rank), 100 + rank)).collect();
            self.post(tree_index, Input::Pids(pids));
            self.done(tree_index, Task::Spawn, Input::Started);
        }
    }

    pub(super) fn kill_one(&mut self, tree_index: usize) {
        let mut living = self.hosts[tree_index].processes.iter().filter(|(_, p)| p.end.is_none());
        match living.next().map(|(&rank, _)| rank) {
            Some(rank) => {
                let end = RankEnd::Signaled { signal: SIGKILL, core: false };
                self.end(tree_index, Rank(rank), end);
            }
            None => self.done(tree_index, Task::Kill, Input::TreeGone),
        }
    }
}
