//! Programs on their way to hosts that lack them (`-preload`), before anything else is checked.
//!
//! The root reads its copy of each program and sends the digests down the tree. A host that has a program with that
//! content at the usual path uses it. Another host requests the file from its parent. The parent sends it in pieces
//! from its own copy, also while that copy is still arriving. Only a bounded amount per link is in memory. A
//! received file is in the job's directory and is removed with it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::files::digest::{Hasher, Hashing};
use mpd_io::files::logging::plain;
use mpd_sansio::Time;
use mpd_wire::job::{Digest, Failure};
use mpd_wire::message::JobNews;

/// Bytes of a file in one frame. Small frames let commands overtake.
const PIECE: usize = 32 * 1024;

/// The time between two reports to the user.
const REPORTS: Duration = Duration::from_millis(100);

/// The subdirectory of the job's directory with received programs.
pub(super) const DIRECTORY: &str = "preload";

/// The programs on their way.
#[derive(Debug, Default)]
pub(in crate::manager) struct Staging {
    pub(super) files: Vec<Staged>,
    /// The index of the file of each argset of the whole job.
    pub(super) of_argset: BTreeMap<usize, usize>,
    /// Argsets whose programs on this host are still to be read: all at the root, candidates on other hosts.
    pub(super) unread: VecDeque<usize>,
    pub(super) reading: Option<Reading>,
    /// The list from the parent is complete.
    pub(super) listed: bool,
    /// The programs of this host are known, and reported to other hosts.
    pub(super) read: bool,
    /// The file from the parent that is being written.
    pub(super) writing: Option<Writing>,
    /// The files that children wait for, in order, and how much of the first file has been sent.
    pub(super) senders: BTreeMap<usize, Sender>,
    /// Everything that this host needs has arrived.
    pub(super) complete: bool,
    /// What is sent to the children.
    pub(super) progress: Progress,
}

/// The progress of the sending, for the user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) sent: u64,
    pub(super) bytes: u64,
    /// The last report, and the sent bytes in it.
    reported: Option<(Time, u64)>,
}

/// A program, by its content and name.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
    /// The path on this host.
    pub(super) path: PathBuf,
    /// How many bytes of the file this host has.
    pub(super) available: u64,
    /// The file is needed in this subtree and has not arrived completely.
    pub(super) lacking: bool,
}

/// A file of this host that is read for its digest.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) argset: usize,
    pub(super) path: PathBuf,
    pub(super) hashing: Hashing,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) index: usize,
    pub(super) file: File,
    pub(super) hasher: Hasher,
}

#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) queue: VecDeque<usize>,
    pub(super) open: Option<File>,
    pub(super) sent: u64,
}

impl Staging {
    /// The path of an argset's program, if it is not the usual path of the job.
    pub(in crate::manager) fn path_of(
        &self,
        argset: usize,
        tmpdir: Option<&Path>,
    ) -> Option<&Path> {
        let file = self.files.get(*self.of_argset.get(&argset)?)?;
        tmpdir.filter(|tmpdir| file.path.starts_with(tmpdir.join(DIRECTORY))).map(|_| &*file.path)
    }

    /// The index of the file with this content and name; adds it if it is new.
    pub(super) fn insert(
        &mut self,
        argset: usize,
        digest: Digest,
        bytes: u64,
        path: PathBuf,
    ) -> usize {
        let same =
            |file: &Staged| file.digest == digest && file.path.file_name() == path.file_name();
        let known = self.files.iter().position(same);
        let index = known.unwrap_or(self.files.len());
        if known.is_none() {
            let staged = Staged { digest, bytes, path, available: 0, lacking: false };
            self.files.push(staged);
        }
        self.of_argset.insert(argset, index);
        index
    }

    /// The next piece for a child, if this host has it.
    pub(super) fn next_piece(
        &mut self,
        tree_index: usize,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, usize)>> {
        let Some(sender) = self.senders.get_mut(&tree_index) else { return Ok(None) };
        loop {
            let Some(&index) = sender.queue.front() else { return Ok(None) };
            let staged = &self.files[index];
            if sender.sent == staged.bytes {
                sender.queue.pop_front();
                (sender.open, sender.sent) = (None, 0);
                continue;
            }
            let most = usize::try_from(staged.available - sender.sent).unwrap_or(PIECE).min(PIECE);
            if most == 0 {
                return Ok(None);
            }
            let file = match &mut sender.open {
                Some(file) => file,
                none => none.insert(File::open(&staged.path)?),
            };
            let n = file.read_at(&mut buffer[..most], sender.sent)?;
            if n == 0 {
                return Err(io::Error::other("it became shorter while it was read"));
            }
            sender.sent += n as u64;
            self.progress.sent += n as u64;
            return Ok(Some((index, n)));
        }
    }

    /// Stops sending to a child that is lost.
    pub(super) fn stop_sending(&mut self, tree_index: usize) {
        self.senders.remove(&tree_index);
    }

    pub(super) fn has_piece(&self, sender: &Sender) -> bool {
        sender.queue.front().is_some_and(|&index| {
            let staged = &self.files[index];
            sender.sent < staged.available || sender.sent == staged.bytes
        })
    }

    /// The next report about the sending, if one is due.
    pub(super) fn report(&mut self, now: Time) -> Option<JobNews> {
        let Progress { sent, bytes, reported } = self.progress;
        let is_due = match reported {
            None => bytes > 0,
            Some((at, earlier)) => sent != earlier && (sent == bytes || now >= at + REPORTS),
        };
        if !is_due {
            return None;
        }
        self.progress.reported = Some((now, sent));
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let done = self.senders.values().filter(|sender| sender.queue.is_empty()).count();
        Some(JobNews::Staging {
            sent,
            bytes,
            done: number(done),
            hosts: number(self.senders.len()),
        })
    }

    pub(super) fn has_all_files(&self) -> bool {
        self.read && !self.files.iter().any(|file| file.lacking)
    }
}

impl Staging {
    /// Writes a piece of a lacking file. A piece of any other file is ignored.
    pub(super) fn write(&mut self, index: usize, piece: &[u8]) -> Result<(), Failure> {
        let Some(staged) = self.files.get_mut(index).filter(|file| file.lacking) else {
            return Ok(());
        };
        let problem = |e: &io::Error| cannot_write(&staged.path, e);
        let writing = match &mut self.writing {
            Some(writing) if writing.index == index => writing,
            other => {
                let file = OpenOptions::new().write(true).open(&staged.path);
                let file = file.map_err(|e| problem(&e))?;
                other.insert(Writing { index, file, hasher: Hasher::default() })
            }
        };
        writing.file.write_all(piece).map_err(|e| problem(&e))?;
        writing.hasher.update(piece);
        staged.available = writing.hasher.bytes();
        if staged.available < staged.bytes {
            return Ok(());
        }
        staged.lacking = false;
        // The file is closed now, since a file that is open for writing cannot be executed.
        let hasher = self.writing.take().map(|writing| writing.hasher);
        if staged.available > staged.bytes || hasher.map(Hasher::finish) != Some(staged.digest) {
            let path = staged.path.display();
            let problem = format!("{path}: the program changed while it was being preloaded");
            return Err(Failure::Suite { problem });
        }
        Ok(())
    }
}

/// Creates an empty file that its owner may execute, in a directory of its own.
pub(super) fn create(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o700).open(path).map(drop)
}

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Suite { problem: format!("cannot write {}: {}", path.display(), plain(error)) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn digest_of(content: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.finish()
    }

    /// Two managers; the second lacks a file of the first.
    fn pair(directory: &Path, content: &[u8], digest: Digest) -> (Staging, Staging) {
        let source = directory.join("source");
        fs::write(&source, content).unwrap();
        let bytes = content.len() as u64;
        let staged = |path, available, lacking| Staged { digest, bytes, path, available, lacking };
        let mut parent = Staging::default();
        parent.files.push(staged(source, bytes, false));
        parent.senders.entry(1).or_default().queue.push_back(0);
        let mut child = Staging { read: true, ..Staging::default() };
        let here = directory.join("new/here");
        create(&here).unwrap();
        child.files.push(staged(here, 0, true));
        (parent, child)
    }

    #[test]
    fn a_file_travels_piece_by_piece_and_is_the_same_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let (mut parent, mut child) = pair(directory.path(), &content, digest_of(&content));
        let mut buffer = vec![0; PIECE];
        while let Some((index, n)) = parent.next_piece(1, &mut buffer).unwrap() {
            assert!(!child.has_all_files());
            child.write(index, &buffer[..n]).unwrap();
        }
        assert!(child.has_all_files() && !parent.has_piece(&parent.senders[&1]));
        assert_eq!(fs::read(&child.files[0].path).unwrap(), content);
        child.write(0, b"more").unwrap();
        assert_eq!(
            fs::read(&child.files[0].path).unwrap(),
            content,
            "a piece that was not requested"
        );
    }

    #[test]
    fn reports_come_at_once_then_after_a_while_and_when_all_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let content = vec![1; 3 * PIECE];
        let (mut parent, _) = pair(directory.path(), &content, digest_of(&content));
        let at = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
        let mut buffer = vec![0; PIECE];
        assert_eq!(parent.report(at(0)), None, "nobody has asked for a file yet");
        parent.progress.bytes = content.len() as u64;
        let news = |sent: usize, done| {
            let (sent, bytes) = (sent as u64, content.len() as u64);
            Some(JobNews::Staging { sent, bytes, done, hosts: 1 })
        };
        assert_eq!(parent.report(at(0)), news(0, 0));
        parent.next_piece(1, &mut buffer).unwrap();
        assert_eq!(parent.report(at(99)), None);
        assert_eq!(parent.report(at(100)), news(PIECE, 0));
        assert_eq!(parent.report(at(500)), None, "nothing has changed");
        parent.next_piece(1, &mut buffer).unwrap();
        parent.next_piece(1, &mut buffer).unwrap();
        parent.next_piece(1, &mut buffer).unwrap();
        assert_eq!(parent.report(at(501)), news(3 * PIECE, 1));
    }

    #[test]
    fn a_manager_in_the_middle_sends_only_what_has_arrived() {
        let directory = tempfile::tempdir().unwrap();
        let (mut parent, _) = pair(directory.path(), &[7; 1000], digest_of(&[7; 1000]));
        parent.files[0].available = 300;
        let mut buffer = vec![0; PIECE];
        assert_eq!(parent.next_piece(1, &mut buffer).unwrap(), Some((0, 300)));
        assert_eq!(parent.next_piece(1, &mut buffer).unwrap(), None);
        parent.files[0].available = 1000;
        assert_eq!(parent.next_piece(1, &mut buffer).unwrap(), Some((0, 700)));
    }

    #[test]
    fn a_file_with_another_digest_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mut parent, mut child) = pair(directory.path(), b"other", digest_of(b"wanted"));
        let refused = child.write(0, b"other").unwrap_err();
        assert!(refused.to_string().contains("changed"), "{refused}");
        fs::write(&parent.files[0].path, b"").unwrap();
        assert!(parent.next_piece(1, &mut [0; 9]).is_err(), "it became shorter");
    }
}
