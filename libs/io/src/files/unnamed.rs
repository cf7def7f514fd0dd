//! Files without a name, which end with their last descriptor. They are in memory, or in a directory for temporary files
//! if a filter of system calls refuses `memfd_create`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Directories for such files. The first one is in memory, too.
const DIRECTORIES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Makes an empty file, which only this process and those that get its descriptor can use. Tools show `name`.
///
/// # Errors
/// The system's.
pub fn file(name: &CStr) -> io::Result<File> {
    memfd_create(name, MFdFlags::MFD_CLOEXEC)
        .map(File::from)
        .or_else(|error| in_directories(&DIRECTORIES).ok_or_else(|| error.into()))
}

fn in_directories(directories: &[&str]) -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    directories.iter().find_map(|directory| options.open(directory).ok())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_file_in_memory_or_in_a_directory_has_no_name_and_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let on_disk = in_directories(&["/nonexistent", path]).unwrap();
        for mut file in [file(c"x").unwrap(), on_disk] {
            file.write_all(b"text").unwrap();
            file.rewind().unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
        assert!(in_directories(&["/nonexistent"]).is_none());
    }
}
