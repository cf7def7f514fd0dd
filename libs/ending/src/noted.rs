//! What was noted about the job, for the clean-up, and for a daemon in case the manager is killed.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use mpd_leftovers as leftovers;
use mpd_leftovers::record::{Note, Registered};
use mpd_leftovers::{Known, Lifetime};
use mpd_wire::Pid;

use crate::output::{Action, Output};

/// The notes of the job.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) known: Known,
    /// When the children that were started, and not reaped, began.
    children: BTreeMap<Pid, u64>,
    registered: Vec<Registered>,
    /// When the job began here, in microseconds since 1970.
    since: u64,
}

impl Noted {
    pub(crate) fn new(since: u64) -> Self {
        Self { since, ..Self::default() }
    }

    /// Adds a fact. If it is new, it is also written.
    pub(crate) fn add(&mut self, note: leftovers::Note, out: &mut VecDeque<Output>) {
        if self.known.add(note.clone()) {
            out.push_back(Output::Act(Action::Note(Note::Leftovers(note))));
        }
    }

    /// Adds a fact about the time before the job. It is written before something is made, with the next note.
    pub(crate) fn add_later(&mut self, note: leftovers::Note, out: &mut VecDeque<Output>) {
        if self.known.add(note.clone()) {
            out.push_back(Output::Act(Action::NoteLater(Note::Leftovers(note))));
        }
    }

    /// Adds a child that was started.
    pub(crate) fn add_child(&mut self, pid: Pid, life: Lifetime, out: &mut VecDeque<Output>) {
        self.children.insert(pid, life.begin);
        self.add(leftovers::Note::Process(life), out);
    }

    /// When a child that was not reaped began. Its number cannot be reused before.
    pub(crate) fn begin_of(&self, pid: Pid) -> Option<u64> {
        self.children.get(&pid).copied()
    }

    /// Removes a child that is about to be reaped.
    pub(crate) fn forget_child(&mut self, pid: Pid) {
        self.children.remove(&pid);
    }

    /// Adds what a program has registered for removal.
    pub(crate) fn register(&mut self, registered: Registered, out: &mut VecDeque<Output>) {
        let registered = Registered { since: self.since, ..registered };
        out.push_back(Output::Act(Action::Note(Note::Registered(registered.clone()))));
        self.registered.push(registered);
    }

    /// Takes what was registered, in its order.
    pub(crate) fn take_registered(&mut self) -> Vec<Registered> {
        mem::take(&mut self.registered)
    }
}
