//! The leftovers of a job besides processes: its private directory, the objects of groups of ranks, and its record. The
//! machine decides when they are removed.

use std::path::Path;
use std::rc::Rc;

use mpd_ending as machine;
use mpd_io::clean_up::ipc;
use mpd_io::clean_up::job_directory::JobDirectory;
use mpd_io::clean_up::shm;
use mpd_io::clock;
use mpd_io::files::logging::plain;
use mpd_leftovers::record::Note;
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;

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

/// What the manager has made for the job, and the notes for a daemon in case this manager is killed.
#[derive(Debug)]
pub(crate) struct CleanUp {
    directory: Option<JobDirectory>,
    groups: Rc<Groups>,
    /// They hold the lock of the job's record.
    pub(super) notes: Notes,
}

/// What exists before the job.
pub(super) fn beginning(has_group: bool, survives_failures: bool) -> machine::Beginning {
    // In microseconds.
    let began = clock::wall() * 1000;
    let files = shm::list().into_iter().map(|file| file.id).collect();
    let changed = shm::changed();
    let since = clock::of_files();
    let before = ipc::existing();
    machine::Beginning { before, files, changed, began, since, has_group, survives_failures }
}

impl CleanUp {
    /// Makes the job's directory below `base` and the shared objects of groups of the ranks here, all private to the
    /// user. If `base` cannot be used, the directory is made in another place. Returns an error if something could not be
    /// made. What exists before the job must have been noted.
    pub(super) fn start(
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
        notes: Notes,
    ) -> (Self, Result<Option<Elsewhere>, String>) {
        let mut clean_up = Self { directory: None, groups: Rc::default(), notes };
        let made = clean_up.make(base, (spec, ranks));
        (clean_up, made)
    }

    fn make(
        &mut self,
        base: &Path,
        (spec, ranks): (&JobSpec, &[Rank]),
    ) -> Result<Option<Elsewhere>, String> {
        let notes = &mut self.notes;
        let mut below = |base: &Path| {
            JobDirectory::below(base, |made| notes.add(&Note::Directory(made.clone())))
        };
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

    /// The job's directory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(JobDirectory::path)
    }

    pub(crate) fn groups(&self) -> Rc<Groups> {
        Rc::clone(&self.groups)
    }

    pub(super) fn remove_groups(&self) {
        self.groups.remove();
    }

    pub(super) fn remove_directory(&self) {
        self.directory.iter().for_each(remove);
    }
}
