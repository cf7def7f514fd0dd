//! Which files of `/dev/shm` are the job's.
//!
//! Shared memory outlives its creator, and the kernel does not know the job of a file. So the manager has a helper search,
//! while the job's processes live, for the users of new files. A file is the job's under three conditions. It belongs
//! to the job's user, it was created after the job began, and its first known user was a process of the job. A
//! file without a known user is the job's as well if its name proves that. At the end such files are removed under
//! all their names in that directory, unless a process still uses them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_leftovers::{FileId, MAX_FILES};

use crate::named::Named;
use crate::output::{Action, Output};
use crate::text::Line;

/// Most files whose users one search looks for. Further files follow in the next search.
const MAX_WANTED: usize = 4096;

/// Searches after which a file without a known user is treated as a stranger's.
pub(crate) const MAX_LOOKS: u8 = 4;

/// The resolution of the kernel's clock for times of files. A file created within this time after another one may not
/// change the directory's time.
const TICK: Duration = Duration::from_millis(20);

/// A file of `/dev/shm`, under one of its names: each hard link is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmFile {
    /// Its name, with the directory.
    pub path: PathBuf,
    /// The file. Its creation decides whether it is older than the job.
    pub id: FileId,
    /// Whether it belongs to the user of this process.
    pub is_own: bool,
}

/// The kind of a process that uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// A process of the job.
    Job,
    /// Another process.
    Stranger,
}

/// Which files of `/dev/shm` a job was the first to use.
///
/// New files are detected by the directory's time of change, which is examined from time to time. An inotify instance
/// would report them at once, but closing one takes the kernel several milliseconds.
#[derive(Debug)]
pub(crate) struct ShmWatch {
    /// When the job began, in nanoseconds since 1970.
    began: u64,
    /// The directory's time of change when all files were known.
    changed: Option<u64>,
    noted: BTreeSet<FileId>,
    /// Found to be the job's, and not yet taken.
    fresh: Vec<FileId>,
    /// Files that are not the job's: older, first used by others, or never seen in use.
    foreign: BTreeSet<FileId>,
    looks: BTreeMap<FileId, u8>,
    search: Option<Search>,
}

/// A search for the users of new files.
#[derive(Debug)]
struct Search {
    /// The directory's time of change at the beginning.
    changed: Option<u64>,
    /// Files without a known user, by inode: all are in one directory.
    unknown: BTreeMap<u64, FileId>,
    /// Files that the job uses, and no other process as far as is known.
    claimed: BTreeMap<u64, FileId>,
    /// Whether there may be further files.
    is_partial: bool,
}

impl ShmWatch {
    /// The watch of a job that began at that time, in nanoseconds since 1970. These files existed before, and that was the
    /// directory's time of change.
    pub(crate) fn start(began: u64, existing: BTreeSet<FileId>, changed: Option<u64>) -> Self {
        Self {
            began,
            changed,
            noted: BTreeSet::new(),
            fresh: Vec::new(),
            foreign: existing,
            looks: BTreeMap::new(),
            search: None,
        }
    }

    /// Whether files may have been made since the last complete search, by the directory's present time of change.
    pub(crate) fn may_have_new(&self, changed: Option<u64>) -> bool {
        changed != self.changed
    }

    /// Begins a search and returns the inodes of files that were made since the last one, at most 4096, if there are
    /// any. A search in progress must have been ended. `changed`: the directory's time of change before the files were
    /// listed. `at`: the time after that, in nanoseconds since 1970.
    pub(crate) fn begin(
        &mut self,
        changed: Option<u64>,
        (files, at): (&[ShmFile], u64),
        out: &mut VecDeque<Output>,
    ) -> Option<Vec<u64>> {
        let (unknown, is_complete) = self.new_files(files, out);
        let age = changed.and_then(|changed| at.checked_sub(changed));
        let is_partial = age.is_some_and(|age| age < nanos(TICK)) || !is_complete;
        if unknown.is_empty() {
            if !is_partial {
                self.changed = changed;
            }
            return None;
        }
        let wanted = unknown.keys().copied().collect();
        self.search = Some(Search { changed, unknown, claimed: BTreeMap::new(), is_partial });
        Some(wanted)
    }

    /// Files that may be the job's and are not known yet, and whether the list is complete.
    fn new_files(
        &mut self,
        files: &[ShmFile],
        out: &mut VecDeque<Output>,
    ) -> (BTreeMap<u64, FileId>, bool) {
        let mut unknown = BTreeMap::new();
        for ShmFile { path, id, is_own } in files {
            if !is_own || self.foreign.contains(id) || self.noted.contains(id) {
                continue;
            }
            if is_older(id, self.began) {
                out.push_back(Output::Act(Action::Log(Line::Older(path.clone()))));
                self.foreign.insert(*id);
            } else if unknown.len() < MAX_WANTED {
                unknown.insert(id.inode, *id);
            } else {
                return (unknown, false);
            }
        }
        (unknown, true)
    }

    /// Takes the report that `user` uses the file `inode`.
    pub(crate) fn found(&mut self, (inode, user): (u64, User), out: &mut VecDeque<Output>) {
        let Some(search) = &mut self.search else { return };
        match user {
            User::Job => search.claimed.extend(search.unknown.remove_entry(&inode)),
            User::Stranger => {
                let claimed = search.claimed.remove(&inode);
                if claimed.is_some() {
                    out.push_back(Output::Act(Action::Log(Line::Shared(inode))));
                }
                self.foreign.extend(claimed.or_else(|| search.unknown.remove(&inode)));
            }
        }
    }

    /// Ends the search after all processes were examined.
    pub(crate) fn conclude(&mut self) {
        let Some(mut search) = self.close() else { return };
        search.unknown.retain(|_, &mut id| {
            let looks = self.looks.entry(id).or_default();
            *looks += 1;
            let is_foreign = *looks == MAX_LOOKS;
            if is_foreign {
                self.looks.remove(&id);
                self.foreign.insert(id);
            }
            !is_foreign
        });
        // A file that is created and not yet mapped is searched for again the next time.
        if search.unknown.is_empty() && !search.is_partial {
            self.changed = search.changed;
        }
    }

    /// Ends the search, complete or not. Its findings are kept.
    pub(crate) fn settle(&mut self) {
        self.close();
    }

    fn close(&mut self) -> Option<Search> {
        let search = self.search.take()?;
        for &id in search.claimed.values() {
            if self.noted.len() < MAX_FILES && self.noted.insert(id) {
                self.fresh.push(id);
            }
        }
        Some(search)
    }

    /// Claims the files that were made since the last search, and whose names are those of the job. To be called at the
    /// end of the job: a process that ended soon was not seen with its files.
    pub(crate) fn claim(&mut self, named: &Named, files: &[ShmFile], out: &mut VecDeque<Output>) {
        let (unknown, _) = self.new_files(files, out);
        let is_ours =
            |path: &Path| path.file_name().is_some_and(|name| named.has(&name.to_string_lossy()));
        for ShmFile { path, id, .. } in files.iter().filter(|file| is_ours(&file.path)) {
            if unknown.get(&id.inode) == Some(id) && self.noted.len() < MAX_FILES {
                out.push_back(Output::Act(Action::Log(Line::Named(path.clone()))));
                self.noted.insert(*id);
                self.fresh.push(*id);
            }
        }
    }

    /// Files of the job that were found since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<FileId> {
        mem::take(&mut self.fresh)
    }
}

/// Whether a file was created before that moment. If the file system does not record the creation, the answer is no:
/// the watch knows the files that existed then.
fn is_older(id: &FileId, moment: u64) -> bool {
    id.born.is_some_and(|born| born.saturating_add(nanos(TICK)) < moment)
}

const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// The `noted` files among these that belong to this user, each with all its names.
pub fn named_files(
    noted: &BTreeSet<FileId>,
    files: Vec<ShmFile>,
) -> BTreeMap<FileId, Vec<PathBuf>> {
    let mut named: BTreeMap<FileId, Vec<PathBuf>> = BTreeMap::new();
    for ShmFile { path, id, .. } in
        files.into_iter().filter(|file| file.is_own && noted.contains(&file.id))
    {
        named.entry(id).or_default().push(path);
    }
    named
}

/// What happens to the files of a job at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Files to be removed, with all their names.
    pub removed: Vec<(FileId, Vec<PathBuf>)>,
    /// A line for the log for each file that stays, since a program uses it.
    pub stays: Vec<Line>,
}

/// Decides which of a job's files are removed: those whose inode is not in use.
pub fn sort(named: BTreeMap<FileId, Vec<PathBuf>>, in_use: &BTreeSet<u64>) -> Sorted {
    let mut sorted = Sorted::default();
    for (id, names) in named {
        if in_use.contains(&id.inode) {
            sorted.stays.push(Line::Stays(names));
        } else {
            sorted.removed.push((id, names));
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named;

    const SECOND: u64 = 1_000_000_000;
    const BEGAN: u64 = 100 * SECOND;

    fn file(name: &str, inode: u64, born: u64) -> ShmFile {
        let id = FileId { device: 1, inode, born: Some(born) };
        ShmFile { path: Path::new("/dev/shm").join(name), id, is_own: true }
    }

    /// A watch that has seen no file.
    fn watch() -> ShmWatch {
        ShmWatch::start(BEGAN, BTreeSet::new(), None)
    }

    /// Begins a search long after the last change of the directory.
    fn begin(watch: &mut ShmWatch, files: &[ShmFile]) -> Option<Vec<u64>> {
        watch.settle();
        let changed = Some(BEGAN + SECOND);
        if !watch.may_have_new(changed) {
            return None;
        }
        watch.begin(changed, (files, BEGAN + 9 * SECOND), &mut VecDeque::new())
    }

    fn find(watch: &mut ShmWatch, inode: u64, users: &[User]) -> VecDeque<Output> {
        let mut out = VecDeque::new();
        users.iter().for_each(|&user| watch.found((inode, user), &mut out));
        out
    }

    #[test]
    fn a_file_that_the_job_was_the_first_to_use_is_the_jobs() {
        let (mut watch, files) = (watch(), [file("a", 7, BEGAN + 1)]);
        assert_eq!(begin(&mut watch, &files), Some(vec![7]));
        find(&mut watch, 7, &[User::Job]);
        watch.conclude();
        assert_eq!(watch.take_fresh(), [files[0].id]);
        assert_eq!((begin(&mut watch, &files), watch.take_fresh()), (None, vec![]), "only once");
    }

    #[test]
    fn a_file_that_another_program_uses_at_first_is_never_the_jobs() {
        let orders: [&[User]; 3] =
            [&[User::Stranger], &[User::Stranger, User::Job], &[User::Job, User::Stranger]];
        for users in orders {
            let (mut watch, files) = (watch(), [file("theirs", 7, BEGAN + 1)]);
            assert_eq!(begin(&mut watch, &files), Some(vec![7]));
            let logged = find(&mut watch, 7, users);
            assert_eq!(logged.len(), usize::from(users[0] == User::Job), "{users:?}");
            watch.conclude();
            assert_eq!(watch.take_fresh(), [], "{users:?}");
            assert_eq!(begin(&mut watch, &files), None);
            find(&mut watch, 7, &[User::Job]);
            watch.settle();
            assert_eq!(watch.take_fresh(), [], "{users:?}");
        }
    }

    #[test]
    fn a_file_that_is_older_than_the_job_is_not_the_jobs_even_under_a_new_name() {
        let mut watch = watch();
        let files = [file("renamed", 7, BEGAN - SECOND), file("new", 8, BEGAN - nanos(TICK))];
        assert_eq!(begin(&mut watch, &files), Some(vec![8]), "clocks of files are late by a tick");
        let existing = [file("there", 9, BEGAN + 1)];
        let ids = existing.iter().map(|file| file.id).collect();
        let mut watch = ShmWatch::start(BEGAN, ids, None);
        assert_eq!(begin(&mut watch, &existing), None, "it was seen before the job");
    }

    #[test]
    fn a_file_of_another_user_is_not_the_jobs() {
        let files = [ShmFile { is_own: false, ..file("theirs", 7, BEGAN + 1) }];
        assert_eq!(begin(&mut watch(), &files), None);
    }

    #[test]
    fn a_file_without_a_known_user_is_searched_for_again_and_then_ignored() {
        let (mut watch, files) = (watch(), [file("idle", 7, BEGAN + 1)]);
        for _ in 0..MAX_LOOKS {
            assert_eq!(begin(&mut watch, &files), Some(vec![7]));
            watch.conclude();
        }
        assert_eq!((begin(&mut watch, &files), watch.take_fresh()), (None, vec![]));
    }

    #[test]
    fn a_search_that_ended_early_does_not_count() {
        let (mut watch, files) = (watch(), [file("a", 7, BEGAN + 1)]);
        for _ in 0..=MAX_LOOKS {
            assert_eq!(begin(&mut watch, &files), Some(vec![7]));
        }
        find(&mut watch, 7, &[User::Job]);
        watch.settle();
        assert_eq!(watch.take_fresh(), [files[0].id], "what was found counts");
    }

    #[test]
    fn after_a_change_within_a_tick_the_directory_is_listed_again() {
        let (mut watch, changed) = (watch(), Some(BEGAN + SECOND));
        let mut list = |at| watch.begin(changed, (&[], at), &mut VecDeque::new());
        assert_eq!(list(BEGAN + SECOND + 1), None);
        assert_eq!(list(BEGAN + SECOND + nanos(TICK) - 1), None);
        assert!(watch.may_have_new(changed), "a further file may have the same time");
        assert_eq!(begin(&mut watch, &[]), None);
        assert!(!watch.may_have_new(changed));
    }

    #[test]
    fn one_search_has_at_most_4096_files_and_the_next_one_has_the_rest() {
        let mut watch = watch();
        let files: Vec<ShmFile> = (0..5000).map(|n| file(&n.to_string(), n, BEGAN + 1)).collect();
        let first = begin(&mut watch, &files).unwrap();
        assert_eq!(first.len(), MAX_WANTED);
        first.iter().for_each(|&inode| drop(find(&mut watch, inode, &[User::Stranger])));
        watch.conclude();
        assert_eq!(begin(&mut watch, &files).map(|rest| rest.len()), Some(5000 - MAX_WANTED));
    }

    #[test]
    fn a_file_that_no_process_was_seen_with_is_the_jobs_if_its_name_proves_that() {
        let mut named = Named::default();
        named.add("kvs_1");
        let name = format!("mpich_shm_{:x}_0", named::hash("kvs_1"));
        let files = [file(&name, 7, BEGAN + 1), file("nameless", 8, BEGAN + 1)];
        let mut watch = watch();
        watch.claim(&named, &files, &mut VecDeque::new());
        assert_eq!(watch.take_fresh(), [files[0].id]);
        // A file that was there before the job does not belong to the job, even with such a name.
        let mut watch = ShmWatch::start(BEGAN, [files[0].id].into(), None);
        watch.claim(&named, &files, &mut VecDeque::new());
        assert_eq!(watch.take_fresh(), []);
    }

    #[test]
    fn a_file_in_use_stays_and_another_one_is_removed_under_all_its_names() {
        let files =
            vec![file("a", 7, 1), file("link-of-a", 7, 1), file("b", 8, 1), file("theirs", 9, 1)];
        let noted = [files[0].id, files[2].id].into();
        let names: Vec<PathBuf> = files[..2].iter().map(|file| file.path.clone()).collect();
        let id = files[0].id;
        let sorted = sort(named_files(&noted, files), &[8].into());
        assert_eq!(sorted.removed, [(id, names)]);
        let texts: Vec<String> = sorted.stays.iter().map(Line::to_string).collect();
        assert_eq!(texts, ["/dev/shm/b stays: another program uses it"]);
    }
}
