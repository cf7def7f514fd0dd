//! The removal of a directory that the manager has made.

use mpd_io::clean_up::job_directory::JobDirectory;

/// Removes a directory with its content, or logs why that is impossible.
pub(super) fn remove(made: &JobDirectory) {
    if let Err(e) = made.remove() {
        log::warn!("cannot remove {}: {e}", made.path().display());
    }
}
