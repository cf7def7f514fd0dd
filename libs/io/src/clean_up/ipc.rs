//! System V objects: those that exist, and the removal of those that a job left.
//!
//! System V objects outlive their creator. [`Known`] decides which the job has created. Objects with the key of one of
//! the job's groups are removed in any case, also files of shared memory. [`crate::clean_up::shm`] handles other files.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mpd_leftovers::{Before, Kind, Known, Object, Reason, State, Use};
use mpd_wire::job::GroupKey;
use nix::unistd::geteuid;

use crate::clean_up::shm::{files, remove};
use crate::process::procfile;
use crate::raw::{self, remove_system_v, semaphore_pid};

const KINDS: [Kind; 3] = [Kind::Memory, Kind::Semaphores, Kind::Messages];

/// Most semaphores of one set whose last user is asked for; the kernel's usual bound of a set.
const MAX_MEMBERS: i32 = 32_000;

/// The objects that exist now.
pub fn existing() -> Before {
    let ids = |kind| table(kind).into_iter().map(|row| row.id).collect();
    Before {
        memory: ids(Kind::Memory),
        semaphores: ids(Kind::Semaphores),
        messages: ids(Kind::Messages),
    }
}

/// Removes the System V objects that belong to the job by these notes. Returns how many of them are kept because a
/// process is attached.
pub fn sweep(notes: &Known) -> usize {
    let uid = geteuid().as_raw();
    let mut attached = 0;
    for row in KINDS.into_iter().flat_map(table) {
        // The last users of semaphores are asked for only if the answer can matter.
        let object = if row.users == [uid; 2] { row.object() } else { continue };
        match notes.judge(&object, uid) {
            Ok(()) => row.remove(),
            Err(kept) if kept.is_doubtful => {
                attached += usize::from(kept.reason == Reason::Attached);
                log::info!("{} {} stays: {}", row.kind, row.id, kept.reason);
            }
            Err(kept) => log::debug!("{} {} stays: {}", row.kind, row.id, kept.reason),
        }
    }
    attached
}

/// Removes the user's objects whose names are the keys of `groups`: System V objects, and POSIX shared memory and
/// semaphores whose name begins with a key. Call it when no process of the groups lives.
pub fn sweep_groups(groups: &[GroupKey]) {
    if groups.is_empty() {
        return;
    }
    let uid = geteuid().as_raw();
    let keys: BTreeSet<i64> = groups.iter().map(|group| group.number().into()).collect();
    let objects = KINDS.into_iter().flat_map(table);
    objects
        .filter(|row| row.users[0] == uid && keys.contains(&row.key))
        .for_each(|row| row.remove());
    let names: BTreeSet<String> = groups.iter().map(|group| group.name()).collect();
    for (path, metadata) in files() {
        if metadata.uid() == uid && key_in(&path).is_some_and(|name| names.contains(&name)) {
            remove(&path);
        }
    }
}

/// The keys of all System V objects of this host.
pub fn keys_in_use() -> BTreeSet<i64> {
    KINDS.into_iter().flat_map(table).map(|row| row.key).collect()
}

/// The part of a file name in `/dev/shm` that can be the name of a [`GroupKey`].
fn key_in(path: &Path) -> Option<String> {
    const LENGTH: usize = "mpd-0123456789abcdef".len();
    let name = path.file_name()?.to_str()?;
    // A POSIX semaphore is also a file.
    let name = name.strip_prefix("sem.").unwrap_or(name);
    Some(format!("/{}", name.get(..LENGTH)?))
}

/// A row of `/proc/sysvipc/*`.
#[derive(Debug)]
struct Row {
    kind: Kind,
    id: i32,
    key: i64,
    /// Owner and creator.
    users: [u32; 2],
    /// Members of a semaphore set.
    members: i32,
    attached: u64,
    /// Process ids, by the names of their columns; 0 if the table does not have the column.
    creator: u32,
    sender: u32,
    receiver: u32,
    /// Seconds since 1970; 0 if the table does not have the column.
    changed: u64,
    operated: u64,
    sent: u64,
    received: u64,
}

impl Row {
    fn object(&self) -> Object {
        let state = match self.kind {
            Kind::Memory => State::Memory {
                made: Use { pid: self.creator, at: self.changed },
                attached: self.attached,
            },
            // SETVAL and SETALL are uses of a semaphore. They change only the time of change.
            Kind::Semaphores => State::Semaphores {
                pids: self.semaphore_pids(),
                at: self.operated.max(self.changed),
            },
            Kind::Messages => State::Messages {
                sent: Use { pid: self.sender, at: self.sent },
                received: Use { pid: self.receiver, at: self.received },
            },
        };
        Object { id: self.id, users: self.users, state }
    }

    /// The last user of each semaphore of the set, without those never used. `None` if the set is too large.
    fn semaphore_pids(&self) -> Option<Vec<u32>> {
        if self.members > MAX_MEMBERS {
            return None;
        }
        let mut pids = BTreeSet::new();
        for number in 0..self.members {
            pids.insert(semaphore_pid(self.id, number).ok()?);
        }
        pids.remove(&0);
        Some(pids.into_iter().collect())
    }

    fn remove(&self) {
        match remove_system_v(self.kind, self.id) {
            Ok(()) => log::debug!("{} {} of the job removed", self.kind, self.id),
            Err(e) => log::info!("{} {} stays: {e}", self.kind, self.id),
        }
    }
}

/// The kernel's name of a kind: its table, and the column of the id.
const fn names(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Memory => ("shm", "shmid"),
        Kind::Semaphores => ("sem", "semid"),
        Kind::Messages => ("msg", "msqid"),
    }
}

/// Reads one of the kernel's three tables. Columns are found by the names in its first line.
fn table(kind: Kind) -> Vec<Row> {
    let (name, id_column) = names(kind);
    // Most hosts have few System V objects, and the kernel counts them faster than it lists them.
    if raw::count_system_v(kind) == Some(0) {
        return Vec::new();
    }
    let Ok(text) = procfile::table(format!("/proc/sysvipc/{name}")) else { return Vec::new() };
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |column: &str| {
            let at = columns.iter().position(|c| *c == column)?;
            fields.get(at)?.parse::<i64>().ok()
        };
        let small = |column| number(column).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let large = |column| number(column).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let user = |column| u32::try_from(number(column)?).ok();
        Some(Row {
            kind,
            id: i32::try_from(number(id_column)?).ok()?,
            key: number("key")?,
            users: [user("uid")?, user("cuid")?],
            members: number("nsems").and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
            attached: large("nattch"),
            creator: small("cpid"),
            sender: small("lspid"),
            receiver: small("lrpid"),
            changed: large("ctime"),
            operated: large("otime"),
            sent: large("stime"),
            received: large("rtime"),
        })
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean_up::shm::SHM;

    #[test]
    fn the_tables_of_the_kernel_can_be_read() {
        for kind in KINDS {
            let (name, id_column) = names(kind);
            let text = procfile::table(format!("/proc/sysvipc/{name}")).unwrap();
            let columns: Vec<&str> =
                text.lines().next().unwrap().split_ascii_whitespace().collect();
            let own: &[&str] = match kind {
                Kind::Memory => &["cpid", "nattch"],
                Kind::Semaphores => &["nsems", "otime"],
                Kind::Messages => &["lspid", "lrpid", "stime", "rtime"],
            };
            for column in ["key", id_column, "uid", "cuid", "ctime"].iter().chain(own) {
                assert!(columns.contains(column), "{column} in {text}");
            }
        }
    }

    #[test]
    fn names_in_dev_shm_that_begin_with_a_groups_key_belong_to_the_group() {
        let key = |name: &str| key_in(&Path::new(SHM).join(name));
        let ours = GroupKey::new(0x1_e240, 1).name();
        for name in [&ours[1..], &format!("{}.second", &ours[1..]), &format!("sem.{}", &ours[1..])]
        {
            assert_eq!(key(name).as_ref(), Some(&ours));
        }
        assert_eq!(key("mpd-0001e240"), None);
    }
}
