//! What a job leaves besides processes: its private directory, System V objects, shared memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use mpd_io::ipc;
use mpd_io::leftovers::{clocks, life};
use mpd_io::logging::plain;
use mpd_io::made::Made;
use mpd_io::shm::{self, ShmWatch};
use mpd_io::tree;
use mpd_job::leftovers;
use mpd_job::leftovers::Known;
use mpd_job::record::Note;
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;
use nix::unistd::Pid;

use super::groups::Groups;
use crate::notes::Notes;

/// Notes during the job, removal at its end.
#[derive(Debug)]
pub(crate) struct Tidy {
    directory: Option<Made>,
    pub(crate) shm: ShmWatch,
    known: Known,
    groups: Rc<Groups>,
    /// What the daemon needs if this manager is killed. Holds the lock of the job's record.
    notes: Notes,
}

impl Tidy {
    /// Makes the job's directory below `base` and what groups of the ranks here share, closed to others, and notes
    /// what exists before the job. Says what could not be made.
    pub(crate) fn start(
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
        notes: Notes,
    ) -> (Self, Result<(), String>) {
        let mut tidy = Self {
            directory: None,
            // Before what groups share is there.
            shm: ShmWatch::start(),
            known: Known::default(),
            groups: Rc::default(),
            notes,
        };
        tidy.add(leftovers::Note::Began(ipc::existing()));
        tidy.add(leftovers::Note::Clock(clocks().into()));
        let made = tidy.make(base, (spec, ranks));
        (tidy, made)
    }

    fn make(&mut self, base: &Path, (spec, ranks): (&JobSpec, &[Rank])) -> Result<(), String> {
        let notes = &mut self.notes;
        let made = Made::below(base, |made| notes.add(&Note::Directory(made.clone())));
        let unmade =
            |e| format!("cannot make the job's directory in {}: {}", base.display(), plain(&e));
        let directory = self.directory.insert(made.map_err(unmade)?);
        self.groups = Rc::new(Groups::make(spec, ranks, directory.path(), notes)?);
        Ok(())
    }

    /// Notes what a daemon has to know, too, if it is new.
    fn add(&mut self, note: leftovers::Note) {
        if self.known.add(note.clone()) {
            self.notes.add(&Note::Leftovers(note));
        }
    }

    /// The job's directory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(Made::path)
    }

    pub(crate) fn groups(&self) -> Rc<Groups> {
        Rc::clone(&self.groups)
    }

    /// A process of the job, which is not reaped.
    pub(crate) fn remember(&mut self, pid: Pid) {
        self.note_life(pid, false);
    }

    /// A process of the job is about to be reaped.
    pub(crate) fn bury(&mut self, pid: Pid) {
        self.note_life(pid, true);
    }

    fn note_life(&mut self, pid: Pid, over: bool) {
        if let Some(life) = life(pid, over) {
            self.add(leftovers::Note::Process(life));
        }
    }

    /// Notes what the processes that live now are. Call before they are killed.
    pub(crate) fn note(&mut self) {
        self.add(leftovers::Note::Clock(clocks().into()));
        for pid in tree::descendants() {
            self.remember(pid);
        }
    }

    /// Notes files that the job was found to use first.
    pub(crate) fn note_files(&mut self) {
        for file in self.shm.take_fresh() {
            self.add(leftovers::Note::File(file));
        }
    }

    /// The inodes of files of the job in `/dev/shm` that are still there.
    pub(crate) fn files_left(&mut self) -> Vec<u64> {
        self.shm.settle();
        self.note_files();
        shm::left(self.known.files())
    }

    /// Removes everything but files of shared memory that somebody uses, all of them if it is not known which those
    /// are. Call when no process of the job lives.
    pub(crate) fn remove(&mut self, in_use: Option<&BTreeSet<u64>>) {
        self.add(leftovers::Note::Clock(clocks().into()));
        ipc::sweep(&self.known);
        if let Some(in_use) = in_use {
            shm::sweep(self.known.files(), in_use);
        }
        self.groups.remove();
        self.directory.iter().for_each(remove);
    }
}

pub(super) fn remove(made: &Made) {
    if let Err(e) = made.remove() {
        log::warn!("cannot remove {}: {e}", made.path().display());
    }
}
