//! The removal of files and directories that programs have registered for the end of their job.
//!
//! A path is only the word of a program, so each removal is checked:
//!
//! - what is removed belongs to the user of this process, and was born after the job began;
//! - a symbolic link is removed, never followed. On the way to a path, links of other users are not followed;
//! - the root directory, the user's home, the directories of the job, directories above them, and mount points stay, with
//!   their contents. So do older directories below a registered one.
//!
//! Every directory is held open while it is emptied, so another process cannot replace it by a link.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use mpd_leftovers::record::Registered;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::files::logging::plain;
use crate::process::status::field;

/// Most directories inside each other that are emptied. Each needs a descriptor.
const MAX_DEPTH: usize = 64;

/// Most symbolic links on the way to a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Most refusals that are logged for one registration.
const MAX_REPORTS: usize = 16;

/// Removes what still exists. Logs each path that stays although it was registered.
pub fn remove(registered: &Registered) {
    let user = geteuid().as_raw();
    let homes = if registered.directories.is_empty() { Vec::new() } else { homes_of(user) };
    let kept = registered.kept.iter().map(|path| as_path(path));
    let removal = Removal {
        registered,
        kept: identities_above(kept.chain(homes.iter().map(PathBuf::as_path))),
        user,
        reports: Cell::new(0),
    };
    for path in registered.files.iter().map(|path| as_path(path)) {
        removal.report(path, removal.remove_file(path));
    }
    for path in registered.directories.iter().map(|path| as_path(path)) {
        removal.report(path, removal.remove_directory(path));
    }
}

struct Removal<'a> {
    registered: &'a Registered,
    /// The device and inode of each directory that stays.
    kept: BTreeSet<(u64, u64)>,
    user: u32,
    reports: Cell<usize>,
}

impl Removal<'_> {
    /// Logs why a path stays, unless it is gone.
    fn report(&self, path: &Path, result: io::Result<()>) {
        let Err(e) = result else { return };
        if e.kind() == io::ErrorKind::NotFound || self.reports.get() >= MAX_REPORTS {
            return;
        }
        self.reports.set(self.reports.get() + 1);
        log::warn!("{} was registered for removal and stays: {}", path.display(), plain(&e));
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.open_parent(path)?;
        self.unlink(&parent, &name)
    }

    /// Removes an entry of a directory that is itself no directory.
    fn unlink(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if is(&found, SFlag::S_IFDIR) {
            return Err(refused("it is a directory"));
        }
        self.check_owner(&found)?;
        self.check_age(parent, name)?;
        Ok(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.open_parent(path)?;
        let directory = self.open_directory(&parent, &name)?;
        // Its birth is looked at before the entries are removed.
        let age = self.check_age(&parent, &name);
        self.empty(&directory, path, 1)?;
        match self.registered.keeps_top {
            true => Ok(()),
            false => age.and_then(|()| remove_empty(&parent, &name)),
        }
    }

    /// Removes the contents of a directory, except for names that stay.
    fn empty(&self, directory: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(refused("too many directories are inside each other"));
        }
        for entry in fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))? {
            let name = entry?.file_name();
            let stays = |pattern: &Vec<u8>| matches(pattern, name.as_bytes());
            if self.registered.ignored.iter().any(stays) {
                continue;
            }
            let inner = path.join(&name);
            let found = fstatat(directory, &*name, AtFlags::AT_SYMLINK_NOFOLLOW);
            let is_directory = found.is_ok_and(|found| is(&found, SFlag::S_IFDIR));
            match (is_directory, self.registered.is_recursive) {
                (false, _) => self.report(&inner, self.unlink(directory, &name)),
                (true, true) => self.report(&inner, self.remove_inner(directory, &inner, depth)),
                (true, false) => {}
            }
        }
        Ok(())
    }

    fn remove_inner(&self, parent: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let directory = self.open_directory(parent, name)?;
        self.check_age(parent, name)?;
        self.empty(&directory, path, depth + 1)?;
        remove_empty(parent, name)
    }

    /// Opens a directory that may be emptied.
    fn open_directory(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = match openat(parent, name, flags, Mode::empty()) {
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(refused("it is no directory")),
            directory => directory?,
        };
        let found = fstat(&directory)?;
        if self.kept.contains(&(found.st_dev, found.st_ino)) {
            let reason = "the home or a working directory of the job is at or below it";
            return Err(refused(reason));
        }
        if mount_of(&directory)? != mount_of(parent)? {
            return Err(refused("it is a mount point"));
        }
        self.check_owner(&found)?;
        Ok(directory)
    }

    fn check_owner(&self, found: &FileStat) -> io::Result<()> {
        if found.st_uid == self.user {
            return Ok(());
        }
        Err(refused(&format!(
            "it belongs to user {}",
            crate::process::identity::user_name(found.st_uid)
        )))
    }

    /// Checks that an entry was born after the job began.
    fn check_age(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let path = Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string()).join(name);
        let since = SystemTime::UNIX_EPOCH + Duration::from_micros(self.registered.since);
        match born(&fs::symlink_metadata(path)?) >= Some(since) {
            true => Ok(()),
            false => Err(refused("it is older than the job")),
        }
    }

    /// The directory that has the entry of an absolute path, and the name of the entry.
    fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, OsString)> {
        let mut names = names_of(path);
        if names.iter().any(|name| name == "..") {
            return Err(refused("a path with `..` may lead anywhere"));
        }
        let mut directory = root()?;
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            if names.is_empty() {
                return Ok((directory, name));
            }
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = openat(&directory, &*name, flags, Mode::empty())?;
            let found = fstat(&next)?;
            if !is(&found, SFlag::S_IFLNK) {
                directory = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::ELOOP.into());
            }
            if ![0, self.user].contains(&found.st_uid) {
                return Err(refused("a symbolic link of another user leads to it"));
            }
            let target = readlinkat(&next, "")?;
            let target = Path::new(&target);
            if target.is_absolute() {
                directory = root()?;
            }
            let mut way = names_of(target);
            way.append(&mut names);
            names = way;
        }
        Err(refused("it is the root directory"))
    }
}

/// The homes of a user: that of the account, and that in the environment of this process.
fn homes_of(user: u32) -> Vec<PathBuf> {
    let own = std::env::var_os("HOME").map(PathBuf::from);
    let of_account = crate::host::names::account(user).map(|account| account.home);
    own.into_iter().chain(of_account).filter(|home| home.is_absolute()).collect()
}

/// When a file was born, as far as its file system says.
fn born(found: &fs::Metadata) -> Option<SystemTime> {
    found.created().ok().or_else(|| earliest(found))
}

/// The earliest time that a file has. It was born before the later ones.
fn earliest(found: &fs::Metadata) -> Option<SystemTime> {
    let since_epoch =
        Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
    Some(found.modified().ok()?.min(SystemTime::UNIX_EPOCH + since_epoch))
}

/// Removes a directory if it is empty. Names that stay may be left in it.
fn remove_empty(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(parent, name, UnlinkatFlags::RemoveDir) {
        Err(Errno::ENOTEMPTY) => Ok(()),
        removed => Ok(removed?),
    }
}

/// The device and inode of these directories and of all directories above them.
fn identities_above<'a>(paths: impl Iterator<Item = &'a Path>) -> BTreeSet<(u64, u64)> {
    let mut identities = BTreeSet::new();
    for path in paths.chain([Path::new("/")]) {
        let Ok(path) = fs::canonicalize(path) else { continue };
        for ancestor in path.ancestors() {
            identities.extend(fs::metadata(ancestor).map(|info| (info.dev(), info.ino())));
        }
    }
    identities
}

/// The number of the mount that contains an open directory.
fn mount_of(directory: &OwnedFd) -> io::Result<String> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd()))?;
    field(&info, "mnt_id:").map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open("/", flags, Mode::empty())?)
}

fn names_of(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

fn is(found: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == kind
}

fn refused(reason: &str) -> io::Error {
    io::Error::other(reason.to_owned())
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Whether a name fits a pattern, in which a star stands for any characters. After a mismatch only the last star takes
/// one more character, so the time is bounded by the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while read < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, read));
            at += 1;
        } else if pattern.get(at) == Some(&name[read]) {
            at += 1;
            read += 1;
        } else if let Some((after, taken)) = star {
            star = Some((after, taken + 1));
            (at, read) = (after, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::path::PathBuf;

    use super::*;

    /// A directory with `tree/a.log`, `tree/b`, `tree/below/c`, `tree/link` to `precious`, and `precious/file`.
    fn base() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(base.path()).unwrap();
        fs::create_dir_all(at.join("tree/below")).unwrap();
        fs::create_dir(at.join("precious")).unwrap();
        for file in ["tree/a.log", "tree/b", "tree/below/c", "precious/file", "file"] {
            fs::write(at.join(file), "").unwrap();
        }
        symlink(at.join("precious"), at.join("tree/link")).unwrap();
        (base, at)
    }

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_bytes().to_vec()
    }

    fn tree(path: &Path) -> Registered {
        Registered { directories: vec![bytes(path)], is_recursive: true, ..Registered::default() }
    }

    /// A time that is later than those of all files below `at`, by the clock of files. Linux may stamp a file with a
    /// finer clock, which is ahead of that one (multigrain timestamps).
    fn later(at: &Path) -> u64 {
        let newest = newest_below(at).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        loop {
            let now = crate::clock::of_files();
            if Duration::from_micros(now) > newest {
                return now;
            }
            std::thread::yield_now();
        }
    }

    /// The latest time of birth or of change of `at` and of all below it.
    fn newest_below(at: &Path) -> SystemTime {
        let found = fs::symlink_metadata(at).unwrap();
        let changed = Duration::new(
            found.ctime().try_into().unwrap(),
            found.ctime_nsec().try_into().unwrap(),
        );
        let own = born(&found).unwrap().max(SystemTime::UNIX_EPOCH + changed);
        if !found.is_dir() {
            return own;
        }
        let below = fs::read_dir(at).unwrap().map(|entry| newest_below(&entry.unwrap().path()));
        below.fold(own, SystemTime::max)
    }

    #[test]
    fn what_is_older_than_the_job_stays() {
        let (_base, at) = base();
        let since = later(&at);
        fs::write(at.join("tree/new"), "").unwrap();
        fs::create_dir(at.join("tree/fresh")).unwrap();
        fs::write(at.join("tree/fresh/file"), "").unwrap();
        fs::write(at.join("tree/below/new"), "").unwrap();
        // A file of the job with an old name, and an old file that the job has changed.
        fs::write(at.join("tree/b"), "changed").unwrap();
        let files = vec![bytes(&at.join("file")), bytes(&at.join("tree/new"))];
        remove(&Registered { files, since, ..tree(&at.join("tree")) });
        assert!(!at.join("tree/new").exists() && !at.join("tree/fresh").exists());
        for old in ["file", "tree/a.log", "tree/b", "tree/below/c", "tree/below/new", "tree/link"] {
            assert!(at.join(old).symlink_metadata().is_ok(), "{old}");
        }
    }

    #[test]
    fn a_directory_that_the_job_has_made_goes_and_an_older_one_stays() {
        let (_base, at) = base();
        let since = later(&at);
        fs::create_dir(at.join("new")).unwrap();
        for directory in ["new", "precious"] {
            remove(&Registered { since, ..tree(&at.join(directory)) });
        }
        assert!(!at.join("new").exists() && at.join("precious/file").exists());
    }

    #[test]
    fn without_a_time_of_birth_the_earliest_time_counts() {
        let (_base, at) = base();
        let since = later(&at);
        fs::write(at.join("mark"), "").unwrap();
        // This changes the last of its times alone.
        fs::set_permissions(at.join("file"), PermissionsExt::from_mode(0o600)).unwrap();
        let limit = SystemTime::UNIX_EPOCH + Duration::from_micros(since);
        let time = |name: &str| earliest(&fs::symlink_metadata(at.join(name)).unwrap());
        assert!(time("file") < Some(limit) && time("mark") >= Some(limit));
    }

    #[test]
    fn the_home_of_the_account_stays_whatever_the_environment_says() {
        let homes = homes_of(geteuid().as_raw());
        let account = crate::host::names::account(geteuid().as_raw()).map(|account| account.home);
        assert!(account.is_none_or(|home| homes.contains(&home)), "{homes:?}");
    }

    #[test]
    fn registered_files_and_directories_are_removed_and_links_are_not_followed() {
        let (_base, at) = base();
        let files = vec![bytes(&at.join("file")), bytes(&at.join("none")), bytes(&at.join("tree"))];
        remove(&Registered { files, ..Registered::default() });
        assert!(!at.join("file").exists() && at.join("tree/b").exists());
        remove(&tree(&at.join("tree")));
        assert!(!at.join("tree").exists() && at.join("precious/file").exists());
        // A link in the place of a registered directory.
        symlink(at.join("precious"), at.join("tree")).unwrap();
        remove(&tree(&at.join("tree")));
        assert!(at.join("tree").is_symlink() && at.join("precious/file").exists());
        // On the way, links of the user are followed.
        remove(&tree(&at.join("tree/file")));
        let files = vec![bytes(&at.join("tree/file"))];
        remove(&Registered { files, ..Registered::default() });
        assert!(!at.join("precious/file").exists());
    }

    #[test]
    fn names_that_stay_keep_the_directories_above_them() {
        let (_base, at) = base();
        remove(&Registered { ignored: vec![b"*.log".into()], ..tree(&at.join("tree")) });
        assert!(at.join("tree/a.log").exists() && !at.join("tree/below").exists());
        remove(&Registered { keeps_top: true, ..tree(&at.join("tree")) });
        assert_eq!(fs::read_dir(at.join("tree")).unwrap().count(), 0);
        fs::create_dir(at.join("tree/below")).unwrap();
        remove(&Registered { is_recursive: false, ..tree(&at.join("tree")) });
        assert!(at.join("tree/below").exists());
    }

    #[test]
    fn kept_directories_and_those_above_them_stay_with_their_contents() {
        let (_base, at) = base();
        let kept = vec![bytes(&at.join("tree/below"))];
        for directory in ["tree", "tree/below", "", "precious/../tree/below"] {
            remove(&Registered { kept: kept.clone(), ..tree(&at.join(directory)) });
            assert!(at.join("tree/b").exists() && at.join("tree/below/c").exists(), "{directory}");
        }
        // Below a directory that is removed, a kept one stays as well.
        let link = at.join("work");
        fs::rename(at.join("tree"), at.join("precious/tree")).unwrap();
        symlink(at.join("precious/tree/below"), &link).unwrap();
        remove(&Registered { kept: vec![bytes(&link)], ..tree(&at.join("precious/tree")) });
        assert!(at.join("precious/tree/below/c").exists());
        remove(&tree(Path::new("/")));
        assert!(at.exists());
    }

    #[test]
    fn a_mount_point_and_its_contents_stay() {
        // The directory of this file system is a mount point on every Linux.
        let parent = open("/", OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        let proc = open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        assert_ne!(mount_of(&parent).unwrap(), mount_of(&proc).unwrap());
        let registered = Registered::default();
        let kept = BTreeSet::new();
        let user = geteuid().as_raw();
        let removal = Removal { registered: &registered, kept, user, reports: Cell::new(0) };
        let refused = removal.open_directory(&parent, OsStr::new("proc")).unwrap_err();
        assert_eq!(refused.to_string(), "it is a mount point");
    }

    #[test]
    fn what_belongs_to_another_user_stays_and_its_links_lead_nowhere() {
        if !geteuid().is_root() {
            return;
        }
        const OTHER: u32 = 65_534;
        let (_base, at) = base();
        let own = |path: &str| lchown(at.join(path), Some(OTHER), None).unwrap();
        own("file");
        own("tree/below/c");
        own("tree/link");
        remove(&Registered { files: vec![bytes(&at.join("file"))], ..tree(&at.join("tree")) });
        assert!(at.join("file").exists() && at.join("tree/below/c").exists());
        assert!(at.join("tree/link").is_symlink() && !at.join("tree/b").exists());
        let through = vec![bytes(&at.join("tree/link/file"))];
        remove(&Registered { files: through, ..Registered::default() });
        assert!(at.join("precious/file").exists());
    }

    #[test]
    fn patterns_with_many_stars_are_decided_quickly() {
        assert!(matches(b"a*b*", b"a-b-c") && matches(b"*", b"") && matches(b"x", b"x"));
        assert!(!matches(b"a*b", b"a-b-c") && !matches(b"", b"x") && !matches(b"x", b""));
        let (stars, name) = (b"a*".repeat(200), b"a".repeat(255));
        assert!(matches(&stars, &name) && !matches(&[&stars[..], b"b"].concat(), &name));
    }
}
