//! The record of a job, with which its leftovers can be removed after the death of its manager. The
//! daemon writes the first line, and the manager adds notes. Each line is JSON.

use serde::{Deserialize, Serialize};

use mpd_wire::JobId;
use mpd_wire::job::{Bytes, Cookie, GroupKey};

/// Most bytes of a record with its notes. Further notes are not written.
pub const MAX_RECORD: usize = 16 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub job: JobId,
    /// See [`mpd_wire::message::StartJob::cookie`].
    pub cookie: Cookie,
    /// See [`mpd_wire::message::StartJob::tree_index`].
    pub tree_index: u32,
    /// Control group of the ranks.
    pub cgroup: Option<String>,
}

/// A further line: something that the manager made, or is about to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    Directory(MadeDirectory),
    /// The keys of the groups that run here.
    Groups(Vec<GroupKey>),
    /// A fact that proves which System V objects and files of shared memory are the job's.
    Leftovers(crate::Note),
    /// Files and directories that a program has registered for removal.
    Registered(Registered),
}

/// Files and directories that a program has registered for removal at the end of its job. All paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub files: Vec<Bytes>,
    pub directories: Vec<Bytes>,
    /// Whether directories inside the directories are removed too.
    pub is_recursive: bool,
    /// Patterns of names that stay; a star stands for any characters.
    pub ignored: Vec<Bytes>,
    /// Whether the directories themselves stay.
    pub keeps_top: bool,
    /// Directories that stay, also if they are registered: the home of the user, and directories of the job or above it.
    pub kept: Vec<Bytes>,
    /// When the job began, in microseconds since 1970. What was born before stays.
    pub since: u64,
}

/// A directory that only its maker removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeDirectory {
    /// The directory that contains it, which belongs to the user alone.
    pub parent: String,
    /// Its name there: random.
    pub name: String,
    /// Its device and inode; `None` while it is being made.
    pub identity: Option<(u64, u64)>,
}

/// Reads a record with its notes. A last line that is incomplete, or that a newer release wrote, is
/// left out. Its writer was killed while it wrote, or uses a newer format.
///
/// # Errors
/// When the first line is no record.
pub fn read_record(bytes: &[u8]) -> serde_json::Result<(JobRecord, Vec<Note>)> {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let record = serde_json::from_slice(lines.next().unwrap_or_default())?;
    Ok((record, lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_and_its_whole_notes_read_back() {
        let record = JobRecord {
            job: "7@h1".parse().unwrap(),
            cookie: Cookie::from_bytes([3; 16]),
            tree_index: 2,
            cgroup: None,
        };
        let directory = |identity| {
            let (parent, name) = ("/tmp/mpd-7".to_owned(), "ab".to_owned());
            Note::Directory(MadeDirectory { parent, name, identity })
        };
        let notes = [
            directory(None),
            directory(Some((1, u64::MAX))),
            Note::Groups(vec![GroupKey::new(1, 2)]),
            Note::Registered(Registered { files: vec![b"/\xff".into()], ..Registered::default() }),
        ];
        let mut bytes = serde_json::to_vec(&record).unwrap();
        for note in &notes {
            bytes.push(b'\n');
            bytes.extend(serde_json::to_vec(note).unwrap());
        }
        assert_eq!(read_record(&bytes).unwrap(), (record.clone(), notes.to_vec()));
        bytes.pop();
        assert_eq!(read_record(&bytes).unwrap(), (record, notes[..3].to_vec()));
        assert!(read_record(b"").is_err() && read_record(b"{}\n").is_err());
    }
}
