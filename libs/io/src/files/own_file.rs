//! Files that are written for the user, at a path that another user may have prepared.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::unistd::geteuid;

use crate::process::identity::user_name;

/// Whether a device such as `/dev/null` may be used instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    Accepted,
    Refused,
}

/// Opens a file for appending, and creates it with mode 0600 if there is none. It has to be a regular file of this
/// user, with one name, and not reached through a symbolic link.
pub(crate) fn open(path: &Path, devices: Devices) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => unfit("it is a symbolic link; give the file that it leads to"),
        Some(libc::ENXIO) => unfit("it is a pipe or a socket; give a regular file"),
        _ => error,
    })?;
    let facts = file.metadata()?;
    let kind = facts.file_type();
    match (kind.is_char_device(), devices) {
        (true, Devices::Accepted) => return Ok(file),
        (true, Devices::Refused) => return Err(unfit("it is a device; give a regular file")),
        (false, _) => {}
    }
    if !kind.is_file() {
        return Err(unfit("it is a pipe or a socket; give a regular file"));
    }
    if facts.uid() != geteuid().as_raw() {
        return Err(unfit(&format!(
            "it belongs to uid {}; remove it or give another",
            facts.uid()
        )));
    }
    if facts.nlink() != 1 {
        return Err(unfit("it has more than one name (hard links); remove it or give another"));
    }
    Ok(file)
}

/// Opens a file with these options and flags. In a directory where all users may make files, it follows a symbolic link
/// only of this user or of the directory's owner. The kernel has the same rule, but may have it switched
/// off (fs.protected_symlinks, proc_sys_fs(5)).
///
/// # Errors
/// Those of the system, and a link of another user.
pub fn open_behind_links(options: &mut OpenOptions, flags: i32, path: &Path) -> io::Result<File> {
    let opened = options.custom_flags(flags | libc::O_NOFOLLOW).open(path);
    // Of a link of another user in such a directory, the kernel may say EACCES instead of ELOOP.
    let is_of_link =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EACCES));
    let error = match opened {
        Err(error) if is_of_link(&error) => error,
        opened => return opened,
    };
    let Ok(link) = path.symlink_metadata() else { return Err(error) };
    if !link.is_symlink() {
        return Err(error);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or_else(|| Path::new(".")).metadata()?;
    if is_foreign_link(&link, &folder, geteuid().as_raw()) {
        let owner = user_name(link.uid());
        return Err(unfit(&format!(
            "it is a symbolic link of {owner} in a directory of all users"
        )));
    }
    options.custom_flags(flags).open(path)
}

/// Whether another user may have put the link into the folder to lead this user elsewhere.
fn is_foreign_link(link: &Metadata, folder: &Metadata, euid: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const BY_OTHERS: u32 = 0o022;
    let is_shared = folder.mode() & STICKY != 0 && folder.mode() & BY_OTHERS != 0;
    is_shared && link.uid() != euid && link.uid() != folder.uid()
}

fn unfit(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    /// Opens `name` in a directory of this mode, where `name` is a link of this user to `target`.
    fn through(mode: u32, owner: Option<u32>) -> (tempfile::TempDir, io::Result<File>) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "kept").unwrap();
        symlink(at("target"), at("link")).unwrap();
        if let Some(owner) = owner {
            lchown(at("link"), Some(owner), None).unwrap();
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let opened = open_behind_links(&mut options, libc::O_NONBLOCK, &at("link"));
        (folder, opened)
    }

    #[test]
    fn a_link_of_the_user_is_followed_in_every_directory() {
        for mode in [0o700, 0o1777] {
            let (folder, opened) = through(mode, None);
            opened.unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("target")).unwrap(), "new");
        }
    }

    #[test]
    fn a_link_of_another_user_in_a_directory_of_all_users_is_not_followed() {
        if !geteuid().is_root() {
            return;
        }
        let (folder, opened) = through(0o1777, Some(65_534));
        let said = opened.unwrap_err().to_string();
        assert_eq!(said, "it is a symbolic link of nobody in a directory of all users");
        assert_eq!(fs::read_to_string(folder.path().join("target")).unwrap(), "kept");
        assert!(through(0o755, Some(65_534)).1.is_ok(), "only this user makes files there");
    }
}
