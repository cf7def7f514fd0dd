//! Directories of jobs: created below a directory of the user that is closed to others, and removed by their maker.
//!
//! The user's directory is `BASE/mpd-UID`, mode 0700, so other users can neither list nor reach its content. If
//! another user has put something at that path, a directory with a random name replaces it. The user's directory is
//! removed when it is empty.
//!
//! A directory is removed only if it is still the one that was created. It is looked up in the descriptor of its
//! parent, without following symbolic links. Its owner, device and inode are compared. A path alone is never enough.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use mpd_leftovers::record::MadeDirectory;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::host::random;

/// Most attempts to create a directory while others remove the empty user's directory.
const MAX_TRIES: usize = 100;

const CLOSED: Mode = Mode::S_IRWXU;

/// A directory that this process has made. Removed by [`JobDirectory::remove`], not by drop.
#[derive(Debug)]
pub struct JobDirectory {
    parent: OwnedFd,
    /// Open, so that no other directory can get its inode.
    directory: OwnedFd,
    note: MadeDirectory,
    path: PathBuf,
}

impl JobDirectory {
    /// Creates a directory with a random name below the user's directory in `base`. `note` is called before it is
    /// created and again afterwards.
    ///
    /// # Errors
    /// Those of the system.
    pub fn below(base: &Path, mut note: impl FnMut(&MadeDirectory)) -> io::Result<Self> {
        let name = hex64()?;
        for _ in 0..MAX_TRIES {
            let (parent, parent_path) = users_directory(base)?;
            let path = parent_path.join(&name);
            let text = parent_path.into_os_string().into_string();
            let text = text.map_err(|_| io::Error::other("the path is not UTF-8"))?;
            let mut made = MadeDirectory { parent: text, name: name.clone(), identity: None };
            note(&made);
            match mkdirat(&parent, &*name, CLOSED) {
                // The end of another job has just removed the user's directory.
                Err(Errno::ENOENT) => continue,
                Err(e) => {
                    // The user's directory may be new, and the file system full.
                    let _ = fs::remove_dir(&made.parent);
                    return Err(e.into());
                }
                Ok(()) => {}
            }
            let directory = open_directory(&parent, &name)?;
            let identity = identity(&fstat(&directory)?);
            made.identity = Some(identity);
            note(&made);
            return Ok(Self { parent, directory, note: made, path });
        }
        Err(io::Error::other("it is removed again and again"))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a subdirectory that is closed to other users.
    ///
    /// # Errors
    /// Those of the system.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        mkdirat(&self.directory, name, CLOSED)?;
        Ok(self.path.join(name))
    }

    /// Removes the directory with its content.
    ///
    /// # Errors
    /// Another directory is at its path, or the system refuses.
    pub fn remove(&self) -> io::Result<()> {
        remove_in(&self.parent, &self.note)
    }
}

/// Removes a directory that a dead process has noted. If the note was made before the creation, the directory is
/// removed only if it is empty.
///
/// # Errors
/// As for [`JobDirectory::remove`].
pub fn remove_noted(note: &MadeDirectory) -> io::Result<()> {
    let path = Path::new(&note.parent);
    let parent = match open(path, directory_flags(), Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(()),
        parent => parent?,
    };
    check(&fstat(&parent)?)?;
    remove_in(&parent, note)
}

fn remove_in(parent: &OwnedFd, note: &MadeDirectory) -> io::Result<()> {
    let is_name = !note.name.is_empty() && note.name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_name {
        return Err(io::Error::other("no name of a job's directory"));
    }
    let removed = match note.identity {
        None => unlinkat(parent, &*note.name, UnlinkatFlags::RemoveDir).map_err(io::Error::from),
        Some(wanted) => remove_all(parent, &note.name, wanted),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // Other jobs may have directories there.
    let _ = fs::remove_dir(&note.parent);
    Ok(())
}

fn remove_all(parent: &OwnedFd, name: &str, wanted: (u64, u64)) -> io::Result<()> {
    let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if !is_own_directory(&found) || identity(&found) != wanted {
        return Err(io::Error::other("another one stands at its place and is left alone"));
    }
    // Most are empty, and this takes one system call.
    if unlinkat(parent, name, UnlinkatFlags::RemoveDir).is_ok() {
        return Ok(());
    }
    // Relative to the descriptor, even if the parent was moved; no symbolic link is followed.
    fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", parent.as_raw_fd()))
}

/// The user's directory in `base`, made if needed.
fn users_directory(base: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let below = open(base, flags, Mode::empty())?;
    let usual = format!("mpd-{}", geteuid());
    match make_own(&below, &usual) {
        Ok(directory) => Ok((directory, base.join(usual))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let other = format!("{usual}-{}", hex64()?);
            log::warn!("{}: {e}; {other} takes its place", base.join(usual).display());
            Ok((make_own(&below, &other)?, base.join(other)))
        }
        Err(e) => Err(e),
    }
}

/// Creates or opens the user's directory. `AlreadyExists`: something there is not safe to use.
fn make_own(base: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    for _ in 0..MAX_TRIES {
        match mkdirat(base, name, CLOSED) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(e) => return Err(e.into()),
        }
        let directory = match open_directory(base, name) {
            // Another process has removed it meanwhile.
            Err(Errno::ENOENT) => continue,
            Err(e @ (Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES)) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, e));
            }
            directory => directory?,
        };
        check(&fstat(&directory)?)?;
        return Ok(directory);
    }
    Err(io::Error::other("it is removed again and again"))
}

fn check(stat: &FileStat) -> io::Result<()> {
    let problem = if !is_own_directory(stat) {
        format!("belongs to user {}", crate::process::identity::user_name(stat.st_uid))
    } else if stat.st_mode & 0o077 != 0 {
        format!("is open to other users (mode {:o})", stat.st_mode & 0o777)
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
}

fn open_directory(parent: &OwnedFd, name: &str) -> nix::Result<OwnedFd> {
    openat(parent, name, directory_flags(), Mode::empty())
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

fn is_own_directory(stat: &FileStat) -> bool {
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    kind == SFlag::S_IFDIR && stat.st_uid == geteuid().as_raw()
}

fn identity(stat: &FileStat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// 64 random bits as 16 hexadecimal digits. That is enough for a name that cannot be guessed, and short, because paths
/// of sockets must be short.
fn hex64() -> io::Result<String> {
    Ok(mpd_wire::hex::encode(&random::bytes::<8>()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn base() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn made(base: &Path) -> JobDirectory {
        JobDirectory::below(base, |_| {}).unwrap()
    }

    fn users(base: &Path) -> PathBuf {
        base.join(format!("mpd-{}", geteuid()))
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_is_noted_before_its_creation_is_below_a_closed_one_and_leaves_nothing() {
        let base = base();
        let mut notes = Vec::new();
        let first = JobDirectory::below(base.path(), |note| {
            let path = Path::new(&note.parent).join(&note.name);
            assert_eq!(path.exists(), note.identity.is_some());
            notes.push(note.clone());
        })
        .unwrap();
        assert_eq!(notes.len(), 2);
        let inode = fs::metadata(first.path()).unwrap().ino();
        assert_eq!(notes[1].identity.map(|(_, inode)| inode), Some(inode));
        assert_eq!((mode(&users(base.path())), mode(first.path())), (0o700, 0o700));
        assert_eq!(mode(&first.make("0").unwrap()), 0o700);
        let second = made(base.path());
        assert_ne!(first.path(), second.path());
        fs::write(first.path().join("file"), "x").unwrap();
        symlink(base.path(), first.path().join("link")).unwrap();
        first.remove().unwrap();
        assert!(!first.path().exists() && second.path().exists());
        second.remove().unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
        second.remove().unwrap();
    }

    #[test]
    fn a_foreign_entry_in_place_of_the_users_directory_is_neither_used_nor_followed() {
        for kind in ["file", "link", "open"] {
            let (base, precious) = (base(), base());
            let path = users(base.path());
            match kind {
                "file" => fs::write(&path, "x").unwrap(),
                "link" => symlink(precious.path(), &path).unwrap(),
                _ => {
                    fs::create_dir(&path).unwrap();
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            let directory = made(base.path());
            let parent = directory.path().parent().unwrap();
            assert_ne!(parent, path, "{kind}");
            assert_eq!(mode(parent), 0o700, "{kind}");
            directory.remove().unwrap();
            assert!(!parent.exists() && fs::symlink_metadata(&path).is_ok(), "{kind}");
            assert_eq!(fs::read_dir(precious.path()).unwrap().count(), 0, "{kind}");
        }
    }

    #[test]
    fn another_directory_at_the_path_of_a_made_one_stays() {
        let (base, precious) = (base(), base());
        fs::write(precious.path().join("file"), "x").unwrap();
        let mut last = None;
        let directory = JobDirectory::below(base.path(), |note| last = Some(note.clone())).unwrap();
        let note = last.unwrap();
        let aside = base.path().join("aside");
        fs::rename(directory.path(), &aside).unwrap();
        for kind in ["directory", "link"] {
            match kind {
                "directory" => fs::create_dir(directory.path()).unwrap(),
                _ => symlink(precious.path(), directory.path()).unwrap(),
            }
            directory.remove().unwrap_err();
            remove_noted(&note).unwrap_err();
            assert!(precious.path().join("file").exists(), "{kind}");
            assert!(fs::symlink_metadata(directory.path()).is_ok(), "{kind}");
            let _ = fs::remove_dir(directory.path()).or_else(|_| fs::remove_file(directory.path()));
        }
        fs::rename(&aside, directory.path()).unwrap();
        remove_noted(&note).unwrap();
        assert!(!directory.path().exists());
    }

    #[test]
    fn a_directory_noted_before_its_creation_is_removed_only_if_empty() {
        let base = base();
        let directory = made(base.path());
        let note = MadeDirectory { identity: None, ..directory.note.clone() };
        fs::write(directory.path().join("file"), "x").unwrap();
        remove_noted(&note).unwrap_err();
        fs::remove_file(directory.path().join("file")).unwrap();
        remove_noted(&note).unwrap();
        assert!(!directory.path().exists());
        remove_noted(&note).unwrap();
        for name in ["", "..", "a/b", "x"] {
            let note = MadeDirectory { name: name.to_owned(), ..directory.note.clone() };
            fs::create_dir_all(base.path().join("x")).unwrap();
            let note = MadeDirectory { parent: base.path().display().to_string(), ..note };
            assert!(remove_noted(&note).is_err(), "{name:?}");
        }
    }
}
