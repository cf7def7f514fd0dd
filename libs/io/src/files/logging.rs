//! Log lines with the process's role in front, to standard error or a file.

use std::io::{self, Write as _};
use std::path::Path;

use env_logger::Builder;
use log::LevelFilter;
pub use mpd_wire::{is_plain, one_line};
use nix::unistd::dup2_stderr;

use crate::files::own_file::{self, Devices};

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
        let file = own_file::open(path, Devices::Accepted)?;
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn open_log(path: &Path) -> io::Result<File> {
        own_file::open(path, Devices::Accepted)
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
