//! Searches for programs on this host.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The path of `program` in the directories of `PATH`.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places.find(|place| is_executable(place))
}

/// Whether this is a file that at least one user may execute.
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
