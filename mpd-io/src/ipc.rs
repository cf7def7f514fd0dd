//! System V objects that a job leaves behind, and what bears the key of one of its groups.
//!
//! They do not die with their maker, and the kernel does not say which job an object belongs to. So the
//! manager keeps the process ids of its job. At the end it removes, of the user's objects that did not
//! exist before the job, those whose creator or last user was a process of the job and that nobody is
//! attached to. Objects of other jobs of the same user stay. What bears the key of one of the job's groups
//! goes in any case, files of shared memory, too; of others, see [`crate::shm`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mpd_proto::placement::GroupKey;
use nix::unistd::geteuid;

use crate::raw::{SystemV, remove_system_v, semaphore_pid};
use crate::shm::{files, remove};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::SHM;

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
