//! Which files take the output of which ranks, at the root. Ranks whose pattern gives one name have one file; a
//! file that nobody writes to any more is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mpd_wire::{Rank, Stream};

/// An output stream of a rank, for which a file is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) rank: Rank,
    pub(crate) stream: Stream,
    pub(crate) path: PathBuf,
    /// Permissions of the file if it is made.
    pub(crate) mode: u32,
    /// No other rank, not even one that is spawned later, has this file.
    pub(crate) is_own: bool,
}

/// An open file.
#[derive(Debug)]
struct Open {
    sink: usize,
    /// Streams that go there and have not ended.
    users: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Files {
    open: BTreeMap<PathBuf, Open>,
    routes: BTreeMap<(Rank, Stream), (usize, PathBuf)>,
    /// Files that are shared and were begun by this job: what comes later goes behind what is there. There are
    /// no more than hosts.
    begun: BTreeSet<PathBuf>,
}

impl Files {
    /// The sink that a stream of a rank goes to, if that is a file.
    pub(crate) fn route(&self, rank: Rank, stream: Stream) -> Option<usize> {
        self.routes.get(&(rank, stream)).map(|(sink, _)| *sink)
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// The sink of a file that is open.
    pub(crate) fn sink_of(&self, path: &Path) -> Option<usize> {
        self.open.get(path).map(|open| open.sink)
    }

    /// Whether a file of that name that is to be opened already holds output of this job.
    pub(crate) fn is_begun(&self, path: &Path) -> bool {
        self.begun.contains(path)
    }

    /// Has a stream go to its file, whose sink this is.
    pub(crate) fn add(&mut self, wanted: &Wanted, sink: usize) {
        let Wanted { rank, stream, path, is_own, .. } = wanted;
        self.open.entry(path.clone()).or_insert(Open { sink, users: 0 }).users += 1;
        self.routes.insert((*rank, *stream), (sink, path.clone()));
        if !is_own {
            self.begun.insert(path.clone());
        }
    }

    /// A stream has ended. The sink of its file, if nobody writes to it any more.
    pub(crate) fn end(&mut self, rank: Rank, stream: Stream) -> Option<usize> {
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

    fn wanted(rank: u32, name: &str) -> Wanted {
        let is_own = name.contains(&rank.to_string());
        Wanted { rank: Rank(rank), stream: Stream::Out, path: name.into(), mode: 0, is_own }
    }

    #[test]
    fn a_file_is_closed_with_its_last_stream_and_one_that_was_shared_goes_on() {
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
