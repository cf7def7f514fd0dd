//! A host with processes, for tests of the machine. It answers each question at once, and performs each output.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use mpd_leftovers::{FileId, Lifetime, Reading};
use mpd_sansio::Time;
use mpd_wire::{Pid, Rank};

use crate::ending::{Beginning, Ending};
use crate::input::{Answer, Input, Killing};
use crate::output::{Action, Output, Question};
use crate::shm::ShmFile;
use crate::signals::SIGKILL;

const BEGAN: u64 = 1_000_000_000_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// 0 is the manager.
    pub(crate) parent: i32,
    /// The rank whose process group it is in.
    pub(crate) rank: Option<Rank>,
    /// The signals that it handles.
    pub(crate) handles: &'static [i32],
    /// Belongs to another user, so that signals of the manager are refused.
    pub(crate) is_foreign: bool,
    /// Is in an uninterruptible system call: SIGSTOP takes no effect.
    pub(crate) is_deep: bool,
    /// How often it forks while it runs: once for each check of its state.
    pub(crate) forks: u32,
    pub(crate) in_group: bool,
    pub(crate) is_stopped: bool,
    /// SIGSTOP was sent, and takes effect at the next check.
    pub(crate) stops: bool,
    pub(crate) is_dead: bool,
}

/// The host, and its machine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) machine: Ending,
    pub(crate) now: Time,
    pub(crate) processes: BTreeMap<i32, Process>,
    pub(crate) files: Vec<ShmFile>,
    /// When a file was last made.
    changed: u64,
    /// The system does not list children.
    pub(crate) hides_children: bool,
    pub(crate) helper_fails: bool,
    is_frozen: bool,
    has_group: bool,
    /// All questions and outputs, in order.
    log: Vec<Output>,
    next: i32,
}

impl Host {
    /// A host with a rank for each of these processes.
    pub(crate) fn new(ranks: impl IntoIterator<Item = Process>) -> Self {
        Self::with(Beginning::default(), ranks)
    }

    pub(crate) fn with(beginning: Beginning, ranks: impl IntoIterator<Item = Process>) -> Self {
        let has_group = beginning.has_group;
        let beginning = Beginning { began: BEGAN, changed: Some(BEGAN), ..beginning };
        let mut host = Self {
            machine: Ending::new(beginning, clocks(Time::ZERO)),
            now: Time::ZERO,
            processes: BTreeMap::new(),
            files: Vec::new(),
            changed: BEGAN,
            hides_children: false,
            helper_fails: false,
            is_frozen: false,
            has_group,
            log: Vec::new(),
            next: 1,
        };
        while host.machine.poll_output().is_some() {}
        for (rank, process) in (0..).zip(ranks) {
            let pid = host.add(Process { rank: Some(Rank(rank)), ..process });
            host.send(Input::Started(Pid(pid), Some(0)));
        }
        host.log.clear();
        host
    }

    pub(crate) fn add(&mut self, process: Process) -> i32 {
        let pid = self.next;
        self.next += 1;
        self.processes.insert(pid, process);
        pid
    }

    /// The job makes a file of `/dev/shm`.
    pub(crate) fn make(&mut self, inode: u64) {
        self.changed += 1;
        let id = FileId { device: 1, inode, born: Some(self.changed) };
        let path = PathBuf::from(format!("/dev/shm/file-{inode}"));
        self.files.push(ShmFile { path, id, is_own: true });
    }

    /// Gives the machine an input. All outputs and questions since then, in order.
    pub(crate) fn send(&mut self, input: Input) -> Vec<Output> {
        self.machine.handle(self.now, input);
        self.settle()
    }

    /// Lets time pass to the next deadline of the machine.
    pub(crate) fn wait(&mut self) -> Vec<Output> {
        self.now = self.machine.poll_timeout().expect("a deadline");
        self.machine.handle_timeout(self.now);
        self.settle()
    }

    /// Lets time pass until the machine does this.
    pub(crate) fn wait_for(&mut self, wanted: &Output) -> Vec<Output> {
        let until = self.now + Duration::from_secs(10);
        let mut all = Vec::new();
        while !all.contains(wanted) {
            assert!(self.now < until, "{wanted:?} does not come: {all:?}");
            all.extend(self.wait());
        }
        all
    }

    fn settle(&mut self) -> Vec<Output> {
        while let Some(output) = self.machine.poll_output() {
            self.log.push(output.clone());
            match output {
                Output::Ask(question) => {
                    let answer = self.answer(question);
                    assert!(self.machine.poll_output().is_none(), "a question is the last output");
                    self.machine.handle(self.now, Input::Answer(answer));
                }
                other => self.perform(other),
            }
        }
        std::mem::take(&mut self.log)
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Act(Action::Continue(pids)) => pids.iter().for_each(|pid| self.resume(pid.0)),
            Output::Act(Action::ContinueDescendants) => {
                let all: Vec<i32> = self.processes.keys().copied().collect();
                all.into_iter().for_each(|pid| self.resume(pid));
            }
            Output::Act(Action::Unfreeze) => self.is_frozen = false,
            Output::Act(Action::KillGroup) => {
                let members: Vec<i32> = self.members().iter().map(|pid| pid.0).collect();
                members.into_iter().for_each(|pid| self.kill(pid));
            }
            Output::Reap => self.reap(),
            Output::Act(Action::RemoveFile(id, _)) => self.files.retain(|file| file.id != id),
            other => drop(other),
        }
    }

    /// Reaps dead children, as the manager does after each round.
    fn reap(&mut self) {
        while let Some(pid) =
            self.children_of(0).into_iter().find(|pid| self.processes[pid].is_dead)
        {
            self.machine.handle(self.now, Input::Ended(Pid(pid)));
            let log = self.settle();
            self.log.extend(log);
            self.processes.remove(&pid);
        }
        let is_alone = self.children_of(0).is_empty();
        self.machine.handle(self.now, if is_alone { Input::NoChild } else { Input::NoDeadChild });
        let log = self.settle();
        self.log.extend(log);
    }

    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Children => {
                let hidden = self.hides_children;
                pids(if hidden { Vec::new() } else { self.children_of(0) })
            }
            Question::ChildrenOf(pid) => pids(self.children_of(pid.0)),
            Question::Descendants => pids(self.processes.keys().copied().collect()),
            Question::Signal(signal, target) => {
                let meant: Vec<i32> = self
                    .processes
                    .iter()
                    .filter(|(_, process)| process.rank.is_some_and(|rank| target.means(rank)))
                    .map(|(pid, _)| *pid)
                    .collect();
                let (refused, sent): (Vec<i32>, Vec<i32>) =
                    meant.into_iter().partition(|pid| self.processes[pid].is_foreign);
                for pid in sent {
                    if signal == SIGKILL || !self.processes[&pid].handles.contains(&signal) {
                        self.kill(pid);
                    }
                }
                pids(refused)
            }
            Question::IsStill(pid, _) => Answer::Is(self.check(pid.0)),
            Question::Stop(pid) => Answer::Is(self.stop(pid.0)),
            Question::Freeze => {
                self.is_frozen = true;
                Answer::Is(true)
            }
            Question::IsFrozen => Answer::Is(self.is_frozen),
            Question::RemoveEmptyGroup => {
                let is_empty = self.members().is_empty();
                self.has_group &= !is_empty;
                Answer::Is(is_empty)
            }
            Question::StartHelper(..) => Answer::Is(!self.helper_fails),
            Question::Members => Answer::Members(Some(self.members())),
            Question::RankOf(pid, _) => {
                Answer::Rank(self.processes.get(&pid.0).and_then(|process| process.rank))
            }
            Question::Effect(pid, signal) => {
                let process = &self.processes[&pid.0];
                Answer::Effect {
                    takes: !process.handles.contains(&signal),
                    was_stopped: process.is_stopped,
                }
            }
            Question::KillChildren(spared) => Answer::Killing(self.kill_children(&spared)),
            Question::Life(Pid(pid), begin, over) => Answer::Life(Some(Lifetime {
                pid: pid.unsigned_abs(),
                begin: begin.unwrap_or_default(),
                seen: 1,
                over,
            })),
            Question::Clocks => Answer::Clocks(clocks(self.now)),
            Question::ShmTime => Answer::ShmTime(Some(self.changed)),
            Question::ShmFiles => Answer::ShmFiles(self.files.clone(), self.changed + BEGAN),
        }
    }

    fn children_of(&self, parent: i32) -> Vec<i32> {
        let is_child = |process: &Process| process.parent == parent;
        self.processes.iter().filter(|(_, it)| is_child(it)).map(|(pid, _)| *pid).collect()
    }

    fn members(&self) -> BTreeSet<Pid> {
        let is_member = |process: &Process| process.in_group && !process.is_dead;
        self.processes.iter().filter(|(_, it)| is_member(it)).map(|(pid, _)| Pid(*pid)).collect()
    }

    /// Whether a process is still. One that runs forks first, if it wants to.
    fn check(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return true };
        if process.is_dead || process.is_stopped {
            return true;
        }
        if process.forks > 0 {
            process.forks -= 1;
            let child = Process { parent: pid, forks: 0, stops: false, ..process.clone() };
            self.add(child);
            return false;
        }
        process.is_stopped = process.stops && !process.is_deep;
        process.is_stopped
    }

    fn stop(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        process.stops = !process.is_foreign;
        process.stops
    }

    fn resume(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.is_stopped = false;
            process.stops = false;
        }
    }

    fn kill(&mut self, pid: i32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.is_dead = true;
        for child in self.children_of(pid) {
            if let Some(child) = self.processes.get_mut(&child) {
                child.parent = 0;
            }
        }
    }

    fn kill_children(&mut self, spared: &BTreeSet<Pid>) -> Killing {
        if self.hides_children {
            return Killing::default();
        }
        let children = self.children_of(0);
        let mut immune = Vec::new();
        for &pid in children.iter().filter(|&&pid| !spared.contains(&Pid(pid))) {
            if self.processes[&pid].is_foreign {
                immune.push(Pid(pid));
            } else {
                self.kill(pid);
            }
        }
        Killing { immune, found_any: !children.is_empty() }
    }
}

fn clocks(now: Time) -> Reading {
    let boot = u64::try_from(now.since(Time::ZERO).as_millis()).unwrap_or(u64::MAX);
    Reading { before: boot, wall: boot + BEGAN / 1_000_000, after: boot }
}

fn pids(pids: Vec<i32>) -> Answer {
    Answer::Pids(pids.into_iter().map(Pid).collect())
}
