//! System V objects and POSIX shared memory that a job leaves behind.
//!
//! Neither dies with its maker, and the kernel does not say which job an object belongs to. So the
//! manager keeps the process ids of its job, and notes while its processes live which files of
//! `/dev/shm` they have mapped or open ([`ShmWatch`]). At the end it removes, of the user's objects
//! that did not exist before the job: System V objects whose creator or last user was a process of the
//! job and that nobody is attached to; files noted that no living process has mapped. Objects of other
//! jobs of the same user stay. What bears the key of one of the job's groups goes in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mpd_proto::placement::GroupKey;
use nix::unistd::{Pid, geteuid};

use crate::raw::{SystemV, remove_system_v, semaphore_pid};
use crate::tree;

const SHM: &str = "/dev/shm";

/// What existed before the job, by kind: never touched.
#[derive(Debug, Default)]
pub struct Baseline {
    ids: BTreeMap<&'static str, BTreeSet<i32>>,
}

const KINDS: [(&str, SystemV); 3] =
    [("shm", SystemV::Memory), ("sem", SystemV::Semaphores), ("msg", SystemV::Messages)];

impl Baseline {
    /// Notes the System V objects that exist now.
    pub fn take() -> Self {
        let ids =
            KINDS.map(|(name, _)| (name, table(name).into_iter().map(|row| row.id).collect()));
        Self { ids: ids.into() }
    }

    /// Removes the System V objects that processes `of_job` made or used, see the module.
    pub fn sweep(&self, of_job: &BTreeSet<u32>) {
        for (name, kind) in KINDS {
            let before = self.ids.get(name);
            for row in table(name) {
                let new = before.is_none_or(|ids| !ids.contains(&row.id));
                let ours = new && row.uid == geteuid().as_raw() && row.belongs(kind, of_job);
                if ours && let Err(e) = remove_system_v(kind, row.id) {
                    log::debug!("System V {name} {}: {e}", row.id);
                }
            }
        }
    }
}

/// Removes the user's objects that are called by the keys of `groups`: System V objects, and shared
/// memory and semaphores of POSIX whose name begins so. To be called when no process of the groups lives.
pub fn sweep_groups(groups: &BTreeSet<GroupKey>) {
    if groups.is_empty() {
        return;
    }
    let uid = geteuid().as_raw();
    let keys: BTreeSet<i64> = groups.iter().map(|group| group.number().into()).collect();
    for (name, kind) in KINDS {
        for row in table(name).iter().filter(|row| row.uid == uid && keys.contains(&row.key)) {
            if let Err(e) = remove_system_v(kind, row.id) {
                log::debug!("System V {name} {}: {e}", row.id);
            }
        }
    }
    let names: BTreeSet<String> = groups.iter().map(GroupKey::to_string).collect();
    for (path, metadata) in files() {
        if metadata.uid() == uid && key_in(&path).is_some_and(|name| names.contains(&name)) {
            remove(&path);
        }
    }
}

/// What can be the text of a [`GroupKey`] at the beginning of the name of a file in `/dev/shm`.
fn key_in(path: &Path) -> Option<String> {
    const LENGTH: usize = "mpd-00000000".len();
    let name = path.file_name()?.to_str()?;
    // A POSIX semaphore is a file, too.
    let name = name.strip_prefix("sem.").unwrap_or(name);
    Some(format!("/{}", name.get(..LENGTH)?))
}

/// A row of `/proc/sysvipc/*`.
#[derive(Debug)]
struct Row {
    id: i32,
    key: i64,
    uid: u32,
    /// Members of a semaphore set.
    members: i32,
    attached: u64,
    pids: Vec<u32>,
}

impl Row {
    fn belongs(&self, kind: SystemV, of_job: &BTreeSet<u32>) -> bool {
        let known = self.pids.iter().any(|pid| of_job.contains(pid));
        match kind {
            SystemV::Memory => known && self.attached == 0,
            SystemV::Messages => known,
            SystemV::Semaphores => (0..self.members.min(1024))
                .filter_map(|n| semaphore_pid(self.id, n).ok())
                .any(|pid| of_job.contains(&pid)),
        }
    }
}

/// Reads one of the kernel's three tables; columns are found by the names in its first line.
fn table(name: &str) -> Vec<Row> {
    let Ok(text) = fs::read_to_string(format!("/proc/sysvipc/{name}")) else { return Vec::new() };
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let id_column = if name == "msg" { "msqid".to_owned() } else { format!("{name}id") };
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |column: &str| {
            let at = columns.iter().position(|c| *c == column)?;
            fields.get(at)?.parse::<i64>().ok()
        };
        let pids = ["cpid", "lpid", "lspid", "lrpid"];
        Some(Row {
            id: i32::try_from(number(&id_column)?).ok()?,
            key: number("key")?,
            uid: u32::try_from(number("uid")?).ok()?,
            members: number("nsems").and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
            attached: number("nattch").and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            pids: pids.iter().filter_map(|c| u32::try_from(number(c)?).ok()).collect(),
        })
    };
    lines.filter_map(row).collect()
}

/// Notes which files of `/dev/shm` a job uses.
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
}

/// Looks after which a file that no process of the job uses is taken for somebody else's.
const MAX_LOOKS: u8 = 4;

impl ShmWatch {
    /// Notes what is there before the job.
    pub fn start() -> Self {
        let foreign = files().map(|(_, metadata)| metadata.ino()).collect();
        Self { changed: changed(), noted: BTreeMap::new(), foreign, looks: BTreeMap::new() }
    }

    /// If files were made since the last look: notes those that descendants of this process have
    /// mapped or open. To be called while they live.
    pub fn note(&mut self) {
        let now = changed();
        if now == self.changed {
            return;
        }
        let uid = geteuid().as_raw();
        let new: BTreeMap<u64, (u64, PathBuf)> = files()
            .filter(|(_, m)| m.uid() == uid && !self.foreign.contains(&m.ino()))
            .map(|(path, m)| (m.ino(), (m.dev(), path)))
            .collect();
        let known: BTreeSet<u64> = self.noted.keys().map(|&(_, inode)| inode).collect();
        let mut unknown: BTreeSet<u64> =
            new.keys().copied().filter(|inode| !known.contains(inode)).collect();
        if !unknown.is_empty() {
            for pid in tree::descendants() {
                for inode in mapped(pid).into_iter().chain(open_files(pid)) {
                    if let Some((dev, path)) = new.get(&inode) {
                        self.noted.insert((*dev, inode), path.clone());
                        unknown.remove(&inode);
                    }
                }
            }
        }
        for inode in unknown.clone() {
            let looks = self.looks.entry(inode).or_default();
            *looks += 1;
            if *looks == MAX_LOOKS {
                self.looks.remove(&inode);
                self.foreign.insert(inode);
                unknown.remove(&inode);
            }
        }
        // A file made but not yet mapped is looked at again next time.
        if unknown.is_empty() {
            self.changed = now;
        }
    }

    /// Removes the noted files that are still the same and that no process has mapped.
    pub fn sweep(&self) {
        if self.noted.is_empty() {
            return;
        }
        let in_use: BTreeSet<u64> = all_processes().flat_map(mapped).collect();
        for (&(dev, inode), path) in &self.noted {
            let same = fs::symlink_metadata(path).is_ok_and(|m| m.dev() == dev && m.ino() == inode);
            if same && !in_use.contains(&inode) {
                remove(path);
            }
        }
    }
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => log::debug!("{}: {e}", path.display()),
        _ => {}
    }
}

/// When a file was last made or removed.
fn changed() -> Option<SystemTime> {
    fs::metadata(SHM).and_then(|m| m.modified()).ok()
}

fn files() -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    fs::read_dir(SHM).into_iter().flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        let metadata = fs::symlink_metadata(&path).ok()?;
        metadata.is_file().then_some((path, metadata))
    })
}

fn all_processes() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::from_raw))
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
    use super::*;

    #[test]
    fn the_tables_of_the_kernel_can_be_read() {
        for (name, _) in KINDS {
            let text = fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap();
            assert_eq!(table(name).len(), text.lines().count() - 1, "{name}: {text}");
        }
        assert_eq!(Baseline::take().ids.len(), 3);
    }

    #[test]
    fn of_a_groups_names_in_dev_shm_those_that_begin_with_its_key_are_its_own() {
        let key = |name| key_in(&Path::new(SHM).join(name));
        for name in ["mpd-0001e240", "mpd-0001e240.second", "sem.mpd-0001e240"] {
            assert_eq!(key(name).as_deref(), Some("/mpd-0001e240"));
        }
        assert_eq!(key("mpd-0001"), None);
    }
}
