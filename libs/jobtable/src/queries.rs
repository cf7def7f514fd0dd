//! The table of jobs as the node of the daemon reads it. A job that is over counts only in [`JobTable::count`] and
//! [`JobTable::listing`], until it is cleaned up.

use mpd_sansio::Time;
use mpd_wire::job::{JobKey, namespace_mark};
use mpd_wire::message::{ConsoleReply, JobPart, JobRef, JobSummary};
use mpd_wire::{DaemonName, Instance, JobId, Pid, RankSet};

use crate::job::Job;
use crate::listing;
use crate::table::JobTable;
use crate::top::{self, Sample};

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

impl JobTable {
    /// The name of the daemon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user of the jobs, if it is known.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Sets the user of the jobs, as listings show it.
    pub fn set_user(&mut self, user: String) {
        self.user = Some(user);
    }

    /// Whether no job, helper or orphan is left.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.children.is_idle()
    }

    /// Whether this helper still runs.
    pub fn is_helper(&self, pid: Pid) -> bool {
        self.children.is_helper(pid)
    }

    /// The answer to a console that asks for the state of the daemon, the process `pid`.
    pub fn status(&self, pid: u32) -> ConsoleReply {
        let summary =
            |job: &Job| JobSummary { job: job.record.job.clone(), manager: number_of(job) };
        let jobs = self.jobs.values().map(summary).collect();
        ConsoleReply::Status { name: self.name.clone(), pid, jobs }
    }

    /// The job of the manager that a job link asks for, and the key of its links, if that manager is connected.
    pub fn find_manager(&self, wanted: Instance) -> Option<(&JobId, &JobKey)> {
        let (id, job) = self.jobs.iter().find(|(_, job)| {
            job.connected && job.part.as_ref().is_some_and(|part| part.manager == wanted)
        })?;
        Some((id, &job.part.as_ref()?.key))
    }

    /// The job here that `wanted` means, if its manager is connected.
    ///
    /// # Errors
    /// Why there is no such job; a text for people.
    pub(crate) fn manager_of(&self, wanted: &JobRef) -> Result<JobId, String> {
        let me = DaemonName::new(&self.name).map_err(|e| e.to_string())?;
        let wanted = wanted.clone().as_asked_of(&me);
        let is_meant = |(id, job): &(&JobId, &Job)| wanted.means(id, job.alias.as_deref());
        let found: Vec<(&JobId, &Job)> = self.jobs.iter().filter(is_meant).collect();
        match found[..] {
            [] => {
                Err(format!("no {wanted} on this host; 'mpdlistjobs' lists the hosts of each job"))
            }
            [(id, job)] if job.connected => Ok(id.clone()),
            [(id, _)] => {
                Err(format!("job {id}: its manager is not connected to a daemon now; try again"))
            }
            _ => Err(format!("{wanted} means several jobs; name one by its id")),
        }
    }

    /// The jobs whose managers have given no sign in time. What these have sent is to be read before
    /// [`JobTable::handle_timeout`].
    pub fn silent(&self, now: Time) -> Vec<JobId> {
        self.silent.due(now)
    }

    /// A page of the runs of all jobs, and whether there is another page.
    pub fn usage(&self, now: Time, page: u32) -> (Vec<Sample>, bool) {
        let rows = self.jobs.iter().flat_map(|(id, job)| {
            job.runs.iter().map(move |run| top::Row {
                job: id,
                alias: job.alias.as_deref(),
                user: self.user().unwrap_or_default(),
                manager: job.manager,
                written: &job.written,
                run,
            })
        });
        top::page(&rows.collect::<Vec<_>>(), now, page)
    }

    /// The number of jobs.
    pub fn count(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }

    /// A page of the jobs, and whether there is another page.
    pub fn listing(&self, wanted: u32) -> (Vec<JobPart>, bool) {
        let part = |(id, job): (&JobId, &Job)| JobPart {
            job: id.clone(),
            alias: job.alias.as_deref().map(listing::shortened),
            user: self.user().unwrap_or_default().to_owned(),
            manager: number_of(job),
            runs: job.runs.clone(),
            spawns: job.spawns.clone(),
        };
        listing::page(self.jobs.iter().map(part), wanted)
    }

    /// The number of ranks whose slots no allocation holds.
    pub fn ranks_without_allocation(&self) -> u32 {
        let jobs = self.jobs.values().filter(|job| !job.held);
        let ranks: usize = jobs.flat_map(|job| &job.runs).map(|run| run.pids.len()).sum();
        u32::try_from(ranks).unwrap_or(u32::MAX)
    }

    /// Whether every manager of an earlier daemon has registered or is proven dead.
    pub fn are_known(&self) -> bool {
        self.next_look.is_none()
    }

    /// Whether the job is not over here.
    pub fn is_running(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| !job.ended)
    }

    /// Whether a manager of the job runs here that is not its root.
    pub fn has_branch(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| !job.ended && !job.is_root())
    }

    /// Whether the root manager of the job is here; `Some(true)` if it is connected. The id must have the same instance.
    pub fn root(&self, id: &JobId) -> Option<bool> {
        let job = self.jobs.get(id).filter(|job| !job.ended && job.is_root())?;
        Some(job.connected)
    }

    /// The jobs whose root managers are here and that `meant` means.
    pub fn roots(&self, meant: &JobRef) -> Vec<Root> {
        let root = |(id, job): (&JobId, &Job)| {
            let found = job.is_root() && !job.ended && meant.means(id, job.alias.as_deref());
            found.then(|| Root {
                job: id.clone(),
                connected: job.connected,
                receivers: job.receivers.clone(),
                running: job.spawns.as_ref().map(|spawns| spawns.running),
            })
        };
        self.jobs.iter().filter_map(root).collect()
    }

    /// The jobs whose root managers are here and connected.
    pub fn connected_roots(&self) -> Vec<JobId> {
        self.jobs.keys().filter(|id| self.root(id) == Some(true)).cloned().collect()
    }

    /// A job of an earlier daemon whose root manager has not registered yet. Its key and alias are not known.
    pub fn unregistered_root(&self) -> Option<JobId> {
        let is_one = |job: &Job| job.part.is_none() && !job.ended && job.is_root();
        let mut unregistered = self.jobs.iter().filter(|(_, job)| is_one(job));
        unregistered.next().map(|(id, _)| id.clone())
    }

    /// The job whose root manager is here and whose PMIx namespaces have this mark.
    pub fn find_by_mark(&self, mark: &str) -> Marked {
        let has_mark = |job: &Job| {
            let part = job.part.as_ref().filter(|part| part.tree_index == 0 && !job.ended);
            part.is_some_and(|part| namespace_mark(&part.key.pmix_secret()) == mark)
        };
        if let Some((id, _)) = self.jobs.iter().find(|(_, job)| has_mark(job)) {
            return Marked::Job(id.clone());
        }
        self.unregistered_root().map_or(Marked::None, Marked::Unregistered)
    }
}

/// The process of the manager of a job; 0 if it is not known.
fn number_of(job: &Job) -> u32 {
    job.manager.map_or(0, |Pid(pid)| pid.unsigned_abs())
}
