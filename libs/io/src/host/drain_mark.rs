//! The mark by which root drains this host for the daemons of all users: `/run/mpd-suite.drain`.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::time::Duration;

use mpd_sansio::Time;

/// The file, in a directory where only root can make files.
pub const PATH: &str = "/run/mpd-suite.drain";

/// The content of a mark that counts only while a session is active at this host.
pub const WHILE_ACTIVE: &str = "while-active\n";

/// The seats of this host, as systemd-logind keeps them for `sd_seat_get_active` (sd_seat_is_active(3)).
const SEATS: &str = "/run/systemd/seats";

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// What a daemon knows of the mark.
#[derive(Debug, Default)]
pub struct DrainMark {
    next: Time,
    is_set: bool,
}

impl DrainMark {
    /// Looks at the mark, if it is time; whether the host is drained now, if that has changed.
    pub fn look(&mut self, now: Time) -> Option<bool> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        let is_set = match is_set() {
            // This process lacks something. It looks again later.
            Err(error) if is_scarce(&error) => return None,
            // A mark that cannot be read is one.
            found => found.unwrap_or(true),
        };
        (is_set != std::mem::replace(&mut self.is_set, is_set)).then_some(is_set)
    }
}

fn is_scarce(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Whether root has drained this host.
///
/// # Errors
/// The mark cannot be read, or it counts only while a session is active here and that is unknown.
pub fn is_set() -> io::Result<bool> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let open = fs::OpenOptions::new().read(true).custom_flags(flags).open(PATH);
    let mut file = match open {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    if file.metadata()?.uid() != 0 {
        return Ok(false);
    }
    let mut text = String::new();
    file.by_ref().take(64).read_to_string(&mut text)?;
    if text == WHILE_ACTIVE { is_active() } else { Ok(true) }
}

/// Whether a session of a user is active at a seat of this host.
///
/// # Errors
/// systemd-logind does not run here.
pub fn is_active() -> io::Result<bool> {
    for entry in fs::read_dir(SEATS)? {
        let text = fs::read_to_string(entry?.path())?;
        let mut active = text.lines().filter_map(|line| line.strip_prefix("ACTIVE="));
        if active.any(|session| !session.is_empty() && is_of_user(session)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a session is more than a login screen. An unreadable session counts.
fn is_of_user(session: &str) -> bool {
    let text = fs::read_to_string(format!("/run/systemd/sessions/{session}"));
    text.map_or(true, |text| !text.lines().any(|line| line == "CLASS=greeter"))
}
