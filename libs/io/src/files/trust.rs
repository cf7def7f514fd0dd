//! Other users that may have written a file, judged before it is read: its owner, its mode, its group, its folder.
//!
//! An open file is judged, not a path, so that no process exchanges the file between the judgement and the reading.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid};

use crate::host::names;
use crate::process::identity::user_name;
use crate::raw;

const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;

/// Why another user may have written a file. The text follows the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Another user owns the file.
    #[error("belongs to {0}, not to you")]
    Owner(String),
    /// Every user may write it.
    #[error("can be written by every user; run 'chmod o-w {0}'")]
    Others(String),
    /// The group may write it, and has or may have other users.
    #[error("can be written by its group, which may have other users; run 'chmod g-w {0}'")]
    Group(String),
    /// Another user may put a file of this name there.
    #[error("is in the folder {folder}, which {doubt}")]
    Folder {
        folder: String,
        /// Why another user may have written to it.
        doubt: Box<Self>,
    },
}

/// Why another user may have written the content of an open file; `None` if only this user and root may have.
/// `path` is for the advice.
///
/// # Errors
/// The file cannot be examined.
pub fn doubt_content(file: &File, path: &Path) -> io::Result<Option<Doubt>> {
    let facts = file.metadata()?;
    Ok(doubt(&facts, path, geteuid().as_raw(), || is_group_private(path, &facts)))
}

/// The same, but this user must own the file, and the folder is judged too.
///
/// # Errors
/// The file or its folder cannot be examined.
pub fn doubt_place(file: &File, path: &Path) -> io::Result<Option<Doubt>> {
    let owner = file.metadata()?.uid();
    if owner != geteuid().as_raw() {
        return Ok(Some(Doubt::Owner(user_name(owner))));
    }
    if let Some(doubt) = doubt_content(file, path)? {
        return Ok(Some(doubt));
    }
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let folder = real.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let opened = File::open(&folder)?;
    let doubt = doubt_content(&opened, &folder)?;
    let folder = folder.display().to_string();
    Ok(doubt.map(|doubt| Doubt::Folder { folder, doubt: Box::new(doubt) }))
}

/// Why another user may exchange what is in a folder. In a sticky one, others may only make files of their own.
pub(crate) fn doubt_folder(facts: &Metadata, path: &Path) -> Option<Doubt> {
    const STICKY: u32 = 0o1000;
    let is_sticky = facts.mode() & STICKY != 0;
    let doubt = doubt(facts, path, geteuid().as_raw(), || is_group_private(path, facts));
    doubt.filter(|doubt| match doubt {
        Doubt::Owner(_) => !is_without_name(facts.uid()),
        Doubt::Others(_) | Doubt::Group(_) | Doubt::Folder { .. } => !is_sticky,
    })
}

/// Whether files of this owner belong to users without a number here (user_namespaces(7)). In a container without root,
/// the directories of the host's root have such an owner.
fn is_without_name(owner: u32) -> bool {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
    let is_whole = |map: String| {
        let fields: Vec<&str> = map.split_whitespace().collect();
        fields == ["0", "0", "4294967295"]
    };
    number("/proc/sys/fs/overflowuid") == Some(owner)
        && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_whole(map))
}

/// Judges a file by its facts. `is_group_private`: whether this user alone is in the file's group.
fn doubt(
    facts: &Metadata,
    path: &Path,
    euid: u32,
    is_group_private: impl FnOnce() -> bool,
) -> Option<Doubt> {
    let path = || path.display().to_string();
    if facts.uid() != euid && facts.uid() != 0 {
        return Some(Doubt::Owner(user_name(facts.uid())));
    }
    if facts.mode() & BY_OTHERS != 0 {
        return Some(Doubt::Others(path()));
    }
    let by_group = facts.mode() & BY_GROUP != 0;
    (by_group && !is_group_private()).then(|| Doubt::Group(path()))
}

/// Whether the group of a file is this user's own group, and no other user is in it. False if that is not certain:
/// a directory of users may not list all of them, and an access control list hides behind the group's permissions.
fn is_group_private(path: &Path, facts: &Metadata) -> bool {
    if facts.gid() != getegid().as_raw() || raw::has_access_list(path).unwrap_or(true) {
        return false;
    }
    let own = user_name(geteuid().as_raw());
    // Systems that give each user a group of his own name it like the user. Other groups are made to be shared.
    names::is_alone_in_group(facts.gid(), &own)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn file(&self, mode: u32) -> (File, PathBuf) {
            let path = self.folder.path().join("hosts");
            fs::write(&path, "h1\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            (File::open(&path).unwrap(), path)
        }
    }

    #[test]
    fn a_file_that_only_its_owner_writes_is_not_doubted() {
        let place = Place::new();
        for mode in [0o600, 0o644, 0o444] {
            let (file, path) = place.file(mode);
            assert_eq!(doubt_content(&file, &path).unwrap(), None);
            assert_eq!(doubt_place(&file, &path).unwrap(), None);
        }
    }

    #[test]
    fn a_file_that_others_write_is_doubted_with_the_command_that_repairs_it() {
        let place = Place::new();
        let (file, path) = place.file(0o646);
        let doubt = doubt_content(&file, &path).unwrap().unwrap();
        assert!(doubt.to_string().ends_with(&format!("run 'chmod o-w {}'", path.display())));
        assert!(doubt_place(&file, &path).unwrap().is_some());
    }

    #[test]
    fn a_group_is_trusted_only_if_the_user_is_known_to_be_alone_in_it() {
        let place = Place::new();
        let (file, path) = place.file(0o664);
        let facts = file.metadata().unwrap();
        let shown = path.display().to_string();
        assert_eq!(doubt(&facts, &path, facts.uid(), || true), None);
        assert_eq!(doubt(&facts, &path, facts.uid(), || false), Some(Doubt::Group(shown)));
    }

    #[test]
    fn a_file_of_another_user_is_doubted_and_one_of_root_only_for_its_place() {
        let place = Place::new();
        let (file, path) = place.file(0o644);
        let facts = file.metadata().unwrap();
        let (owner, other) = (facts.uid(), facts.uid() + 7);
        let doubted = doubt(&facts, &path, other, || true);
        // A file of root counts for every user.
        assert_eq!(doubted.is_some(), owner != 0);
        if geteuid().is_root() {
            chown(&path, Some(65_534), None).unwrap();
            let said = doubt_content(&file, &path).unwrap().unwrap().to_string();
            assert_eq!(said, "belongs to nobody, not to you");
        }
    }

    #[test]
    fn a_folder_where_others_may_exchange_the_file_is_doubted() {
        let place = Place::new();
        let (file, path) = place.file(0o600);
        fs::set_permissions(place.folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(doubt_content(&file, &path).unwrap(), None);
        let said = doubt_place(&file, &path).unwrap().unwrap().to_string();
        assert!(said.starts_with("is in the folder ") && said.contains("every user"), "{said}");
    }
}
