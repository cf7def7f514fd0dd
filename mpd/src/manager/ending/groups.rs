//! Groups of ranks (`-g K`): the objects that the ranks of a group share on this host. Their names are random, so
//! that other users cannot know them in advance. They are noted, so that they are removed even after the manager's
//! death.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use mpd_io::clean_up::ipc::keys_in_use;
use mpd_io::clean_up::job_directory::JobDirectory;
use mpd_io::host::random;
use mpd_leftovers::record::Note;
use mpd_wire::Rank;
use mpd_wire::job::JobSpec;
use mpd_wire::job::{Group, GroupKey, group_of};

use super::removal::remove;
use crate::notes::Notes;

/// The file system in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Most random numbers that are tried for a free System V key.
const MAX_TRIES: usize = 1000;

/// The groups of this host.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Key and directory of each group, by its number.
    shared: BTreeMap<u32, (GroupKey, PathBuf)>,
    /// The directory that contains the directories of all groups.
    directory: Option<JobDirectory>,
}

impl Groups {
    /// Makes the shared objects of the groups of these ranks. The directories are in memory, or in `fallback` if
    /// the host has no file system in memory.
    ///
    /// # Errors
    /// What cannot be made; a text for people.
    pub(crate) fn make(
        spec: &JobSpec,
        ranks: &[Rank],
        fallback: &Path,
        notes: &mut Notes,
    ) -> Result<Self, String> {
        let numbers: BTreeSet<u32> =
            ranks.iter().filter_map(|&rank| Some(group_of(spec, rank)?.number)).collect();
        if numbers.is_empty() {
            return Ok(Self::default());
        }
        let failed = |e: io::Error| {
            format!(
                "cannot make the shared directory or keys of groups: {}",
                mpd_io::files::logging::plain(&e)
            )
        };
        let keys = keys(numbers.len()).map_err(failed)?;
        notes.add(&Note::Groups(keys.clone()));
        let mut below = |base: &Path| {
            JobDirectory::below(base, |made| notes.add(&Note::Directory(made.clone())))
        };
        let directory = below(Path::new(SHARED_MEMORY)).or_else(|e| {
            log::warn!("{SHARED_MEMORY}: {e}; directories of groups are not in memory");
            below(fallback)
        });
        let directory = directory.map_err(failed)?;
        let shared = numbers
            .into_iter()
            .zip(keys)
            .map(|(number, key)| Ok((number, (key, directory.make(&number.to_string())?))));
        let shared = shared.collect::<io::Result<_>>().map_err(failed);
        let directory = Some(directory);
        shared.map(|shared| Self { shared, directory })
    }

    /// The environment variables of a rank of that group.
    pub(crate) fn variables(&self, group: Group) -> Vec<String> {
        let Some((key, directory)) = self.shared.get(&group.number) else { return Vec::new() };
        vec![
            format!("MPD_GROUP_DIR={}", directory.display()),
            format!("MPD_GROUP_IPC_KEY={}", key.number()),
            format!("MPD_GROUP_KEY={}", key.name()),
            format!("MPD_GROUP_RANK={}", group.rank),
            format!("MPD_GROUP_SIZE={}", group.size),
        ]
    }

    /// Removes all shared objects. Must be called when none of their processes lives.
    pub(crate) fn remove(&self) {
        let keys: Vec<GroupKey> = self.shared.values().map(|(key, _)| *key).collect();
        mpd_io::clean_up::ipc::sweep_groups(&keys);
        self.directory.iter().for_each(remove);
    }
}

/// `count` keys of System V objects. No object of this host uses one of them now.
fn keys(count: usize) -> io::Result<Vec<GroupKey>> {
    let mut used = keys_in_use();
    let mut keys = Vec::new();
    for _ in 0..count.saturating_add(MAX_TRIES) {
        if keys.len() == count {
            return Ok(keys);
        }
        let name = u64::from_ne_bytes(random::bytes()?);
        let key = GroupKey::new(name, u32::from_ne_bytes(random::bytes()?));
        if used.insert(key.number().into()) {
            keys.push(key);
        }
    }
    Err(io::Error::other("no System V key is free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_number_of_keys_is_made_and_no_two_are_equal() {
        let keys = keys(2000).unwrap();
        let numbers: BTreeSet<i32> = keys.iter().map(|key| key.number()).collect();
        let names: BTreeSet<String> = keys.iter().map(|key| key.name()).collect();
        assert_eq!((numbers.len(), names.len()), (2000, 2000));
    }
}
