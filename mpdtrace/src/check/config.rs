//! `mpdcheck -pc`: the configuration that the resolution of host names depends on, for bug reports.

use std::fmt::Write as _;
use std::time::Duration;

use mpd_io::files::logging::one_line;

use crate::remote;

const PATIENCE: Duration = Duration::from_secs(8);

const COMMANDS: [&[&str]; 4] =
    [&["hostname"], &["hostname", "-f"], &["uname", "-a"], &["ip", "-brief", "address"]];

const FILES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"];

/// Largest number of bytes shown of a file.
const MAX_FILE: usize = 64 * 1024;

/// The name and the text of each source.
pub fn sources() -> Vec<(String, String)> {
    let commands = COMMANDS.iter().map(|arguments| {
        let line: Vec<String> = arguments.iter().map(|w| (*w).to_owned()).collect();
        let output = remote::run(&line, PATIENCE).map(|ended| ended.out + &ended.err);
        (line.join(" "), output.unwrap_or_else(|problem| problem))
    });
    let files = FILES.iter().map(|path| {
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FILE)]).into_owned(),
            Err(error) => error.to_string(),
        };
        ((*path).to_owned(), text)
    });
    commands.chain(files).collect()
}

/// The sources as text for people.
pub fn text(sources: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, content) in sources {
        let _ = writeln!(text, "--- {name}");
        for line in content.lines() {
            // Tabs are the only control characters that are expected in these files.
            let safe: Vec<String> = line.split('\t').map(one_line).collect();
            let _ = writeln!(text, "{}", safe.join("\t"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_follows_its_name_and_terminal_codes_are_escaped() {
        let sources = [("/etc/hosts".to_owned(), "1.2.3.4\th\u{1b}[1m\n".to_owned())];
        assert_eq!(text(&sources), "--- /etc/hosts\n1.2.3.4\th\\u{1b}[1m\n");
    }
}
