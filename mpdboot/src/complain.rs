//! Messages of `mpdboot` on standard error.

use std::io::Write as _;

/// Writes one line. Errors are ignored, since the reader may be gone.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "mpdboot: {}", mpd_io::files::logging::one_line(text));
}
