//! Objects that a job leaves besides processes, and the decision which of them its manager removes.
//!
//! **Purpose.** System V objects and files in `/dev/shm` outlive their makers, and the kernel does not record
//! their job. The manager therefore takes [`Note`]s: the processes of the job and their lifetimes,
//! the objects that existed before, the files that the job was the first to use. [`Known`] is their
//! sum. It judges each object: an object is removed only if the notes prove that it is the job's. In
//! doubt it is kept, with a [`Reason`].
//!
//! The notes are also written to the job's record. After the death of the manager, a daemon's helper
//! judges by them.
//!
//! **Users.** The manager process in `mpd`, the helper that removes leftovers, and `mpd-io`, which reads the objects.
//!
//! **Must not know.** System calls and `/proc`; the life of the job (`mpd-job`).
//!
//! | module | subject |
//! |---|---|
//! | `objects` | the System V objects, and the decision about each |
//! | `lifetimes` | when each process of the job lived |
//! | [`record`] | a daemon's record of a job on disk, in case its manager dies |
#![forbid(unsafe_code)]

mod lifetimes;
mod objects;
pub mod record;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::lifetimes::{Lifetime, Reading};
use self::lifetimes::{Lifetimes, Offset};
pub use self::objects::{Kept, Kind, Object, Reason, State, Use};

/// Most files of one job. Further files are kept.
pub const MAX_FILES: usize = 1 << 15;

/// The ids of the System V objects that existed before the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Shared memory segments.
    pub memory: BTreeSet<i32>,
    /// Semaphore sets.
    pub semaphores: BTreeSet<i32>,
    /// Message queues.
    pub messages: BTreeSet<i32>,
}

/// A file, independent of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// Its file system.
    pub device: u64,
    /// Its number in the file system.
    pub inode: u64,
    /// Nanoseconds from 1970 to its creation, if the file system records that. An inode can be
    /// reused.
    pub born: Option<u64>,
}

/// A fact that the manager noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The job begins. This is always the first note.
    Began(Before),
    /// A reading of the clocks.
    Clock(Offset),
    /// A process of the job lives, or is about to be reaped.
    Process(Lifetime),
    /// A process of the job was the first known user of this file, or its name is that of the job.
    File(FileId),
}

/// All notes of one job on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    before: Before,
    lifetimes: Lifetimes,
    clock: Option<Offset>,
    files: BTreeSet<FileId>,
}

impl Known {
    /// The sum of these notes. The last ones may be missing if their writer was killed. `None`
    /// without the first note.
    pub fn of(notes: impl IntoIterator<Item = Note>) -> Option<Self> {
        let mut notes = notes.into_iter();
        let first = notes.next().filter(|note| matches!(note, Note::Began(_)))?;
        let mut known = Self::default();
        known.add(first);
        for note in notes {
            known.add(note);
        }
        Some(known)
    }

    /// Adds a note. Returns whether it is new and must be written.
    pub fn add(&mut self, note: Note) -> bool {
        match note {
            Note::Began(before) => {
                self.before = before;
                true
            }
            Note::Clock(offset) => {
                let Some(known) = &mut self.clock else {
                    self.clock = Some(offset);
                    return true;
                };
                let before = *known;
                known.widen(offset);
                known.is_much_wider_than(before)
            }
            Note::Process(lifetime) => self.lifetimes.add(lifetime),
            Note::File(file) => self.files.len() < MAX_FILES && self.files.insert(file),
        }
    }

    /// The processes that were not reaped: number and beginning.
    pub fn unreaped(&self) -> impl Iterator<Item = (u32, u64)> {
        self.lifetimes.unreaped()
    }

    /// Extends the lives of unreaped processes: those for which `lived` is true had their number
    /// until `now`.
    pub fn prolong(&mut self, now: u64, lived: impl Fn(u32, u64) -> bool) {
        self.lifetimes.prolong(now, lived);
    }

    /// Files that the job was the first to use.
    pub const fn files(&self) -> &BTreeSet<FileId> {
        &self.files
    }
}

#[cfg(test)]
mod tests;
