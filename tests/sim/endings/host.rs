//! A host with the machine and its helper. Every action of the machine is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_ending::{
    Answer, Beginning, Completeness, Ending, FileKind, HELPER_PATIENCE, Input, Killing, Output,
    Pid, Question,
};
use mpd_leftovers::{Lifetime, Reading};
use mpd_machine::Time;
use mpd_wire::Rank;

use super::kernel::{BEGAN, Kernel, MANAGER, Process, State};

/// The helper of the machine.
#[derive(Debug)]
struct Helper {
    pid: i32,
    wanted: Vec<u64>,
    /// A fence has waited for it for as long as it may.
    is_late: bool,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) kernel: Kernel,
    pub(super) machine: Ending,
    pub(super) now: Time,
    helper: Option<Helper>,
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
        let mut host = Self {
            kernel: Kernel::new(),
            machine: Ending::new(beginning, clocks(Time::ZERO)),
            now: Time::ZERO,
            helper: None,
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
        let is_late = self.helper.as_ref().is_some_and(|helper| helper.is_late);
        let waits = self.fences.contains_key(&first) && !self.machine.is_stopping();
        assert!(!is_late || !waits, "{first} waits for a helper that hangs");
    }

    pub(super) const fn has_helper(&self) -> bool {
        self.helper.is_some()
    }

    /// The helper ends, with its findings or without.
    pub(super) fn end_helper(&mut self, is_whole: bool) {
        let Some(helper) =
            self.helper.take_if(|it| state_of(&self.kernel, it.pid) != State::Stopped)
        else {
            return;
        };
        // It may have been killed.
        if !is_whole || state_of(&self.kernel, helper.pid) == State::Dead {
            self.kernel.die(helper.pid);
            return self.give(Input::HelperEnded(Completeness::Cut));
        }
        let found = self.kernel.users(&helper.wanted);
        self.kernel.die(helper.pid);
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
        let is_stopped = |helper: &Helper| {
            let process = self.kernel.processes.get(&helper.pid);
            process.is_some_and(|it| it.lives() && (it.stops || it.state == State::Stopped))
        };
        assert!(!self.helper.as_ref().is_some_and(is_stopped), "the helper is stopped");
        if self.is_calm && self.is_halted {
            let running: Vec<i32> = self.kernel.job().into_iter().filter(runs).collect();
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
            Output::Continue(pids) => pids.iter().for_each(|pid| self.kernel.resume(pid.0)),
            Output::ContinueDescendants => {
                let all: Vec<i32> = self.kernel.processes.keys().copied().collect();
                all.into_iter().for_each(|pid| self.kernel.resume(pid));
            }
            Output::StopHelper => {
                if let Some(helper) = self.helper.take() {
                    self.kernel.die(helper.pid);
                }
            }
            Output::RemoveFile(id, _) => {
                let file = self.kernel.remove(id.inode).expect("a file that exists");
                assert!(file.made_by_job, "file {} of another program was removed", id.inode);
                assert!(!file.has_stranger, "file {} was in use", id.inode);
            }
            Output::RemoveRecord => self.is_record_removed = true,
            Output::ReleaseFence(first) => {
                let entered = self.fences.remove(&first).expect("a world in a fence");
                if let Some(helper) = &mut self.helper {
                    helper.is_late |= self.now >= entered + HELPER_PATIENCE;
                }
            }
            Output::TreeStopped => self.is_halted = !self.machine.is_kill(),
            Output::TreeGone => {
                self.gone += 1;
                let left = self.kernel.job();
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
        match question {
            Question::Children => pids(self.kernel.children_of(MANAGER)),
            Question::ChildrenOf(pid) => pids(self.kernel.children_of(pid.0)),
            Question::Descendants => pids(self.kernel.processes.keys().copied().collect()),
            Question::Signal(signal, target) => {
                let means = |rank: Option<Rank>| rank.is_some_and(|rank| target.means(rank));
                let meant = self.kernel.processes.iter().filter(|(_, it)| means(it.rank));
                let meant: Vec<i32> = meant.map(|(pid, _)| *pid).collect();
                pids(meant.into_iter().filter(|&pid| !self.kernel.send(pid, signal)).collect())
            }
            Question::IsStill(pid, _) => {
                let state = self.kernel.processes.get(&pid.0).map(|process| process.state);
                Answer::Is(state != Some(State::Running))
            }
            Question::Stop(pid) => Answer::Is(self.kernel.stop(pid.0)),
            Question::RankOf(pid, _) => {
                Answer::Rank(self.kernel.processes.get(&pid.0).and_then(|process| process.rank))
            }
            Question::Effect(pid, signal) => {
                let process = self.kernel.processes.get(&pid.0);
                let takes = process
                    .is_some_and(|process| process.lives() && !process.handles.contains(&signal));
                let was_stopped = process.is_none_or(|process| process.state == State::Stopped);
                Answer::Effect { takes, was_stopped }
            }
            Question::KillChildren(spared) => Answer::Killing(self.kill_children(&spared)),
            Question::Life(Pid(pid), begin, over) => {
                self.noted.insert(pid);
                let pid = pid.unsigned_abs();
                let begin = begin.unwrap_or_default();
                Answer::Life(Some(Lifetime { pid, begin, seen: 1, over }))
            }
            Question::StartHelper(kind, wanted) => {
                assert!(self.helper.is_none(), "one helper at a time");
                let process = Process { is_helper: true, ..Process::child_of(MANAGER) };
                let pid = self.kernel.start(process);
                // Without processes of the job, only the other programs count.
                assert!(kind == FileKind::New || self.gone > 0, "the job lives");
                self.helper = Some(Helper { pid, wanted, is_late: false });
                Answer::Is(true)
            }
            Question::Clocks => Answer::Clocks(clocks(self.now)),
            Question::ShmTime => Answer::ShmTime(Some(self.kernel.changed())),
            Question::ShmFiles => {
                let listed = BEGAN + 1_000 * micros(self.now);
                Answer::ShmFiles(self.kernel.list(), listed)
            }
            Question::Freeze | Question::IsFrozen | Question::RemoveEmptyGroup => {
                panic!("there is no control group")
            }
            Question::Members => panic!("there is no control group"),
        }
    }

    fn kill_children(&mut self, spared: &BTreeSet<Pid>) -> Killing {
        if !std::mem::replace(&mut self.kills, true) && self.is_calm {
            let unnoted: Vec<i32> =
                self.kernel.job().into_iter().filter(|pid| !self.noted.contains(pid)).collect();
            assert!(unnoted.is_empty(), "{unnoted:?} are killed without a note");
        }
        let children = self.kernel.children_of(MANAGER);
        let mut immune = Vec::new();
        for &pid in children.iter().filter(|&&pid| !spared.contains(&Pid(pid))) {
            if !self.kernel.send(pid, 9) {
                immune.push(Pid(pid));
            }
        }
        Killing { immune, found_any: !children.is_empty() }
    }
}

/// Whether an output changes nothing on the host.
fn is_report(output: &Output) -> bool {
    matches!(output, Output::End(_) | Output::TraceEnds | Output::CleanedUp | Output::RemoveRecord)
}

fn state_of(kernel: &Kernel, pid: i32) -> State {
    kernel.processes.get(&pid).map_or(State::Dead, |process| process.state)
}

fn micros(now: Time) -> u64 {
    u64::try_from(now.since(Time::ZERO).as_micros()).expect("a short time")
}

fn clocks(now: Time) -> Reading {
    let boot = micros(now) / 1000;
    Reading { before: boot, wall: boot + BEGAN / 1_000_000, after: boot }
}

fn pids(pids: Vec<i32>) -> Answer {
    Answer::Pids(pids.into_iter().map(Pid).collect())
}
