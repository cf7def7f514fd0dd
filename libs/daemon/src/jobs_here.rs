//! The table of jobs of this host, as the node reads it. The process owns the table, with its children and descriptors.

use mpd_wire::message::{JobPart, JobRef};
use mpd_wire::{JobId, RankSet};

/// A job whose root manager is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub job: JobId,
    /// Whether the manager is connected.
    pub connected: bool,
    /// The ranks that can receive standard input, and the number of ranks, once they are known.
    pub receivers: Option<(RankSet, u32)>,
    /// The number of ranks that run, if the manager has reported it.
    pub running: Option<u32>,
}

/// The job that has a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marked {
    Job(JobId),
    /// It may be this one, whose manager has not registered yet.
    Unregistered(JobId),
    /// None of this host.
    None,
}

/// What the node reads of the jobs with a manager here. A job that is over counts only in [`JobsHere::count`] and
/// [`JobsHere::listing`], until it is cleaned up.
pub trait JobsHere {
    /// The number of jobs.
    fn count(&self) -> u32;

    /// A page of the jobs, and whether there is another page.
    fn listing(&self, page: u32) -> (Vec<JobPart>, bool);

    /// The number of ranks whose slots no allocation holds.
    fn ranks_without_allocation(&self) -> u32;

    /// Whether every manager of an earlier daemon has registered or is proven dead.
    fn are_known(&self) -> bool;

    /// Whether the job is not over here.
    fn is_running(&self, job: &JobId) -> bool;

    /// Whether a manager of the job runs here that is not its root.
    fn has_branch(&self, job: &JobId) -> bool;

    /// Whether the root manager of the job is here; `Some(true)` if it is connected. The id must have the same instance.
    fn root(&self, job: &JobId) -> Option<bool>;

    /// The jobs whose root managers are here and that `meant` means.
    fn roots(&self, meant: &JobRef) -> Vec<Root>;

    /// The jobs whose root managers are here and connected.
    fn connected_roots(&self) -> Vec<JobId>;

    /// A job of an earlier daemon whose root manager has not registered yet. Its key and alias are not known.
    fn unregistered_root(&self) -> Option<JobId>;

    /// The job whose root manager is here and whose PMIx namespaces have this mark.
    fn find_by_mark(&self, mark: &str) -> Marked;
}
