//! POSIX shared memory that a job leaves behind.
//!
//! Shared memory outlives its creator, and the kernel does not know the job of a file. So the manager searches, while
//! the job's processes live, for the users of the new files in `/dev/shm`. A file is the job's under three
//! conditions. It belongs to the job's user, it was created after the job began, and its first known user was a
//! process of the job. A file without a known user is the job's as well if its name proves that. At the end such files are removed under all their names in that directory, unless a process
//! still uses them. Symbolic links are never followed.
//!
//! `/proc/PID/maps` lists the mapped files of a process. A reader of it waits while that process is in a system call
//! that changes its memory. That can be long: the process may get no CPU, or its file server may be gone. So the
//! manager does not read it. [`ShmWatch`] names the files whose users are to be found. A helper process finds the
//! users with [`report_users`], and its owner limits the helper's time.

mod named;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mpd_leftovers::{FileId, MAX_FILES};
use nix::sys::stat::{major, minor};
use nix::unistd::{Pid, geteuid};

pub use self::named::Named;
use crate::procfile;
use crate::tree;

pub(crate) const SHM: &str = "/dev/shm";

/// Most files whose users one search looks for. Further files follow in the next search.
const MAX_WANTED: usize = 4096;

/// Searches after which a file without a known user is treated as a stranger's.
const MAX_LOOKS: u8 = 4;

/// The resolution of the kernel's clock for times of files. A file created within this time after another one may not
/// change the directory's time.
const TICK: Duration = Duration::from_millis(20);

/// Permissions that let other users change a file. Without them, protected hard links also keep others from linking it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Which files of `/dev/shm` a job was the first to use.
///
/// New files are detected by the directory's time of change, which is examined from time to time. An inotify instance
/// would report them at once, but closing one takes the kernel several milliseconds.
#[derive(Debug)]
pub struct ShmWatch {
    began: SystemTime,
    changed: Option<SystemTime>,
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
    /// The directory's time of change at the beginning, from [`changed`].
    changed: Option<SystemTime>,
    /// Files without a known user, by inode: all are in one directory.
    unknown: BTreeMap<u64, FileId>,
    /// Files that the job uses, and no other process as far as is known.
    claimed: BTreeMap<u64, FileId>,
    /// Whether there may be further files.
    is_partial: bool,
}

impl ShmWatch {
    /// Notes the files that exist before the job.
    pub fn start() -> Self {
        let began = SystemTime::now();
        let foreign = files().map(|(_, metadata)| id_of(&metadata)).collect();
        Self {
            began,
            changed: changed(),
            noted: BTreeSet::new(),
            fresh: Vec::new(),
            foreign,
            looks: BTreeMap::new(),
            search: None,
        }
    }

    /// Begins a search and returns the inodes of files that were made since the last one, at most 4096, if there are
    /// any. The caller finds their users. A search in progress is ended.
    pub fn begin(&mut self) -> Option<Vec<u64>> {
        self.settle();
        let changed = changed();
        if changed == self.changed {
            return None;
        }
        let (unknown, is_complete) = self.new_files();
        let is_recent = changed.is_some_and(|at| at.elapsed().is_ok_and(|since| since < TICK));
        let is_partial = is_recent || !is_complete;
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
    fn new_files(&mut self) -> (BTreeMap<u64, FileId>, bool) {
        let uid = geteuid().as_raw();
        let mut unknown = BTreeMap::new();
        for (path, metadata) in files() {
            let id = id_of(&metadata);
            let is_known = self.foreign.contains(&id) || self.noted.contains(&id);
            if metadata.uid() != uid || is_known {
                continue;
            }
            if is_older(&metadata, self.began) {
                log::debug!("{}: older than the job", path.display());
                self.foreign.insert(id);
            } else if unknown.len() < MAX_WANTED {
                unknown.insert(id.inode, id);
            } else {
                return (unknown, false);
            }
        }
        (unknown, true)
    }

    /// Takes the report that `user` uses the file `inode`.
    pub fn found(&mut self, inode: u64, user: User) {
        let Some(search) = &mut self.search else { return };
        match user {
            User::Job => search.claimed.extend(search.unknown.remove_entry(&inode)),
            User::Stranger => {
                let claimed = search.claimed.remove(&inode);
                if claimed.is_some() {
                    log::info!(
                        "a file of {SHM} (inode {inode}) stays: besides the job, another program uses it"
                    );
                }
                self.foreign.extend(claimed.or_else(|| search.unknown.remove(&inode)));
            }
        }
    }

    /// Ends the search after all processes were examined.
    pub fn conclude(&mut self) {
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
    pub fn settle(&mut self) {
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

    /// Claims the files that were made since the last search, and whose names are those of the job. To be called at the end
    /// of the job: a process that ended soon was not seen with its files.
    pub fn claim(&mut self, named: &Named) {
        self.settle();
        if changed() == self.changed {
            return;
        }
        let (unknown, _) = self.new_files();
        let is_ours =
            |path: &Path| path.file_name().is_some_and(|name| named.has(&name.to_string_lossy()));
        for (path, metadata) in files().filter(|(path, _)| is_ours(path)) {
            let id = id_of(&metadata);
            if unknown.get(&id.inode) == Some(&id) && self.noted.len() < MAX_FILES {
                log::info!("{}: the job's by its name", path.display());
                self.noted.insert(id);
                self.fresh.push(id);
            }
        }
    }

    /// Files of the job that were found since the last call.
    pub fn take_fresh(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.fresh)
    }
}

/// Whether a file was created before that moment. If the file system does not record the creation, the answer is no:
/// the caller has noted the files that existed then.
fn is_older(metadata: &fs::Metadata, moment: SystemTime) -> bool {
    metadata.created().is_ok_and(|born| born + TICK < moment)
}

fn id_of(metadata: &fs::Metadata) -> FileId {
    let born =
        metadata.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok());
    FileId { device: metadata.dev(), inode: metadata.ino(), born }
}

/// The inodes of those `noted` files that still exist.
pub fn left(noted: &BTreeSet<FileId>) -> Vec<u64> {
    named(noted).into_keys().map(|id| id.inode).collect()
}

/// Removes those `noted` files that no process uses, under all their names. Returns how many are in use.
pub fn sweep(noted: &BTreeSet<FileId>, in_use: &BTreeSet<u64>) -> usize {
    let mut used = 0;
    for (id, names) in named(noted) {
        if in_use.contains(&id.inode) {
            used += 1;
            let names: Vec<_> = names.iter().map(|name| name.display().to_string()).collect();
            log::info!("{} stays: another program uses it", names.join(", "));
        } else {
            remove_all(id, &names);
        }
    }
    used
}

/// The `noted` files that still exist and belong to this user, with all their names in the directory: each hard link is
/// a name.
fn named(noted: &BTreeSet<FileId>) -> BTreeMap<FileId, Vec<PathBuf>> {
    let uid = geteuid().as_raw();
    let mut named: BTreeMap<FileId, Vec<PathBuf>> = BTreeMap::new();
    if noted.is_empty() {
        return named;
    }
    for (path, metadata) in files().filter(|(_, metadata)| metadata.uid() == uid) {
        let id = id_of(&metadata);
        if noted.contains(&id) {
            named.entry(id).or_default().push(path);
        }
    }
    named
}

/// Removes a file. Another user with write permission may have linked it to a name that this process cannot remove.
/// Then the file is closed to others and emptied. A file that only its owner can write is not emptied, because such a
/// name is most likely its owner's.
fn remove_all(id: FileId, names: &[PathBuf]) {
    let file = names.iter().find_map(|name| open(id, name));
    names.iter().for_each(|name| remove(name));
    let Some((file, metadata)) = file.and_then(|file| file.metadata().ok().map(|m| (file, m)))
    else {
        return;
    };
    let Some(name) = names.first().filter(|_| metadata.nlink() > 0) else { return };
    if metadata.mode() & WRITABLE_BY_OTHERS == 0 {
        return log::info!("{} stays under another name", name.display());
    }
    let emptied = file.set_permissions(Permissions::from_mode(0o600)).and(file.set_len(0));
    match emptied {
        Ok(()) => log::warn!("{} has a name elsewhere: it was emptied", name.display()),
        Err(e) => log::warn!("{} has a name elsewhere and cannot be emptied: {e}", name.display()),
    }
}

/// Opens a file if it has this id. Follows no link and waits for no device.
fn open(id: FileId, name: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.write(true).custom_flags(flags).open(name).ok()?;
    file.metadata().is_ok_and(|metadata| id_of(&metadata) == id).then_some(file)
}

pub(crate) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            log::info!("{} stays: {e}", path.display());
        }
        _ => {}
    }
}

/// The time when a file of the directory was last created or removed.
fn changed() -> Option<SystemTime> {
    fs::metadata(SHM).and_then(|m| m.modified()).ok()
}

pub(crate) fn files() -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    fs::read_dir(SHM).into_iter().flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        let metadata = fs::symlink_metadata(&path).ok()?;
        metadata.is_file().then_some((path, metadata))
    })
}

/// Which processes are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// First the descendants of this process, which are the job's, and then all others.
    Family(Pid),
    /// All processes, and none of them is the job's.
    All,
}

/// The kind of a process that uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// A process of the job.
    Job,
    /// Another process.
    Stranger,
}

/// Reports the users of the `wanted` inodes of files in `/dev/shm`, each as soon as it is found. Processes that this
/// one may not inspect are left out. Waits for processes in system calls, as described at the top of this file.
///
/// # Errors
/// Those of `report`.
pub fn report_users(
    users: Users,
    wanted: &BTreeSet<u64>,
    mut report: impl FnMut(u64, User) -> io::Result<()>,
) -> io::Result<()> {
    let Ok(device) = fs::metadata(SHM).map(|metadata| metadata.dev()) else { return Ok(()) };
    let root = match users {
        Users::Family(of) => Some(of),
        Users::All => None,
    };
    let family: BTreeSet<Pid> = root.map(tree::descendants_of).unwrap_or_default();
    let is_other = |pid: &Pid| !family.contains(pid) && Some(*pid) != root;
    let others: BTreeSet<Pid> = tree::all_processes().filter(is_other).collect();
    // The process may have been forked since, or be gone.
    let user_among_others = |pid| match root.map(|root| tree::descends(pid, root)) {
        Some(Some(true)) => Some(User::Job),
        Some(None) => None,
        None | Some(Some(false)) => Some(User::Stranger),
    };
    let mut reported = BTreeSet::new();
    for (pids, usual) in [(&family, User::Job), (&others, User::Stranger)] {
        // The list of open files can be read without waiting, so it comes first.
        let looks: [fn(Pid, u64) -> Vec<u64>; 2] = [open_files, mapped];
        // A new file most likely belongs to a young process.
        let pids = || pids.iter().rev().copied().filter(|&pid| pid != Pid::this());
        for (look, pid) in looks.into_iter().flat_map(|look| pids().map(move |pid| (look, pid))) {
            if wanted.iter().all(|&inode| reported.contains(&(inode, usual))) {
                break;
            }
            let used: BTreeSet<u64> = look(pid, device).into_iter().collect();
            for &inode in used.intersection(wanted) {
                let user = if usual == User::Job { Some(usual) } else { user_among_others(pid) };
                if let Some(user) = user.filter(|&user| reported.insert((inode, user))) {
                    report(inode, user)?;
                }
            }
        }
    }
    Ok(())
}

/// Inodes of this device that a process has mapped.
fn mapped(pid: Pid, device: u64) -> Vec<u64> {
    let Ok(maps) = procfile::table(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let device = format!("{:02x}:{:02x}", major(device), minor(device));
    let inode = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(3);
        (words.next()? == device).then(|| words.next()?.parse().ok())?
    };
    maps.lines().filter_map(inode).collect()
}

/// Inodes below `/dev/shm` that a process has open.
fn open_files(pid: Pid, device: u64) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let link = entry.ok()?.path();
            let target = fs::read_link(&link).ok()?;
            // The status of another file could have to wait for a server that does not answer.
            let metadata = target.starts_with(SHM).then(|| fs::metadata(&link).ok())??;
            (metadata.dev() == device).then(|| metadata.ino())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio, id};

    use super::*;

    /// A file of `/dev/shm` with a name of this test.
    fn path_of(name: &str) -> PathBuf {
        Path::new(SHM).join(format!("mpd-test-{}-{name}", id()))
    }

    /// A process that has a file open.
    fn holder(path: &Path) -> Child {
        let script = format!("exec 9<>'{}'; echo; exec sleep 60", path.display());
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    /// The users of files, for a job whose manager is this process.
    fn users_of(users: Users, wanted: &[u64]) -> Vec<(u64, User)> {
        let mut found = Vec::new();
        let report = |inode, user| {
            found.push((inode, user));
            Ok(())
        };
        report_users(users, &wanted.iter().copied().collect(), report).unwrap();
        found
    }

    /// The job's notes about this file alone: other programs may create files meanwhile.
    fn noted(watch: &mut ShmWatch, path: &Path) -> BTreeSet<FileId> {
        watch.settle();
        watch.take_fresh().into_iter().filter(|id| id.inode == inode(path)).collect()
    }

    #[test]
    fn a_file_that_the_job_was_the_first_to_use_is_noted_and_swept_unless_it_is_in_use() {
        let mut watch = ShmWatch::start();
        let path = path_of("noted");
        let child = holder(&path);
        let wanted = watch.begin().expect("a new file");
        assert!(wanted.contains(&inode(&path)));
        let found = users_of(Users::Family(Pid::this()), &[inode(&path)]);
        assert_eq!(found, [(inode(&path), User::Job)]);
        found.iter().for_each(|&(inode, user)| watch.found(inode, user));
        watch.conclude();
        let noted = noted(&mut watch, &path);
        assert_eq!(left(&noted), [inode(&path)]);
        assert_eq!(users_of(Users::All, &[inode(&path)]), [(inode(&path), User::Stranger)]);
        assert_eq!(sweep(&noted, &[inode(&path)].into()), 1);
        assert!(path.exists());
        end(child);
        assert_eq!(users_of(Users::All, &[inode(&path)]), []);
        assert_eq!(sweep(&noted, &BTreeSet::new()), 0);
        assert!(!path.exists() && left(&noted).is_empty());
    }

    #[test]
    fn a_file_that_no_process_was_seen_with_is_the_jobs_if_its_name_proves_that() {
        let kvsname = format!("kvs_{}", id());
        let mut named = Named::default();
        named.add(&kvsname);
        let mut watch = ShmWatch::start();
        let path = Path::new(SHM).join(format!("mpich_shm_{:x}_0", named::hash(&kvsname)));
        let other = path_of("nameless");
        fs::write(&path, "").unwrap();
        fs::write(&other, "").unwrap();
        watch.claim(&named);
        let noted = watch.take_fresh().into_iter().collect();
        assert_eq!(left(&noted), [inode(&path)]);
        assert_eq!(sweep(&noted, &BTreeSet::new()), 0);
        assert!(!path.exists() && other.exists());
        fs::remove_file(&other).unwrap();
        // A file that was there before the job is not the job's, whatever its name is.
        fs::write(&path, "").unwrap();
        let mut later = ShmWatch::start();
        later.claim(&named);
        assert_eq!(later.take_fresh(), []);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_another_program_uses_at_first_is_never_the_jobs() {
        let path = path_of("theirs");
        let mut watch = ShmWatch::start();
        let (manager, stranger) = (holder(&path_of("manager")), holder(&path));
        let family = Users::Family(Pid::from_raw(manager.id().cast_signed()));
        assert_eq!(users_of(family, &[inode(&path)]), [(inode(&path), User::Stranger)]);
        for users in [vec![User::Stranger], vec![User::Job], vec![User::Job, User::Stranger]] {
            watch.begin();
            users.into_iter().for_each(|user| watch.found(inode(&path), user));
            assert_eq!(noted(&mut watch, &path), BTreeSet::new());
        }
        end(stranger);
        end(manager);
        fs::remove_file(path_of("manager")).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_both_use_when_it_is_seen_first_is_not_the_jobs() {
        let path = path_of("both");
        let mut watch = ShmWatch::start();
        fs::write(&path, "").unwrap();
        assert!(watch.begin().expect("a new file").contains(&inode(&path)));
        watch.found(inode(&path), User::Job);
        watch.found(inode(&path), User::Stranger);
        watch.conclude();
        assert_eq!(noted(&mut watch, &path), BTreeSet::new());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_is_older_than_the_job_is_not_the_jobs_even_under_a_new_name() {
        let directory = path_of("directory");
        fs::create_dir(&directory).unwrap();
        let (old, path) = (directory.join("old"), path_of("renamed"));
        fs::write(&old, "").unwrap();
        let moment = SystemTime::now() + 2 * TICK;
        while SystemTime::now() < moment {
            std::thread::yield_now();
        }
        let mut watch = ShmWatch::start();
        fs::rename(&old, &path).unwrap();
        let wanted = watch.begin().unwrap_or_default();
        assert!(!wanted.contains(&inode(&path)));
        fs::remove_file(path).unwrap();
        fs::remove_dir(directory).unwrap();
    }

    #[test]
    fn a_file_is_removed_under_all_its_names_and_emptied_if_another_name_cannot_be_reached() {
        let directory = path_of("elsewhere");
        fs::create_dir(&directory).unwrap();
        for (mode, length) in [(0o666, 0), (0o600, 4)] {
            let (path, link) = (path_of("linked"), path_of("link"));
            let (elsewhere, symlink) = (directory.join("link"), path_of("symlink"));
            fs::write(&path, "data").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            fs::hard_link(&path, &link).unwrap();
            fs::hard_link(&path, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &symlink).unwrap();
            let noted = [id_of(&fs::metadata(&path).unwrap())].into();
            assert_eq!(sweep(&noted, &BTreeSet::new()), 0);
            assert!(!path.exists() && !link.exists() && symlink.is_symlink());
            let metadata = fs::metadata(&elsewhere).unwrap();
            assert_eq!((metadata.len(), metadata.mode() & 0o777), (length, 0o600), "{mode:o}");
            fs::remove_file(elsewhere).unwrap();
            fs::remove_file(symlink).unwrap();
        }
        fs::remove_dir(directory).unwrap();
    }

    #[test]
    fn a_file_without_a_known_user_is_searched_for_again_and_then_ignored() {
        let mut watch = ShmWatch::start();
        let path = path_of("foreign");
        fs::write(&path, "").unwrap();
        for _ in 0..MAX_LOOKS {
            assert!(watch.begin().expect("a new file").contains(&inode(&path)));
            watch.conclude();
        }
        assert!(!watch.begin().is_some_and(|wanted| wanted.contains(&inode(&path))));
        assert_eq!(noted(&mut watch, &path), BTreeSet::new());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_search_that_ended_early_does_not_count() {
        let mut watch = ShmWatch::start();
        let path = path_of("given-up");
        fs::write(&path, "").unwrap();
        for _ in 0..=MAX_LOOKS {
            assert!(watch.begin().expect("a new file").contains(&inode(&path)));
        }
        watch.found(inode(&path), User::Job);
        assert_eq!(noted(&mut watch, &path).len(), 1, "what was found counts");
        fs::remove_file(&path).unwrap();
    }
}
