//! Opens the outputs of the root: those of the console, and files.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use mpd_io::files::logging::plain;
use mpd_io::files::output::Output;
use mpd_io::files::own_file::open_behind_links;
use mpd_stdio::machine::OutputFile;

/// The outputs of the console: one if both are the same.
///
/// # Errors
/// What cannot be used and why.
pub(super) fn console([out, err]: [OwnedFd; 2]) -> Result<Vec<Output>, String> {
    let open = |fd, name| Output::new(fd).map_err(|e| format!("{name}: {}", plain(&e)));
    let (out, err) = (open(out, "standard output")?, open(err, "standard error")?);
    Ok(if out.is_same_as(&err) { vec![out] } else { vec![out, err] })
}

/// Creates or truncates a file. A file that contains output of this job is continued. Missing directories are made.
pub(super) fn create(wanted: &OutputFile, is_continued: bool) -> Result<Output, String> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).append(is_continued).truncate(!is_continued).mode(wanted.mode);
    // The opening of a pipe without a reader fails instead of blocking.
    let mut open = || open_behind_links(&mut options, libc::O_NONBLOCK, &wanted.path);
    let file = match (open(), wanted.path.parent()) {
        (Err(e), Some(parent)) if e.kind() == io::ErrorKind::NotFound => {
            // A directory that can be read can be entered.
            let mode = wanted.mode | (wanted.mode & 0o444) >> 2 | 0o100;
            let made = DirBuilder::new().recursive(true).mode(mode).create(parent);
            made.and_then(|()| open())
        }
        (opened, _) => opened,
    };
    file.and_then(|f| Output::new(f.into()))
        .map_err(|e| format!("{}: {}", wanted.path.display(), plain(&e)))
}
