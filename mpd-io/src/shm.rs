//! POSIX shared memory that a job leaves behind.
//!
//! It does not die with its maker, and the kernel does not say which job a file belongs to. So it is found out while
//! the job's processes live which files of `/dev/shm` they have mapped or open. At the end those go that did not
//! exist before the job and that no living process has mapped.
//!
//! What a process has mapped is told by `/proc/PID/maps`, and a reader waits there for that process: for as long as
//! it stands in a system call that changes its memory, which one that gets no CPU, or whose file server is gone,
//! does for long. So nobody reads it who has something else to do. [`ShmWatch`] says whose users are to be found,
//! a helper process finds them with [`tell_users`], and has no more time than its owner gives it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::unistd::{Pid, geteuid};

use crate::tree;

pub(crate) const SHM: &str = "/dev/shm";

/// Most files whose users are looked for at a time. Those of further ones are looked for next.
const MAX_WANTED: usize = 4096;

/// Looks after which a file that no process of the job uses is taken for somebody else's.
const MAX_LOOKS: u8 = 4;

/// A file that is made so soon after another may leave the directory's time of change as it was.
const TICK: Duration = Duration::from_millis(20);

/// Which files of `/dev/shm` a job uses.
///
/// Files are noticed by the directory's time of change, looked at now and then: an inotify instance
/// would tell at once, but closing one takes the kernel several milliseconds.
#[derive(Debug)]
pub struct ShmWatch {
    changed: Option<SystemTime>,
    noted: BTreeMap<(u64, u64), PathBuf>,
    /// Files that are not the job's: older, or never seen in use by it.
    foreign: BTreeSet<u64>,
    looks: BTreeMap<u64, u8>,
    search: Option<Search>,
}

/// For the users of new files.
#[derive(Debug)]
struct Search {
    /// When it began, as [`changed`] has it.
    changed: Option<SystemTime>,
    unknown: BTreeMap<u64, (u64, PathBuf)>,
    /// There may be more than is looked for.
    is_partial: bool,
}

impl ShmWatch {
    /// Notes what is there before the job.
    pub fn start() -> Self {
        let foreign = files().map(|(_, metadata)| metadata.ino()).collect();
        let (noted, looks) = (BTreeMap::new(), BTreeMap::new());
        Self { changed: changed(), noted, foreign, looks, search: None }
    }

    /// The inodes of files that were made since the last search, at most 4096, if there are any. Their users
    /// among the processes of the job are to be found; a search that was on is given up.
    pub fn begin(&mut self) -> Option<Vec<u64>> {
        self.search = None;
        let changed = changed();
        if changed == self.changed {
            return None;
        }
        let uid = geteuid().as_raw();
        let is_new = |inode: u64, device| {
            !self.foreign.contains(&inode) && !self.noted.contains_key(&(device, inode))
        };
        let mut new = files().filter(|(_, m)| m.uid() == uid && is_new(m.ino(), m.dev()));
        let unknown: BTreeMap<u64, (u64, PathBuf)> =
            new.by_ref().take(MAX_WANTED).map(|(path, m)| (m.ino(), (m.dev(), path))).collect();
        let is_recent = changed.is_some_and(|at| at.elapsed().is_ok_and(|since| since < TICK));
        let is_partial = is_recent || new.next().is_some();
        if unknown.is_empty() {
            if !is_partial {
                self.changed = changed;
            }
            return None;
        }
        let wanted = unknown.keys().copied().collect();
        self.search = Some(Search { changed, unknown, is_partial });
        Some(wanted)
    }

    /// A process of the job uses this one.
    pub fn found(&mut self, inode: u64) {
        let search = self.search.as_mut().and_then(|search| search.unknown.remove(&inode));
        if let Some((device, path)) = search {
            self.noted.insert((device, inode), path);
        }
    }

    /// All processes were looked at.
    pub fn conclude(&mut self) {
        let Some(mut search) = self.search.take() else { return };
        search.unknown.retain(|&inode, _| {
            let looks = self.looks.entry(inode).or_default();
            *looks += 1;
            let is_foreign = *looks == MAX_LOOKS;
            if is_foreign {
                self.looks.remove(&inode);
                self.foreign.insert(inode);
            }
            !is_foreign
        });
        // A file made but not yet mapped is looked at again next time.
        if search.unknown.is_empty() && !search.is_partial {
            self.changed = search.changed;
        }
    }

    /// The inodes of noted files that are still there.
    pub fn left(&self) -> Vec<u64> {
        let left = self.noted.iter().filter(|&(&key, path)| is_still(key, path));
        left.map(|(&(_, inode), _)| inode).collect()
    }

    /// Removes the noted files that are still the same, but for those that somebody uses.
    pub fn sweep(&self, in_use: &BTreeSet<u64>) {
        for (&(device, inode), path) in &self.noted {
            if is_still((device, inode), path) && !in_use.contains(&inode) {
                remove(path);
            }
        }
    }
}

fn is_still((device, inode): (u64, u64), path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.dev() == device && m.ino() == inode)
}

pub(crate) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => log::debug!("{}: {e}", path.display()),
        _ => {}
    }
}

/// When a file was last made or removed.
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

/// Whose files are of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// What descendants of this process have mapped or open.
    Family(Pid),
    /// What any process of this user on the host has mapped.
    Anybody,
}

/// Tells which of the `wanted` inodes of files of `/dev/shm` somebody uses, each as soon as it is found. Waits for
/// processes that stand in system calls; see the module.
///
/// # Errors
/// Those of `tell`.
pub fn tell_users(
    users: Users,
    mut wanted: BTreeSet<u64>,
    mut tell: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut pids: Vec<Pid> = match users {
        Users::Family(of) => tree::descendants_of(of).into_iter().collect(),
        // Root could look at others' processes, too, and would wait for them.
        Users::Anybody => tree::everybody().filter(|pid| is_ours(*pid)).collect(),
    };
    pids.retain(|&pid| pid != Pid::this());
    // What is new is most likely of the youngest.
    pids.reverse();
    // Who has a file open is known without waiting for anybody.
    let looks: &[fn(Pid) -> Vec<u64>] = match users {
        Users::Family(_) => &[open_files, mapped],
        Users::Anybody => &[mapped],
    };
    for look in looks {
        for &pid in &pids {
            if wanted.is_empty() {
                return Ok(());
            }
            for inode in look(pid) {
                if wanted.remove(&inode) {
                    tell(inode)?;
                }
            }
        }
    }
    Ok(())
}

fn is_ours(pid: Pid) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Inodes below `/dev/shm` that a process has mapped.
fn mapped(pid: Pid) -> Vec<u64> {
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return Vec::new() };
    maps.lines()
        .filter(|line| line.contains(" /dev/shm/"))
        .filter_map(|line| line.split_ascii_whitespace().nth(4)?.parse().ok())
        .collect()
}

/// Inodes below `/dev/shm` that a process has open.
fn open_files(pid: Pid) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let link = entry.ok()?.path();
            let target = fs::read_link(&link).ok()?;
            target.starts_with(SHM).then(|| fs::metadata(&link).ok())?.map(|m| m.ino())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio, id};

    use super::*;

    /// A file of `/dev/shm`, and a process that has it open.
    fn held(name: &str) -> (PathBuf, Child) {
        let path = Path::new(SHM).join(format!("mpd-test-{}-{name}", id()));
        let script = format!("exec 9>'{}'; echo; exec sleep 60", path.display());
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (path, child)
    }

    fn users_of(wanted: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        let tell = |inode| {
            found.push(inode);
            Ok(())
        };
        tell_users(Users::Family(Pid::this()), wanted.iter().copied().collect(), tell).unwrap();
        found
    }

    #[test]
    fn a_file_that_a_process_of_the_job_has_is_noted_and_swept_unless_it_is_in_use() {
        let mut watch = ShmWatch::start();
        let (path, mut child) = held("noted");
        let wanted = watch.begin().expect("a new file");
        let found = users_of(&wanted);
        assert_eq!(found, [fs::metadata(&path).unwrap().ino()]);
        found.iter().for_each(|&inode| watch.found(inode));
        watch.conclude();
        assert_eq!(watch.left(), found);
        watch.sweep(&found.iter().copied().collect());
        assert!(path.exists());
        watch.sweep(&BTreeSet::new());
        assert!(!path.exists() && watch.left().is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_file_that_nobody_was_found_for_is_looked_for_again_and_then_left_alone() {
        let mut watch = ShmWatch::start();
        let path = Path::new(SHM).join(format!("mpd-test-{}-foreign", id()));
        fs::write(&path, "").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        for _ in 0..MAX_LOOKS {
            assert!(watch.begin().expect("a new file").contains(&inode));
            watch.conclude();
        }
        assert!(!watch.begin().is_some_and(|wanted| wanted.contains(&inode)));
        watch.sweep(&BTreeSet::new());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_search_that_was_given_up_is_no_look() {
        let mut watch = ShmWatch::start();
        let (path, mut child) = held("given-up");
        for _ in 0..=MAX_LOOKS {
            assert!(watch.begin().is_some());
        }
        let inode = fs::metadata(&path).unwrap().ino();
        watch.found(inode);
        assert_eq!(watch.left(), [inode], "what was found counts");
        fs::remove_file(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
