//! The leftovers of a job besides processes: its private directory, System V objects, shared memory, and what programs
//! have registered for removal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use mpd_io::ipc;
use mpd_io::leftovers::{clocks, life, lifetime};
use mpd_io::logging::plain;
use mpd_io::made::Made;
use mpd_io::registered;
use mpd_io::shm::{self, Named, ShmWatch};
use mpd_leftovers as leftovers;
use mpd_leftovers::Known;
use mpd_leftovers::record::{Note, Registered};
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;
use nix::unistd::Pid;

use super::groups::Groups;
use super::removal::remove;
use crate::notes::Notes;

/// Where the job's directory is made if the user's place cannot be used.
const OTHER_BASES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The job's directory is in another place.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// The directory in which it is.
    pub(crate) place: String,
    /// The user's directory, and why it cannot be used.
    pub(crate) problem: String,
}

/// Notes leftovers during the job and removes them at its end.
#[derive(Debug)]
pub(crate) struct CleanUp {
    directory: Option<Made>,
    pub(crate) shm: ShmWatch,
    /// Files in `/dev/shm` that are the job's by their names.
    named: Named,
    known: Known,
    /// When the children that were started, and not reaped, began.
    children: BTreeMap<Pid, u64>,
    groups: Rc<Groups>,
    registered: Vec<Registered>,
    /// When the job began here, in microseconds since 1970.
    since: u64,
    /// The notes for a daemon, in case this manager is killed. They hold the lock of the job's record.
    notes: Notes,
}

impl CleanUp {
    /// Makes the job's directory below `base` and the shared objects of groups of the ranks here, all private to the
    /// user. Notes what exists before the job. If `base` cannot be used, the directory is made in another place. Returns
    /// an error if something could not be made.
    pub(crate) fn start(
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
        notes: Notes,
    ) -> (Self, Result<Option<Elsewhere>, String>) {
        let mut clean_up = Self {
            directory: None,
            // Begins before the shared objects of groups exist.
            shm: ShmWatch::start(),
            named: Named::default(),
            known: Known::default(),
            children: BTreeMap::new(),
            groups: Rc::default(),
            registered: Vec::new(),
            since: mpd_io::clock::of_files(),
            notes,
        };
        // The job has made nothing yet. The next note is written before something is made.
        for note in
            [leftovers::Note::Began(ipc::existing()), leftovers::Note::Clock(clocks().into())]
        {
            if clean_up.known.add(note.clone()) {
                clean_up.notes.add_later(&Note::Leftovers(note));
            }
        }
        let made = clean_up.make(base, (spec, ranks));
        (clean_up, made)
    }

    fn make(
        &mut self,
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
    ) -> Result<Option<Elsewhere>, String> {
        let notes = &mut self.notes;
        let mut below =
            |base: &Path| Made::below(base, |made| notes.add(&Note::Directory(made.clone())));
        let (made, elsewhere) = match below(base) {
            Ok(made) => (made, None),
            Err(e) => {
                let others = OTHER_BASES.iter().filter(|&&other| Path::new(other) != base);
                let mut made =
                    others.filter_map(|&place| Some((below(Path::new(place)).ok()?, place)));
                let problem = format!("{}: {}", base.display(), plain(&e));
                let unmade = || format!("cannot make the job's directory in {problem}");
                let (made, place) = made.next().ok_or_else(unmade)?;
                (made, Some(Elsewhere { place: place.to_owned(), problem }))
            }
        };
        let directory = self.directory.insert(made);
        self.groups = Rc::new(Groups::make(spec, ranks, directory.path(), notes)?);
        Ok(elsewhere)
    }

    /// Notes a fact, also for a daemon if it is new.
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

    /// Notes a child that was started. `begin`: the time of its start, if it is known.
    pub(crate) fn remember(&mut self, pid: Pid, begin: Option<u64>) {
        if let Some(begin) = self.note_life(pid, begin, false) {
            self.children.insert(pid, begin);
        }
    }

    /// Notes a process of the job that is about to be reaped.
    pub(crate) fn note_end(&mut self, pid: Pid) {
        let begin = self.children.remove(&pid);
        self.note_life(pid, begin, true);
    }

    /// Notes the life of a process until now, and returns its beginning. `/proc` is asked for an unknown one.
    fn note_life(&mut self, pid: Pid, begin: Option<u64>, over: bool) -> Option<u64> {
        let life =
            begin.map_or_else(|| lifetime(pid, over), |begin| Some(life(pid, begin, over)))?;
        self.add(leftovers::Note::Process(life));
        Some(life.begin)
    }

    /// Notes these living processes. Must be called before they are killed.
    pub(crate) fn note(&mut self, living: impl IntoIterator<Item = Pid>) {
        self.add(leftovers::Note::Clock(clocks().into()));
        for pid in living {
            // The number of a child cannot be reused before it is reaped.
            let begin = self.children.get(&pid).copied();
            self.note_life(pid, begin, false);
        }
    }

    /// Notes a world whose ranks may run here, by its key-value space.
    pub(crate) fn add_world(&mut self, kvsname: &str) {
        self.named.add(kvsname);
    }

    /// Notes what a program has registered for removal.
    pub(crate) fn register(&mut self, registered: Registered) {
        let registered = Registered { since: self.since, ..registered };
        self.notes.add(&Note::Registered(registered.clone()));
        self.registered.push(registered);
    }

    /// Notes the files that the job was the first to use.
    pub(crate) fn note_files(&mut self) {
        for file in self.shm.take_fresh() {
            self.add(leftovers::Note::File(file));
        }
    }

    /// The inodes of files of the job in `/dev/shm` that still exist.
    pub(crate) fn files_left(&mut self) -> Vec<u64> {
        self.shm.claim(&self.named);
        self.note_files();
        shm::left(self.known.files())
    }

    /// Removes everything except files of shared memory in use. If `in_use` is unknown, all these files stay. Must
    /// be called when no process of the job lives.
    pub(crate) fn remove(&mut self, in_use: Option<&BTreeSet<u64>>) {
        self.add(leftovers::Note::Clock(clocks().into()));
        ipc::sweep(&self.known);
        if let Some(in_use) = in_use {
            shm::sweep(self.known.files(), in_use);
        }
        self.registered.drain(..).for_each(|registered| registered::remove(&registered));
        self.groups.remove();
        self.directory.iter().for_each(remove);
    }
}
