//! The table of jobs as the node reads it.

use mpd_daemon::{JobsHere, Marked, Root, listing};
use mpd_wire::JobId;
use mpd_wire::job::namespace_mark;
use mpd_wire::message::{JobPart, JobRef};

use crate::daemon::jobs::Jobs;
use crate::daemon::jobs::job::Job;

impl JobsHere for Jobs {
    fn count(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }

    fn listing(&self, wanted: u32) -> (Vec<JobPart>, bool) {
        let part = |(id, job): (&JobId, &Job)| JobPart {
            job: id.clone(),
            alias: job.alias.as_deref().map(listing::shortened),
            user: self.user().to_owned(),
            manager: job.manager.map_or(0, |pid| pid.as_raw().unsigned_abs()),
            runs: job.runs.clone(),
            spawns: job.spawns.clone(),
        };
        listing::page(self.jobs.iter().map(part), wanted)
    }

    fn ranks_without_allocation(&self) -> u32 {
        let jobs = self.jobs.values().filter(|job| !job.held);
        let ranks: usize = jobs.flat_map(|job| &job.runs).map(|run| run.pids.len()).sum();
        u32::try_from(ranks).unwrap_or(u32::MAX)
    }

    fn are_known(&self) -> bool {
        self.next_look.is_none()
    }

    fn is_running(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| !job.ended)
    }

    fn has_branch(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| !job.ended && !job.is_root())
    }

    fn root(&self, id: &JobId) -> Option<bool> {
        let job = self.jobs.get(id).filter(|job| !job.ended && job.is_root())?;
        Some(job.connected)
    }

    fn roots(&self, meant: &JobRef) -> Vec<Root> {
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

    fn connected_roots(&self) -> Vec<JobId> {
        self.jobs.keys().filter(|id| self.root(id) == Some(true)).cloned().collect()
    }

    fn unregistered_root(&self) -> Option<JobId> {
        let is_one = |job: &Job| job.part.is_none() && !job.ended && job.is_root();
        let mut unregistered = self.jobs.iter().filter(|(_, job)| is_one(job));
        unregistered.next().map(|(id, _)| id.clone())
    }

    fn find_by_mark(&self, mark: &str) -> Marked {
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use mpd_io::ring::rundir::RunDir;
    use mpd_leftovers::record::JobRecord;
    use mpd_sansio::Time;
    use mpd_wire::Instance;
    use mpd_wire::job::{Cookie, JobKey};
    use mpd_wire::message::{Opening, VERSION};

    use super::*;
    use crate::daemon::jobs::Waiting;

    #[test]
    fn a_job_of_an_earlier_daemon_has_its_mark_once_its_manager_has_registered() {
        let directory = tempfile::tempdir().unwrap();
        let rundir = RunDir::at(directory.path().to_owned());
        std::fs::create_dir(rundir.jobs()).unwrap();
        let (job, cookie): (JobId, _) = ("7@h1".parse().unwrap(), Cookie::from_bytes([1; 16]));
        let record =
            JobRecord { job: job.clone(), cookie: cookie.clone(), tree_index: 0, cgroup: None };
        let mut file = File::create(rundir.record(&job)).unwrap();
        file.write_all(&serde_json::to_vec(&record).unwrap()).unwrap();
        // Its manager lives.
        file.lock().unwrap();
        let of = ("h1", Instance::from_bytes([2; 16]));
        let mut jobs = Jobs::new(of, "h1", Some(rundir), Waiting::new(0, Time::ZERO));
        jobs.adopt_records(Time::ZERO);
        let key = JobKey::from_bytes([3; 32]);
        let mark = namespace_mark(&key.pmix_secret());
        assert_eq!(jobs.find_by_mark(&mark), Marked::Unregistered(job.clone()));
        let registers = Opening::Register {
            version: VERSION,
            job: job.clone(),
            cookie,
            tree_index: 0,
            manager: Instance::from_bytes([4; 16]),
            key,
        };
        jobs.adopt(registers, 1).unwrap();
        assert_eq!(jobs.find_by_mark(&mark), Marked::Job(job));
        assert_eq!(jobs.find_by_mark("0f"), Marked::None);
    }
}
