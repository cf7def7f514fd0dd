//! A model of a host's kernel: processes with parents, process groups and signals, and files with users. It answers the
//! questions of the machine of `mpd-ending`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mpd_ending::{Answer, Killing, Question, ShmFile, User};
use mpd_leftovers::{FileId, Lifetime, Reading};
use mpd_sansio::Time;
use mpd_wire::job::RankEnd;
use mpd_wire::{Pid, Rank};

/// The parent of processes without another one.
pub(crate) const INIT: i32 = 0;

const SIGKILL: u8 = 9;
const SIGTSTP: u8 = 20;

/// When the job began, in nanoseconds since 1970.
pub(crate) const BEGAN: u64 = 1_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Stopped,
    Dead,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) parent: i32,
    /// The rank whose process group it is in.
    pub(crate) rank: Option<Rank>,
    /// Signals that it handles, and then continues.
    pub(crate) handles: &'static [i32],
    /// Belongs to another user: the manager may not signal it.
    pub(crate) is_foreign: bool,
    /// Is in an uninterruptible system call: no SIGSTOP takes effect.
    pub(crate) is_deep: bool,
    /// Gets the orphans among its descendants.
    pub(crate) is_subreaper: bool,
    /// The kernel kills it when its parent dies.
    pub(crate) dies_with_parent: bool,
    /// The helper of a manager, with the inodes whose users it seeks.
    pub(crate) helper: Option<Vec<u64>>,
    pub(crate) state: State,
    /// SIGSTOP was sent, and has no effect yet.
    pub(crate) stops: bool,
    /// A signal that ends it when it runs again.
    pub(crate) doomed: Option<u8>,
    /// How it ended.
    pub(crate) end: Option<RankEnd>,
}

impl Process {
    pub(crate) fn child_of(parent: i32) -> Self {
        Self {
            parent,
            rank: None,
            handles: &[],
            is_foreign: false,
            is_deep: false,
            is_subreaper: false,
            dies_with_parent: false,
            helper: None,
            state: State::Running,
            stops: false,
            doomed: None,
            end: None,
        }
    }

    pub(crate) fn lives(&self) -> bool {
        self.state != State::Dead
    }
}

#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) made_by_job: bool,
    /// Nothing proves that it is the job's: a user ended by itself, or a stranger used it.
    pub(crate) is_excused: bool,
    pub(crate) users: BTreeSet<i32>,
    /// Another program uses it.
    pub(crate) has_stranger: bool,
    born: u64,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) processes: BTreeMap<i32, Process>,
    pub(crate) files: BTreeMap<u64, File>,
    /// Processes that have died since the owner took these, their parents and ends.
    pub(crate) died: Vec<(i32, i32, RankEnd)>,
    changed: u64,
    last: i32,
    last_inode: u64,
}

impl Kernel {
    pub(crate) fn new() -> Self {
        Self {
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            died: Vec::new(),
            changed: BEGAN,
            last: INIT,
            last_inode: 0,
        }
    }

    pub(crate) fn start(&mut self, process: Process) -> i32 {
        self.last += 1;
        self.processes.insert(self.last, process);
        self.last
    }

    /// The host loses its power.
    pub(crate) fn lose_all(&mut self) {
        self.processes.clear();
        self.files.clear();
        self.died.clear();
    }

    pub(crate) fn lives(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_some_and(Process::lives)
    }

    fn state_of(&self, pid: i32) -> State {
        self.processes.get(&pid).map_or(State::Dead, |process| process.state)
    }

    pub(crate) fn children_of(&self, parent: i32) -> Vec<i32> {
        let is_child = |process: &Process| process.parent == parent;
        self.processes.iter().filter(|(_, it)| is_child(it)).map(|(pid, _)| *pid).collect()
    }

    pub(crate) fn descendants_of(&self, ancestor: i32) -> Vec<i32> {
        let mut found = BTreeSet::from([ancestor]);
        // A process has a higher number than its parent.
        for (pid, process) in &self.processes {
            if found.contains(&process.parent) {
                found.insert(*pid);
            }
        }
        found.into_iter().skip(1).collect()
    }

    /// The living processes of the job of a manager: its descendants but the helper.
    pub(crate) fn job(&self, manager: i32) -> Vec<i32> {
        let is_job = |pid: &i32| {
            let process = &self.processes[pid];
            process.lives() && process.helper.is_none()
        };
        self.descendants_of(manager).into_iter().filter(is_job).collect()
    }

    /// Whether a signal of a manager is permitted.
    pub(crate) fn send(&mut self, pid: i32, signal: u8) -> bool {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.lives()) else {
            return true;
        };
        if process.is_foreign {
            return false;
        }
        let end = RankEnd::Signaled { signal, core: false };
        if signal == SIGTSTP {
            process.state = State::Stopped;
        } else if signal == SIGKILL {
            self.die(pid, end);
        } else if process.handles.contains(&signal.into()) {
            // It continues.
        } else if process.state == State::Stopped {
            // Of several pending signals the lowest takes effect first.
            process.doomed = Some(process.doomed.map_or(signal, |pending| pending.min(signal)));
        } else {
            self.die(pid, end);
        }
        true
    }

    /// Whether SIGSTOP is permitted. It takes effect later.
    pub(crate) fn stop(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        process.stops |= process.state == State::Running && !process.is_foreign;
        !process.is_foreign
    }

    /// A signal to stop takes effect.
    pub(crate) fn settle(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid)
            && process.stops
            && !process.is_deep
            && process.lives()
        {
            process.stops = false;
            process.state = State::Stopped;
        }
    }

    pub(crate) fn resume(&mut self, pid: i32) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.lives()) else {
            return;
        };
        process.stops = false;
        process.state = State::Running;
        if let Some(signal) = process.doomed {
            self.die(pid, RankEnd::Signaled { signal, core: false });
        }
    }

    /// A process ends. Its children become those of the next subreaper, or die with it.
    pub(crate) fn die(&mut self, pid: i32, end: RankEnd) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.lives()) else {
            return;
        };
        (process.state, process.end) = (State::Dead, Some(end));
        self.died.push((pid, process.parent, end));
        self.files.values_mut().for_each(|file| _ = file.users.remove(&pid));
        let heir = self.subreaper_above(pid);
        for child in self.children_of(pid) {
            let process = self.processes.get_mut(&child).expect("a child");
            process.parent = heir;
            if let Some(end) = process.end {
                // Its new parent gets to know of it.
                self.died.push((child, heir, end));
            } else if process.dies_with_parent {
                self.die(child, RankEnd::Signaled { signal: SIGKILL, core: false });
            }
        }
    }

    fn subreaper_above(&self, pid: i32) -> i32 {
        let mut at = self.processes.get(&pid).map_or(INIT, |process| process.parent);
        while let Some(process) = self.processes.get(&at) {
            if process.is_subreaper && process.lives() {
                return at;
            }
            at = process.parent;
        }
        INIT
    }

    pub(crate) fn reap(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// The job, or another program, makes a file and uses it.
    pub(crate) fn make(&mut self, user: Option<i32>) {
        self.last_inode += 1;
        self.changed += 1;
        let file = File {
            made_by_job: user.is_some(),
            is_excused: false,
            users: user.into_iter().collect(),
            has_stranger: user.is_none(),
            born: self.changed,
        };
        self.files.insert(self.last_inode, file);
    }

    pub(crate) fn remove(&mut self, inode: u64) -> Option<File> {
        self.changed += 1;
        self.files.remove(&inode)
    }

    /// What a helper finds about these files.
    pub(crate) fn users(&self, wanted: &[u64]) -> Vec<(u64, User)> {
        let found = |inode: &u64| {
            let file = self.files.get(inode);
            let job =
                file.is_some_and(|file| !file.users.is_empty()).then_some((*inode, User::Job));
            let other = file.is_some_and(|file| file.has_stranger);
            job.into_iter().chain(other.then_some((*inode, User::Stranger))).collect::<Vec<_>>()
        };
        wanted.iter().flat_map(found).collect()
    }

    fn list(&self) -> Vec<ShmFile> {
        let file = |(&inode, file): (&u64, &File)| ShmFile {
            path: PathBuf::from(format!("/dev/shm/{inode}")),
            id: FileId { device: 1, inode, born: Some(file.born) },
            is_own: true,
        };
        self.files.iter().map(file).collect()
    }

    // ----- the questions of the machine of `mpd-ending` -----

    /// Answers a question of the machine of a manager. There is no control group.
    pub(crate) fn answer(&mut self, manager: i32, now: Time, question: Question) -> Answer {
        match question {
            Question::Children => pids(self.children_of(manager)),
            Question::ChildrenOf(pid) => pids(self.children_of(pid.0)),
            Question::Descendants => pids(self.descendants_of(manager)),
            Question::Signal(signal, target) => {
                let signal = u8::try_from(signal).expect("a signal");
                let means = |pid: &i32| self.processes[pid].rank.is_some_and(|it| target.means(it));
                let meant: Vec<i32> =
                    self.descendants_of(manager).into_iter().filter(means).collect();
                // All of a group have the signal before one of them ends. Children have higher numbers than parents.
                let all = meant.into_iter().rev();
                pids(all.filter(|&pid| !self.send(pid, signal)).collect())
            }
            Question::IsStill(pid, _) => Answer::Is(self.state_of(pid.0) != State::Running),
            Question::Stop(pid) => Answer::Is(self.stop(pid.0)),
            Question::RankOf(pid, _) => {
                Answer::Rank(self.processes.get(&pid.0).and_then(|process| process.rank))
            }
            Question::Effect(pid, signal) => {
                let process = self.processes.get(&pid.0);
                let takes = process
                    .is_some_and(|process| process.lives() && !process.handles.contains(&signal));
                let was_stopped = process.is_none_or(|process| process.state == State::Stopped);
                Answer::Effect { takes, was_stopped }
            }
            Question::KillChildren(spared) => Answer::Killing(self.kill_children(manager, &spared)),
            Question::Life(Pid(pid), begin, over) => {
                let pid = pid.unsigned_abs();
                let begin = begin.unwrap_or_default();
                Answer::Life(Some(Lifetime { pid, begin, seen: 1, over }))
            }
            Question::StartHelper(_, wanted) => {
                self.start(Process { helper: Some(wanted), ..Process::child_of(manager) });
                Answer::Is(true)
            }
            Question::Clocks => Answer::Clocks(clocks(now)),
            Question::ShmTime => Answer::ShmTime(Some(self.changed)),
            Question::ShmFiles => Answer::ShmFiles(self.list(), BEGAN + 1_000 * micros(now)),
            Question::Freeze
            | Question::IsFrozen
            | Question::RemoveEmptyGroup
            | Question::Members => panic!("there is no control group"),
        }
    }

    pub(crate) fn kill_children(&mut self, manager: i32, spared: &BTreeSet<Pid>) -> Killing {
        let children = self.children_of(manager);
        let mut immune = Vec::new();
        for &pid in children.iter().filter(|&&pid| !spared.contains(&Pid(pid))) {
            if !self.send(pid, SIGKILL) {
                immune.push(Pid(pid));
            }
        }
        Killing { immune, found_any: !children.is_empty() }
    }
}

/// The clocks of a host.
pub(crate) fn clocks(now: Time) -> Reading {
    let boot = micros(now) / 1000;
    Reading { before: boot, wall: boot + BEGAN / 1_000_000, after: boot }
}

fn micros(now: Time) -> u64 {
    u64::try_from(now.since(Time::ZERO).as_micros()).expect("a short time")
}

fn pids(pids: Vec<i32>) -> Answer {
    Answer::Pids(pids.into_iter().map(Pid).collect())
}
