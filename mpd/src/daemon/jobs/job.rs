//! One job of this host, as the table has it.

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
    /// The record and what the manager adds to it.
    pub(super) file: File,
    /// Unknown for a job of a former daemon whose manager has not registered yet.
    pub(super) part: Option<Part>,
    /// Whether the manager can be spoken to.
    pub(super) connected: bool,
    /// Unknown for a job of a former daemon whose manager has not registered yet.
    pub(super) manager: Option<Pid>,
    /// What its user calls it, and its ranks here, as its manager says.
    pub(super) alias: Option<String>,
    pub(super) runs: Vec<RankRun>,
    /// At the root: the ranks that can be given standard input, and how many ranks there are.
    pub(super) receivers: Option<(RankSet, u32)>,
    pub(super) written: Written,
    /// Whether the manager is our child, so that its orphans come to us.
    pub(super) ours: bool,
    pub(super) ended: bool,
}

/// What a manager has to do with the others of its job.
#[derive(Debug)]
pub(super) struct Part {
    /// 0 is the root.
    pub(super) place: u32,
    /// For whom job links ask.
    pub(super) manager: Instance,
    pub(super) key: JobKey,
}
