//! Files that a daemon or manager writes for its user, at a path that another user may have
//! prepared.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::unistd::geteuid;

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

fn unfit(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}
