//! The file of a recording.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mpd_recording::Sink;

use crate::files::logging::plain;
use crate::files::own_file::{self, Devices};

/// A regular file of this user with mode 0600. Each line is one write. The first write that fails
/// ends the recording with one line in the log.
#[derive(Debug)]
pub struct RecordingFile {
    file: File,
    path: PathBuf,
}

impl RecordingFile {
    /// Creates the file, or empties an existing one of this user.
    ///
    /// # Errors
    /// The file cannot be created, or is no regular file of this user with one name.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = own_file::open(path, Devices::Refused)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Sink for RecordingFile {
    fn append(&mut self, line: &[u8]) -> bool {
        match self.file.write_all(line) {
            Ok(()) => true,
            Err(error) => {
                let path = self.path.display();
                log::warn!("the recording {path} ends here: {}", plain(&error));
                false
            }
        }
    }

    fn stopped(&mut self, why: &str) {
        log::warn!("the recording {} ends here: {why}", self.path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_recording_is_a_private_file_of_its_user_that_is_emptied_at_each_start() {
        let directory = std::env::temp_dir().join(format!("mpd-recording-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        fs::write(at("old"), "an old recording\n").unwrap();
        fs::set_permissions(at("old"), Permissions::from_mode(0o644)).unwrap();
        for name in ["old", "new"] {
            assert!(RecordingFile::create(&at(name)).unwrap().append(b"one\n"));
            assert_eq!((fs::read(at(name)).unwrap(), mode(&at(name))), (b"one\n".to_vec(), 0o600));
        }
        std::os::unix::fs::symlink(at("old"), at("link")).unwrap();
        fs::hard_link(at("new"), at("again")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (name, why) in [("link", "symbolic link"), ("again", "hard links"), ("pipe", "pipe")] {
            let problem = RecordingFile::create(&at(name)).unwrap_err().to_string();
            assert!(problem.contains(why), "{name}: {problem}");
        }
        let problem = RecordingFile::create(Path::new("/dev/full")).unwrap_err().to_string();
        assert!(problem.contains("device"), "{problem}");
        assert_eq!(fs::read(at("old")).unwrap(), b"one\n");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_full_disk_ends_the_recording() {
        let path = Path::new("/dev/full");
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let mut full = RecordingFile { file, path: path.to_owned() };
        assert!(!full.append(b"one\n"));
    }
}
