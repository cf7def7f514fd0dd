//! Files and directories that clients have registered for removal at the end of the job.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pmix_proto::CleanUp;

/// Most paths that are kept.
const MAX_PATHS: usize = 16 * 1024;

/// The registered paths.
#[derive(Debug, Default)]
pub(super) struct CleanUps {
    registered: Vec<CleanUp>,
    paths: usize,
}

impl CleanUps {
    /// Keeps paths to remove. Whether there was room for them.
    pub(super) fn add(&mut self, clean_up: CleanUp) -> bool {
        let paths = clean_up.files.len() + clean_up.directories.len() + clean_up.ignored.len();
        if self.paths + paths > MAX_PATHS {
            return false;
        }
        // Ranks register the same shared file again and again.
        if !self.registered.contains(&clean_up) {
            self.paths += paths;
            self.registered.push(clean_up);
        }
        true
    }

    /// Removes what still exists. Libraries remove most of it themselves.
    pub(super) fn perform(self) {
        for clean_up in self.registered {
            for file in &clean_up.files {
                let _ = fs::remove_file(path(file));
            }
            for directory in &clean_up.directories {
                empty(path(directory), &clean_up);
                if !clean_up.keeps_top {
                    let _ = fs::remove_dir(path(directory));
                }
            }
        }
    }
}

/// Removes the contents of a directory, except for files with names that stay. Links are not followed.
fn empty(directory: &Path, clean_up: &CleanUp) {
    let is_directory = fs::symlink_metadata(directory).is_ok_and(|info| info.is_dir());
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|_| is_directory) {
        let name = entry.file_name();
        if clean_up.ignored.iter().any(|pattern| matches(pattern, name.as_bytes())) {
            continue;
        }
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_file(entry.path());
        } else if clean_up.is_recursive {
            empty(&entry.path(), clean_up);
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether a name fits a pattern, in which a star stands for any characters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((byte, rest)) => name.first() == Some(byte) && matches(rest, &name[1..]),
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_files_and_directories_are_removed_and_ignored_names_stay() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::create_dir_all(at("tree/below")).unwrap();
        for file in ["file", "other", "tree/a.log", "tree/b", "tree/below/c"] {
            fs::write(at(file), "").unwrap();
        }
        let bytes = |name: &str| at(name).into_os_string().into_encoded_bytes();
        let mut clean_ups = CleanUps::default();
        let files = CleanUp { files: vec![bytes("file"), bytes("none")], ..CleanUp::default() };
        assert!(clean_ups.add(files.clone()) && clean_ups.add(files));
        assert_eq!(clean_ups.paths, 2);
        assert!(clean_ups.add(CleanUp {
            directories: vec![bytes("tree")],
            is_recursive: true,
            ignored: vec![b"*.log".into()],
            ..CleanUp::default()
        }));
        clean_ups.perform();
        let left = |name: &str| at(name).exists();
        let names = ["file", "other", "tree/a.log", "tree/b", "tree/below"];
        assert_eq!(names.map(left), [false, true, true, false, false]);
    }

    #[test]
    fn more_paths_than_the_bound_are_refused() {
        let mut clean_ups = CleanUps::default();
        let many = vec![b"/f".to_vec(); MAX_PATHS];
        assert!(clean_ups.add(CleanUp { files: many, ..CleanUp::default() }));
        let one = CleanUp { files: vec![b"/g".into()], ..CleanUp::default() };
        assert!(!clean_ups.add(one));
    }
}
