//! A model of a kernel: processes with parents, process groups and signals, and files with users.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mpd_ending::{ShmFile, User};
use mpd_leftovers::FileId;
use mpd_wire::Rank;

/// The number of the manager.
pub(super) const MANAGER: i32 = 1;

const SIGKILL: i32 = 9;

/// When the job began, in nanoseconds since 1970.
pub(super) const BEGAN: u64 = 1_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Stopped,
    Dead,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) parent: i32,
    /// The rank whose process group it is in.
    pub(super) rank: Option<Rank>,
    /// Signals that it handles, and then continues.
    pub(super) handles: &'static [i32],
    /// Belongs to another user: the manager may not signal it.
    pub(super) is_foreign: bool,
    /// Is in an uninterruptible system call: no SIGSTOP takes effect.
    pub(super) is_deep: bool,
    /// The helper of the manager.
    pub(super) is_helper: bool,
    pub(super) state: State,
    /// SIGSTOP was sent, and has no effect yet.
    pub(super) stops: bool,
    /// A signal ends it when it runs again.
    pub(super) doomed: bool,
}

impl Process {
    pub(super) fn child_of(parent: i32) -> Self {
        Self {
            parent,
            rank: None,
            handles: &[],
            is_foreign: false,
            is_deep: false,
            is_helper: false,
            state: State::Running,
            stops: false,
            doomed: false,
        }
    }

    pub(super) fn lives(&self) -> bool {
        self.state != State::Dead
    }
}

#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) made_by_job: bool,
    /// Nothing proves that it is the job's: a user ended by itself, or a stranger used it.
    pub(super) is_excused: bool,
    pub(super) users: BTreeSet<i32>,
    /// Another program uses it.
    pub(super) has_stranger: bool,
    born: u64,
}

#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) processes: BTreeMap<i32, Process>,
    pub(super) files: BTreeMap<u64, File>,
    changed: u64,
    last: i32,
    last_inode: u64,
}

impl Kernel {
    pub(super) fn new() -> Self {
        Self { changed: BEGAN, last: MANAGER, ..Self::default() }
    }

    pub(super) fn start(&mut self, process: Process) -> i32 {
        self.last += 1;
        self.processes.insert(self.last, process);
        self.last
    }

    pub(super) fn children_of(&self, parent: i32) -> Vec<i32> {
        let is_child = |process: &Process| process.parent == parent;
        self.processes.iter().filter(|(_, it)| is_child(it)).map(|(pid, _)| *pid).collect()
    }

    /// The living processes of the job: all descendants but the helper.
    pub(super) fn job(&self) -> Vec<i32> {
        let is_job = |process: &Process| process.lives() && !process.is_helper;
        self.processes.iter().filter(|(_, it)| is_job(it)).map(|(pid, _)| *pid).collect()
    }

    /// Whether a signal of the manager is permitted.
    pub(super) fn send(&mut self, pid: i32, signal: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.lives()) else {
            return true;
        };
        if process.is_foreign {
            return false;
        }
        if signal == SIGKILL {
            self.die(pid);
        } else if process.handles.contains(&signal) {
            // It continues.
        } else if process.state == State::Stopped {
            process.doomed = true;
        } else {
            self.die(pid);
        }
        true
    }

    /// Whether SIGSTOP is permitted. It takes effect later.
    pub(super) fn stop(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        process.stops |= process.state == State::Running && !process.is_foreign;
        !process.is_foreign
    }

    /// A signal to stop takes effect.
    pub(super) fn settle(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid)
            && process.stops
            && !process.is_deep
            && process.lives()
        {
            process.stops = false;
            process.state = State::Stopped;
        }
    }

    pub(super) fn resume(&mut self, pid: i32) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.lives()) else {
            return;
        };
        process.stops = false;
        process.state = State::Running;
        if process.doomed {
            self.die(pid);
        }
    }

    /// A process ends. Its children become those of the manager, which is a subreaper.
    pub(super) fn die(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.state = State::Dead;
        }
        for process in self.processes.values_mut().filter(|process| process.parent == pid) {
            process.parent = MANAGER;
        }
        self.files.values_mut().for_each(|file| _ = file.users.remove(&pid));
    }

    pub(super) fn reap(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// The job, or another program, makes a file and uses it.
    pub(super) fn make(&mut self, user: Option<i32>) {
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

    pub(super) fn remove(&mut self, inode: u64) -> Option<File> {
        self.changed += 1;
        self.files.remove(&inode)
    }

    /// What a helper finds about these files.
    pub(super) fn users(&self, wanted: &[u64]) -> Vec<(u64, User)> {
        let found = |inode: &u64| {
            let file = self.files.get(inode);
            let job =
                file.is_some_and(|file| !file.users.is_empty()).then_some((*inode, User::Job));
            let other = file.is_some_and(|file| file.has_stranger);
            job.into_iter().chain(other.then_some((*inode, User::Stranger))).collect::<Vec<_>>()
        };
        wanted.iter().flat_map(found).collect()
    }

    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    pub(super) fn list(&self) -> Vec<ShmFile> {
        let file = |(&inode, file): (&u64, &File)| ShmFile {
            path: PathBuf::from(format!("/dev/shm/{inode}")),
            id: FileId { device: 1, inode, born: Some(file.born) },
            is_own: true,
        };
        self.files.iter().map(file).collect()
    }
}
