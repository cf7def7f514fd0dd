//! POSIX shared memory that a job leaves behind: the files of `/dev/shm`, their users, and their removal.
//!
//! Which file is the job's is decided in `mpd-ending`. Symbolic links are never followed.
//!
//! `/proc/PID/maps` lists the mapped files of a process. A reader of it waits while that process is in a system call
//! that changes its memory. That can be long: the process may get no CPU, or its file server may be gone. So the
//! manager does not read it. A helper process finds the users with [`report_users`], and its owner limits the helper's
//! time.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mpd_ending::{ShmFile, User};
use mpd_leftovers::FileId;
use nix::sys::stat::{major, minor};
use nix::unistd::{Pid, geteuid};

use crate::process::procfile;
use crate::process::tree;

pub(crate) const SHM: &str = "/dev/shm";

/// Permissions that let other users change a file. Without them, protected hard links also keep others from linking it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The files of `/dev/shm`.
pub fn list() -> Vec<ShmFile> {
    let uid = geteuid().as_raw();
    files()
        .map(|(path, metadata)| ShmFile {
            path,
            id: id_of(&metadata),
            is_own: metadata.uid() == uid,
        })
        .collect()
}

/// When a file of `/dev/shm` was last created or removed, in nanoseconds since 1970, if that is known.
pub fn changed() -> Option<u64> {
    nanos(fs::metadata(SHM).and_then(|metadata| metadata.modified()))
}

fn nanos(time: io::Result<SystemTime>) -> Option<u64> {
    let since = time.ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn id_of(metadata: &fs::Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino(), born: nanos(metadata.created()) }
}

/// Removes a file. Another user with write permission may have linked it to a name that this process cannot remove.
/// Then the file is closed to others and emptied. A file that only its owner can write is not emptied, because such a
/// name is most likely its owner's.
pub fn remove_all(id: FileId, names: &[PathBuf]) {
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

    #[test]
    fn a_new_file_is_listed_and_its_users_are_found_while_they_live() {
        let (before, path) = (changed(), path_of("listed"));
        let child = holder(&path);
        let id = id_of(&fs::metadata(&path).unwrap());
        assert!(list().contains(&ShmFile { path: path.clone(), id, is_own: true }));
        assert!(changed() > before && changed() >= id.born);
        assert_eq!(users_of(Users::Family(Pid::this()), &[id.inode]), [(id.inode, User::Job)]);
        assert_eq!(users_of(Users::All, &[id.inode]), [(id.inode, User::Stranger)]);
        end(child);
        assert_eq!(users_of(Users::All, &[id.inode]), []);
        remove_all(id, std::slice::from_ref(&path));
        assert!(!path.exists() && !list().iter().any(|file| file.path == path));
    }

    #[test]
    fn a_process_outside_the_family_is_a_stranger() {
        let path = path_of("theirs");
        let (manager, stranger) = (holder(&path_of("manager")), holder(&path));
        let family = Users::Family(Pid::from_raw(manager.id().cast_signed()));
        assert_eq!(users_of(family, &[inode(&path)]), [(inode(&path), User::Stranger)]);
        end(stranger);
        end(manager);
        fs::remove_file(path_of("manager")).unwrap();
        fs::remove_file(path).unwrap();
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
            let id = id_of(&fs::metadata(&path).unwrap());
            remove_all(id, &[path.clone(), link.clone()]);
            assert!(!path.exists() && !link.exists() && symlink.is_symlink());
            let metadata = fs::metadata(&elsewhere).unwrap();
            assert_eq!((metadata.len(), metadata.mode() & 0o777), (length, 0o600), "{mode:o}");
            fs::remove_file(elsewhere).unwrap();
            fs::remove_file(symlink).unwrap();
        }
        fs::remove_dir(directory).unwrap();
    }
}
