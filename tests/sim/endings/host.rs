//! A host with the machine and its helper. Every action of the machine is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_ending::{
    Action, Answer, Beginning, Completeness, Ending, FileKind, HELPER_PATIENCE, Input, Output,
    Question,
};
use mpd_sansio::Time;
use mpd_wire::job::RankEnd;
use mpd_wire::{Pid, Rank};

use crate::kernel::{BEGAN, INIT, Kernel, Process, State, clocks};

/// The number of the manager.
pub(super) const MANAGER: i32 = 1;

const SIGKILL: RankEnd = RankEnd::Signaled { signal: 9, core: false };

#[derive(Debug)]
pub(super) struct Host {
    pub(super) kernel: Kernel,
    pub(super) machine: Ending,
    pub(super) now: Time,
    helper: Option<i32>,
    /// A fence has waited for the helper for as long as it may.
    is_helper_late: bool,
    /// Processes whose lives were noted.
    noted: BTreeSet<i32>,
    /// Every process stops when it should, and no helper fails.
    is_calm: bool,
    kills: bool,
    /// The machine has reported that everything is stopped, and nothing was ordered to run since.
    is_halted: bool,
    /// Worlds in a fence, and when they entered it.
    fences: BTreeMap<Rank, Time>,
    pub(super) gone: u32,
    pub(super) cleaned_up: bool,
    is_record_removed: bool,
    pub(super) trace: Vec<String>,
}

impl Host {
    pub(super) fn new(is_calm: bool) -> Self {
        let beginning = Beginning {
            began: BEGAN,
            changed: Some(BEGAN),
            survives_failures: true,
            ..Beginning::default()
        };
        let mut kernel = Kernel::new();
        let manager = kernel.start(Process { is_subreaper: true, ..Process::child_of(INIT) });
        assert_eq!(manager, MANAGER);
        let mut host = Self {
            kernel,
            machine: Ending::new(beginning, clocks(Time::ZERO)),
            now: Time::ZERO,
            helper: None,
            is_helper_late: false,
            noted: BTreeSet::new(),
            is_calm,
            kills: false,
            is_halted: false,
            fences: BTreeMap::new(),
            gone: 0,
            cleaned_up: false,
            is_record_removed: false,
            trace: Vec::new(),
        };
        host.settle();
        host
    }

    pub(super) fn start_rank(&mut self, process: Process) {
        let pid = self.kernel.start(process);
        self.give(Input::Started(Pid(pid), Some(0)));
    }

    pub(super) fn give(&mut self, input: Input) {
        self.trace.push(format!("{:?}: {input:?}", self.now));
        self.is_halted &= !matches!(input, Input::Continue | Input::Kill);
        self.machine.handle(self.now, input);
        self.settle();
    }

    /// Time passes, at most until the next deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let at = self.now + time;
        self.now = self.machine.poll_timeout().map_or(at, |due| due.min(at).max(self.now));
        if self.machine.poll_timeout().is_some_and(|due| due <= self.now) {
            self.trace.push(format!("{:?}: deadline", self.now));
            self.machine.handle_timeout(self.now);
            self.settle();
        }
    }

    /// All ranks of a world have entered their fence. A helper that has delayed a fence for too long delays no other one.
    pub(super) fn enter_fence(&mut self, first: Rank) {
        if self.fences.contains_key(&first) {
            return;
        }
        self.fences.insert(first, self.now);
        self.give(Input::FenceOver(first));
        let waits = self.fences.contains_key(&first) && !self.machine.is_stopping();
        let is_late = self.helper.is_some() && self.is_helper_late;
        assert!(!is_late || !waits, "{first} waits for a helper that hangs");
    }

    pub(super) const fn has_helper(&self) -> bool {
        self.helper.is_some()
    }

    /// The helper ends, with its findings or without.
    pub(super) fn end_helper(&mut self, is_whole: bool) {
        let is_stopped = |pid: &i32| self.kernel.processes[pid].state == State::Stopped;
        let Some(helper) = self.helper.filter(|pid| !is_stopped(pid)) else { return };
        self.helper = None;
        // It may have been killed.
        if !is_whole || !self.kernel.lives(helper) {
            self.kernel.die(helper, SIGKILL);
            return self.give(Input::HelperEnded(Completeness::Cut));
        }
        let wanted = self.kernel.processes[&helper].helper.clone().expect("a helper");
        let found = self.kernel.users(&wanted);
        self.kernel.die(helper, RankEnd::Exited(0));
        self.give(Input::Found(found));
        self.give(Input::HelperEnded(Completeness::Complete));
    }

    /// Reaps dead children, as the manager does after SIGCHLD and after each round of killing.
    pub(super) fn reap(&mut self) {
        let dead = |host: &Self| {
            let mut children = host.kernel.children_of(MANAGER).into_iter();
            children.find(|pid| !host.kernel.processes[pid].lives())
        };
        while let Some(pid) = dead(self) {
            self.give(Input::Ended(Pid(pid)));
            assert!(self.noted.contains(&pid), "{pid} was reaped without a note");
            self.kernel.reap(pid);
        }
        let is_alone = self.kernel.children_of(MANAGER).is_empty();
        self.give(if is_alone { Input::NoChild } else { Input::NoDeadChild });
    }

    fn settle(&mut self) {
        let mut reaps = false;
        while let Some(output) = self.machine.poll_output() {
            self.trace.push(format!("    {output:?}"));
            assert!(!self.is_record_removed || is_report(&output), "after the record: {output:?}");
            match output {
                Output::Ask(question) => {
                    let answer = self.answer(question);
                    self.machine.handle(self.now, Input::Answer(answer));
                }
                Output::Reap => reaps = true,
                other => self.perform(other),
            }
        }
        if reaps {
            self.reap();
        }
        self.check();
    }

    /// What holds after each input.
    fn check(&self) {
        let runs = |pid: &i32| self.kernel.processes[pid].state == State::Running;
        let is_stopped = |helper: i32| {
            let process = self.kernel.processes.get(&helper);
            process.is_some_and(|it| it.lives() && (it.stops || it.state == State::Stopped))
        };
        assert!(!self.helper.is_some_and(is_stopped), "the helper is stopped");
        if self.is_calm && self.is_halted {
            let running: Vec<i32> = self.kernel.job(MANAGER).into_iter().filter(runs).collect();
            assert!(running.is_empty(), "{running:?} run in spite of a stop");
        }
        if self.machine.is_busy() {
            return;
        }
        for (pid, process) in &self.kernel.processes {
            let is_held = process.lives() && (process.stops || process.state == State::Stopped);
            assert!(!is_held || process.is_foreign, "{pid} stays stopped");
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Act(Action::Continue(pids)) => {
                pids.iter().for_each(|pid| self.kernel.resume(pid.0))
            }
            Output::Act(Action::ContinueDescendants) => {
                let all = self.kernel.descendants_of(MANAGER);
                all.into_iter().for_each(|pid| self.kernel.resume(pid));
            }
            Output::Act(Action::StopHelper) => {
                if let Some(helper) = self.helper.take() {
                    self.kernel.die(helper, SIGKILL);
                }
            }
            Output::Act(Action::RemoveFile(id, _)) => {
                let file = self.kernel.remove(id.inode).expect("a file that exists");
                assert!(file.made_by_job, "file {} of another program was removed", id.inode);
                assert!(!file.has_stranger, "file {} was in use", id.inode);
            }
            Output::Act(Action::RemoveRecord) => self.is_record_removed = true,
            Output::ReleaseFence(first) => {
                let entered = self.fences.remove(&first).expect("a world in a fence");
                self.is_helper_late |=
                    self.helper.is_some() && self.now >= entered + HELPER_PATIENCE;
            }
            Output::TreeStopped => self.is_halted = !self.machine.is_kill(),
            Output::TreeGone => {
                self.gone += 1;
                let left = self.kernel.job(MANAGER);
                let is_foreign = |pid: &i32| self.kernel.processes[pid].is_foreign;
                assert!(left.iter().all(is_foreign), "{left:?} live on");
            }
            Output::CleanedUp => self.clean(),
            other => drop(other),
        }
    }

    /// The clean-up is over.
    fn clean(&mut self) {
        self.cleaned_up = true;
        assert!(self.is_record_removed);
        for (inode, file) in &self.kernel.files {
            let is_left = file.made_by_job && !file.is_excused;
            assert!(!self.is_calm || !is_left, "file {inode} of the job is left");
        }
    }

    fn answer(&mut self, question: Question) -> Answer {
        match &question {
            Question::Life(Pid(pid), ..) => _ = self.noted.insert(*pid),
            Question::KillChildren(_) => self.check_notes(),
            // Without processes of the job, only the other programs count.
            Question::StartHelper(kind, _) => {
                assert!(self.helper.is_none(), "one helper at a time");
                assert!(*kind == FileKind::New || self.gone > 0, "the job lives");
            }
            _other => {}
        }
        let starts_helper = matches!(question, Question::StartHelper(..));
        let answer = self.kernel.answer(MANAGER, self.now, question);
        if starts_helper {
            self.helper = self.kernel.processes.keys().next_back().copied();
            self.is_helper_late = false;
        }
        answer
    }

    /// Before the first round of killing, every process was noted.
    fn check_notes(&mut self) {
        if !std::mem::replace(&mut self.kills, true) && self.is_calm {
            let unnoted: Vec<i32> = self
                .kernel
                .job(MANAGER)
                .into_iter()
                .filter(|pid| !self.noted.contains(pid))
                .collect();
            assert!(unnoted.is_empty(), "{unnoted:?} are killed without a note");
        }
    }
}

/// Whether an output changes nothing on the host.
fn is_report(output: &Output) -> bool {
    matches!(
        output,
        Output::End(_) | Output::TraceEnds | Output::CleanedUp | Output::Act(Action::RemoveRecord)
    )
}
