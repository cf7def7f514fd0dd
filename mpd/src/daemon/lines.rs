//! Writes lines of the log that pure code decides.

use mpd_jobtable::{Level, Line};

/// Writes a line of the log.
pub(crate) fn write(line: &Line) {
    let level = match line.level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::log!(level, "{}", line.text);
}

/// Writes lines of the log.
pub(crate) fn write_all(lines: impl IntoIterator<Item = Line>) {
    lines.into_iter().for_each(|line| write(&line));
}
