//! Log lines with the process's role in front, to standard error or a file.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use env_logger::Builder;
use log::LevelFilter;
use nix::unistd::dup2_stderr;

/// Starts logging as `who` (`mpd h1`, `mpdman 3@h1`). `MPD_LOG` overrides `level`
/// (env_logger's syntax).
///
/// # Errors
/// When the file cannot be opened.
pub fn start(who: &str, level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let who = format!("{who}[{}]", std::process::id());
    let mut builder = Builder::new();
    builder.filter_level(level).parse_env("MPD_LOG");
    builder.format(move |out, record| {
        let text = one_line(&record.args().to_string());
        writeln!(out, "{} {who} {}: {text}", out.timestamp_millis(), record.level())
    });
    if let Some(path) = file {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        // Managers and helpers inherit it, and a panic is not lost.
        dup2_stderr(&file)?;
    }
    builder.init();
    Ok(())
}

/// The system's words, without Rust's "(os error N)" behind them, which tells people nothing.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Text from elsewhere made safe for a terminal and a line: control characters are escaped.
pub fn one_line(text: &str) -> String {
    let plain = |c: char| !c.is_control();
    if text.chars().all(plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_forge_lines_or_drive_terminals() {
        assert_eq!(one_line("a\nFAKE\u{1b}]0;\u{9b}x"), "a\\nFAKE\\u{1b}]0;\\u{9b}x");
        assert_eq!(one_line("grüße"), "grüße");
    }
}
