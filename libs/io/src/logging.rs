//! Log lines with the process's role in front, to standard error or a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::Path;

use env_logger::Builder;
use log::LevelFilter;
use nix::unistd::{dup2_stderr, geteuid};

/// Starts logging as `who` (`mpd h1`, `mpdman 3@h1`). `MPD_LOG` overrides `level`
/// (env_logger's syntax).
///
/// # Errors
/// When the file cannot be opened, or is not an own regular file with one name or a character device.
pub fn start(who: &str, level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let who = format!("{who}[{}]", std::process::id());
    let mut builder = Builder::new();
    builder.filter_level(level).parse_env("MPD_LOG");
    builder.format(move |out, record| {
        let text = one_line(&record.args().to_string());
        writeln!(out, "{} {who} {}: {text}", out.timestamp_millis(), record.level())
    });
    if let Some(path) = file {
        let file = open(path)?;
        // Managers and helpers inherit it, and a panic is not lost.
        dup2_stderr(&file)?;
    }
    builder.init();
    Ok(())
}

/// Opens the file of a log. Another user may have prepared its place, so it has to be a regular file of this
/// user, with one name, that no symbolic link leads to. A device such as `/dev/null` will do.
fn open(path: &Path) -> io::Result<File> {
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
    if std::os::unix::fs::FileTypeExt::is_char_device(&kind) {
        return Ok(file);
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

/// The system's words, without Rust's "(os error N)" behind them, which tells people nothing.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Text from elsewhere made safe for a terminal and a line: what is not [plain](is_plain) is escaped.
pub fn one_line(text: &str) -> String {
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// Whether a character only shows itself: it is no control character, separates no lines or paragraphs,
/// turns no text around, and is not invisible.
pub fn is_plain(c: char) -> bool {
    !c.is_control() && !FORMATS.iter().any(|range| range.contains(&c))
}

/// The characters of the categories Cf, Zl and Zp of Unicode 16, and fillers that have no width.
const FORMATS: [RangeInclusive<char>; 26] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    // Zero width, directions; separators, embeddings and overrides; joiners and isolates.
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e00ff}',
    '\u{e0100}'..='\u{e01ef}',
    '\u{e01f0}'..='\u{e0fff}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_forge_lines_or_drive_terminals() {
        assert_eq!(one_line("a\nFAKE\u{1b}]0;\u{9b}x"), "a\\nFAKE\\u{1b}]0;\\u{9b}x");
        assert_eq!(one_line("grüße"), "grüße");
    }

    #[test]
    fn characters_that_turn_text_around_break_lines_or_are_invisible_are_escaped() {
        let evil = "a\u{202e}txt\u{2028}\u{2029}\u{200b}\u{2066}\u{feff}\u{ad}\u{e0041}z";
        let escaped = r"a\u{202e}txt\u{2028}\u{2029}\u{200b}\u{2066}\u{feff}\u{ad}\u{e0041}z";
        assert_eq!(one_line(evil), escaped);
        for plain in ["ä ж 漢 عربى שלום हिन्दी", "🙂 ½ €\u{301}"] {
            assert_eq!(one_line(plain), plain);
        }
        assert!(FORMATS.is_sorted_by(|a, b| a.end() < b.start()));
    }

    #[test]
    fn a_log_is_a_file_of_its_user_with_one_name_and_no_link_leads_to_it() {
        let directory = std::env::temp_dir().join(format!("mpd-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        writeln!(open(&at("log")).unwrap(), "one").unwrap();
        writeln!(open(&at("log")).unwrap(), "two").unwrap();
        assert_eq!(std::fs::read_to_string(at("log")).unwrap(), "one\ntwo\n");
        std::os::unix::fs::symlink(at("log"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(at("twice"), "").unwrap();
        std::fs::hard_link(at("twice"), at("again")).unwrap();
        for (name, why) in
            [("link", "symbolic link"), ("pipe", "pipe or a socket"), ("again", "hard links")]
        {
            let problem = open(&at(name)).unwrap_err().to_string();
            assert!(problem.contains(why), "{name}: {problem}");
        }
        assert_eq!(std::fs::read_to_string(at("log")).unwrap(), "one\ntwo\n");
        open(Path::new("/dev/null")).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
