//! One job of this host: its entry in the table, and what its manager gets.

use std::fs::File;
use std::os::fd::BorrowedFd;

use mpd_leftovers::record::JobRecord;
use mpd_wire::job::{JobKey, Notice};
use mpd_wire::message::{RankRun, Span, SpawnState};
use mpd_wire::{Instance, RankSet};
use nix::unistd::Pid;

use crate::daemon::jobs::top::Written;

/// A job with a manager on this host.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) record: JobRecord,
    /// The file of the record. The manager adds its notes to it.
    pub(super) file: File,
    /// `None` for a job of an earlier daemon whose manager has not registered yet.
    pub(super) part: Option<Part>,
    /// Whether the manager is connected.
    pub(super) connected: bool,
    /// `None` for a job of an earlier daemon whose manager has not registered yet.
    pub(super) manager: Option<Pid>,
    /// The alias that the user gave the job, as its manager reports.
    pub(super) alias: Option<String>,
    /// Whether an allocation holds the slots of its ranks.
    pub(super) held: bool,
    pub(super) runs: Vec<RankRun>,
    /// At the root: the state of the spawns, if there were any.
    pub(super) spawns: Option<SpawnState>,
    /// At the root: the ranks that can receive standard input, and the number of ranks.
    pub(super) receivers: Option<(RankSet, u32)>,
    pub(super) written: Written,
    /// Whether the manager is our child, so that its orphans become our children.
    pub(super) is_child: bool,
    pub(super) ended: bool,
}

impl Job {
    /// Whether the root manager of the job is here. The record tells it also before the manager registers.
    pub(super) const fn is_root(&self) -> bool {
        self.record.tree_index == 0
    }
}

/// The part of a manager in the job tree.
#[derive(Debug)]
pub(super) struct Part {
    /// 0 is the root.
    pub(super) tree_index: u32,
    /// Job links name the manager by this.
    pub(super) manager: Instance,
    pub(super) key: JobKey,
}

/// What a new manager gets besides its order.
#[derive(Default)]
pub(super) struct Given<'a> {
    /// For the root: the connection of the console, its standard output and its standard error. Then those of the process
    /// that becomes the job's one rank, if there is one.
    pub(super) descriptors: Vec<BorrowedFd<'a>>,
    pub(super) spec: &'a [u8],
    pub(super) notices: Vec<Notice>,
    pub(super) spans: Vec<Span>,
}
