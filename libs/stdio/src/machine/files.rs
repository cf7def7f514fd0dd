//! The files for the output of ranks, at the root. Ranks whose patterns give one name share one file. A file
//! without writers is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mpd_wire::{Rank, Stream};

/// An output stream of a rank that goes to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    pub rank: Rank,
    pub stream: Stream,
    pub path: PathBuf,
    /// Permissions of the file if it is created.
    pub mode: u32,
    /// No other rank has this file, not even one that is spawned later.
    pub is_own: bool,
}

/// An open file.
#[derive(Debug)]
struct Open {
    sink: usize,
    /// Streams that go to the file and have not ended.
    users: u32,
}

/// The open files, and the streams that go to them.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: BTreeMap<PathBuf, Open>,
    routes: BTreeMap<(Rank, Stream), (usize, PathBuf)>,
    /// Shared files that this job has written to. Later output is appended. There are at most as many as hosts.
    begun: BTreeSet<PathBuf>,
}

impl Files {
    /// The sink of a rank's stream, if that is a file.
    pub(super) fn route(&self, rank: Rank, stream: Stream) -> Option<usize> {
        self.routes.get(&(rank, stream)).map(|(sink, _)| *sink)
    }

    /// The number of open files.
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// The sink of a file that is open.
    pub(super) fn sink_of(&self, path: &Path) -> Option<usize> {
        self.open.get(path).map(|open| open.sink)
    }

    /// Whether the file to be opened already contains output of this job.
    pub(super) fn is_begun(&self, path: &Path) -> bool {
        self.begun.contains(path)
    }

    /// Routes a stream to its file, whose sink is `sink`.
    pub(super) fn add(&mut self, wanted: &OutputFile, sink: usize) {
        let OutputFile { rank, stream, path, is_own, .. } = wanted;
        self.open.entry(path.clone()).or_insert(Open { sink, users: 0 }).users += 1;
        self.routes.insert((*rank, *stream), (sink, path.clone()));
        if !is_own {
            self.begun.insert(path.clone());
        }
    }

    /// Ends a stream. Returns the sink of its file, if the file has no more writers.
    pub(super) fn end(&mut self, rank: Rank, stream: Stream) -> Option<usize> {
        let (_, path) = self.routes.remove(&(rank, stream))?;
        let open = self.open.get_mut(&path)?;
        open.users -= 1;
        if open.users > 0 {
            return None;
        }
        self.open.remove(&path).map(|open| open.sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rank: u32, name: &str) -> OutputFile {
        let is_own = name.contains(&rank.to_string());
        OutputFile { rank: Rank(rank), stream: Stream::Out, path: name.into(), mode: 0, is_own }
    }

    #[test]
    fn a_file_is_closed_with_its_last_stream_and_a_shared_file_is_continued() {
        let mut files = Files::default();
        files.add(&wanted(3, "all"), 7);
        assert_eq!(files.sink_of(Path::new("all")), Some(7));
        files.add(&wanted(4, "all"), 7);
        files.add(&wanted(5, "own.5"), 8);
        let route = |files: &Files, rank| files.route(Rank(rank), Stream::Out);
        assert_eq!([3, 4, 5, 6].map(|rank| route(&files, rank)), [Some(7), Some(7), Some(8), None]);
        assert_eq!(files.route(Rank(3), Stream::Err), None);
        assert_eq!(files.end(Rank(3), Stream::Out), None);
        assert_eq!(files.end(Rank(3), Stream::Out), None, "it has ended already");
        assert_eq!(files.end(Rank(4), Stream::Out), Some(7));
        assert_eq!(files.end(Rank(5), Stream::Out), Some(8));
        assert_eq!((files.count(), files.routes.len()), (0, 0));
        assert!(files.is_begun(Path::new("all")) && !files.is_begun(Path::new("own.5")));
    }
}
