//! What a job leaves besides processes: its private directory, System V objects, shared memory.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use mpd_io::ipc::{Baseline, sweep_groups};
use mpd_io::shm::ShmWatch;
use mpd_io::tree;
use mpd_proto::placement::GroupKey;
use nix::unistd::Pid;

use crate::sweep::remove_directory;

/// Process ids remembered of one job; beyond, System V objects of the further ones stay.
const MAX_PIDS: usize = 1 << 17;

/// Notes during the job, removal at its end.
#[derive(Debug)]
pub(crate) struct Tidy {
    pub(crate) directory: Option<PathBuf>,
    baseline: Baseline,
    pub(crate) shm: ShmWatch,
    pids: BTreeSet<u32>,
    /// Of the groups that run here.
    groups: BTreeSet<GroupKey>,
}

impl Tidy {
    /// Makes the job's directory, closed to others, and notes what exists before the job.
    pub(crate) fn start(directory: PathBuf, groups: BTreeSet<GroupKey>) -> (Self, io::Result<()>) {
        let made = DirBuilder::new().mode(0o700).create(&directory);
        let directory = made.is_ok().then_some(directory);
        let shm = ShmWatch::start();
        (Self { directory, baseline: Baseline::take(), shm, pids: BTreeSet::new(), groups }, made)
    }

    /// A process of the job.
    pub(crate) fn remember(&mut self, pid: Pid) {
        if self.pids.len() < MAX_PIDS {
            self.pids.insert(pid.as_raw().unsigned_abs());
        }
    }

    /// Notes what the processes that live now are. Call before they are killed.
    pub(crate) fn note(&mut self) {
        for pid in tree::descendants() {
            self.remember(pid);
        }
    }

    /// Removes everything but files of shared memory that somebody uses, all of them if it is not known which those
    /// are. Call when no process of the job lives.
    pub(crate) fn remove(&self, in_use: Option<&BTreeSet<u64>>) {
        self.baseline.sweep(&self.pids);
        if let Some(in_use) = in_use {
            self.shm.sweep(in_use);
        }
        sweep_groups(&self.groups);
        if let Some(directory) = &self.directory {
            remove_directory(directory);
        }
    }
}
