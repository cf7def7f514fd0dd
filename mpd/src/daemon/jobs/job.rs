//! One job of this host, as an entry of the table.

use std::fs::File;

use mpd_job::record::JobRecord;
use mpd_wire::job::JobKey;
use mpd_wire::message::RankRun;
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
    pub(super) runs: Vec<RankRun>,
    /// At the root: the ranks that can receive standard input, and the number of ranks.
    pub(super) receivers: Option<(RankSet, u32)>,
    pub(super) written: Written,
    /// Whether the manager is our child, so that its orphans become our children.
    pub(super) is_child: bool,
    pub(super) ended: bool,
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
