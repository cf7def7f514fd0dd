//! Log lines with the process's role in front, to standard error or a file.

use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;

use env_logger::Builder;
use log::LevelFilter;
use nix::unistd::dup2_stderr;

use crate::ownfile::{self, Devices};

/// Starts logging; each line begins with `role` (`mpd h1`, `mpdman 3@h1`) and the process id. `MPD_LOG` overrides
/// `level` with a filter in the syntax of env_logger.
///
/// # Errors
/// The file cannot be opened, or is neither a character device nor a regular file of this user with one name.
pub fn start(role: &str, level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let role = format!("{role}[{}]", std::process::id());
    let mut builder = Builder::new();
    builder.filter_level(level).parse_env("MPD_LOG");
    builder.format(move |out, record| {
        let text = one_line(&record.args().to_string());
        writeln!(out, "{} {role} {}: {text}", out.timestamp_millis(), record.level())
    });
    if let Some(path) = file {
        let file = ownfile::open(path, Devices::Accepted)?;
        // Managers and helper processes inherit it, and the message of a panic is kept.
        dup2_stderr(&file)?;
    }
    builder.init();
    Ok(())
}

/// The system's text without the suffix "(os error N)" that Rust appends.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Text from elsewhere, made safe for a terminal and a single line: characters that are not [plain](is_plain) are
/// escaped.
pub fn one_line(text: &str) -> String {
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// Whether a character has no effect but its own display. Not plain are control characters, separators of lines and
/// paragraphs, marks of text direction, and invisible characters.
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
    use std::fs::File;

    use super::*;

    fn open_log(path: &Path) -> io::Result<File> {
        ownfile::open(path, Devices::Accepted)
    }

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
    fn a_log_file_belongs_to_its_user_has_one_name_and_is_reached_without_a_link() {
        let directory = std::env::temp_dir().join(format!("mpd-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        writeln!(open_log(&at("log")).unwrap(), "one").unwrap();
        writeln!(open_log(&at("log")).unwrap(), "two").unwrap();
        assert_eq!(std::fs::read_to_string(at("log")).unwrap(), "one\ntwo\n");
        std::os::unix::fs::symlink(at("log"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(at("twice"), "").unwrap();
        std::fs::hard_link(at("twice"), at("again")).unwrap();
        for (name, why) in
            [("link", "symbolic link"), ("pipe", "pipe or a socket"), ("again", "hard links")]
        {
            let problem = open_log(&at(name)).unwrap_err().to_string();
            assert!(problem.contains(why), "{name}: {problem}");
        }
        assert_eq!(std::fs::read_to_string(at("log")).unwrap(), "one\ntwo\n");
        open_log(Path::new("/dev/null")).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
