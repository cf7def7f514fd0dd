//! An entry of the table.

use mpd_leftovers::record::JobRecord;
use mpd_wire::job::{JobKey, ManagerEnd};
use mpd_wire::message::{RankRun, SpawnState};
use mpd_wire::{Instance, Pid, RankSet};

use crate::top::Written;

/// A job with a manager on this host.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    /// `None` for a job of an earlier daemon whose manager has not registered yet.
    pub(crate) part: Option<Part>,
    /// Whether the manager is connected.
    pub(crate) connected: bool,
    /// `None` for a job of an earlier daemon whose manager has not registered yet.
    pub(crate) manager: Option<Pid>,
    /// The alias that the user gave the job, as its manager reports.
    pub(crate) alias: Option<String>,
    /// Whether an allocation holds the slots of its ranks.
    pub(crate) held: bool,
    pub(crate) runs: Vec<RankRun>,
    /// At the root: the state of the spawns, if there were any.
    pub(crate) spawns: Option<SpawnState>,
    /// At the root: the ranks that can receive standard input, and the number of ranks.
    pub(crate) receivers: Option<(RankSet, u32)>,
    pub(crate) written: Written,
    /// Whether the manager is our child, so that its orphans become our children.
    pub(crate) is_child: bool,
    /// Whether it is ordered to end because its target job has ended.
    pub(crate) is_killed: bool,
    pub(crate) ended: bool,
    /// How its manager died, if that is known.
    pub(crate) end: Option<ManagerEnd>,
}

impl Job {
    /// A job of an earlier daemon, whose manager may live.
    pub(crate) fn of_earlier_daemon(record: JobRecord) -> Self {
        Self {
            record,
            part: None,
            connected: false,
            manager: None,
            alias: None,
            held: false,
            runs: Vec::new(),
            spawns: None,
            receivers: None,
            written: Written::default(),
            is_child: false,
            is_killed: false,
            ended: false,
            end: None,
        }
    }

    /// A job whose manager was just started.
    pub(crate) fn started(record: JobRecord, part: Part, manager: Pid) -> Self {
        Self {
            part: Some(part),
            connected: true,
            manager: Some(manager),
            is_child: true,
            ..Self::of_earlier_daemon(record)
        }
    }

    /// Whether the root manager of the job is here. The record tells it also before the manager registers.
    pub(crate) const fn is_root(&self) -> bool {
        self.record.tree_index == 0
    }
}

/// The part of a manager in the job tree.
#[derive(Debug)]
pub(crate) struct Part {
    /// 0 is the root.
    pub(crate) tree_index: u32,
    /// Job links name the manager by this.
    pub(crate) manager: Instance,
    pub(crate) key: JobKey,
}
