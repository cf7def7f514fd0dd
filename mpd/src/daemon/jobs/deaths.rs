//! Managers that end: their jobs are forgotten here, and what they left is removed.
//!
//! If a manager dies without its last report, the root manager on another host only detects a closed link. This daemon
//! sends it the cause, through the ring.

use mpd_daemon::{Demand, JobsHere as _};
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::oom;
use mpd_io::process::spawn::Fate;
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::job::ManagerEnd;

use crate::daemon::jobs::job::Job;
use crate::daemon::jobs::{Jobs, start};

impl Jobs {
    /// Reaps children up to the next dead manager. Returns the job of that manager, and how it ended, if that is known.
    /// The caller handles its last reports, then calls [`Jobs::manager_died`].
    pub(crate) fn reap(&mut self, now: Time) -> Option<(JobId, Option<ManagerEnd>)> {
        loop {
            let (pid, fate) = self.children.reap()?;
            if self.waiting.died(pid, now) {
                continue;
            }
            let is_it = |(id, job): (&JobId, &Job)| (job.manager == Some(pid)).then(|| id.clone());
            if let Some(id) = self.jobs.iter().find_map(is_it) {
                let is_victim = oom::is_victim(pid, fate);
                if is_victim {
                    log::error!(
                        "job {id}: memory ran out: the kernel has killed its manager {pid}"
                    );
                }
                return Some((id, end_of(fate, is_victim)));
            }
        }
    }

    /// The manager of a job was reaped. Its last reports were handled before this call. `is_unread`: it has not read its
    /// whole job, so it has started nothing. Returns the message about its end for the root manager on another host.
    pub(crate) fn manager_died(
        &mut self,
        id: &JobId,
        (is_unread, end): (bool, Option<ManagerEnd>),
        now: Time,
    ) -> Option<Demand> {
        let launch = self.silent.died(id);
        if let Some(job) = self.jobs.get(id) {
            let cookie = job.record.cookie.at(job.record.tree_index);
            self.children.expect_orphans(now, job.manager, cookie);
        }
        let Some((launch, tree_index)) = launch.filter(|_| is_unread) else {
            let cause = self.cause_for_root(id, end);
            self.forget(id);
            return cause;
        };
        if let Some(job) = self.jobs.remove(id) {
            self.records.remove(id);
            let group =
                job.record.cgroup.as_ref().and_then(|path| Cgroup::open(path.as_ref()).ok());
            group.iter().for_each(|group| drop(group.remove()));
        }
        if let Err(e) = self.start_branch(&launch, tree_index, now) {
            log::error!("job {id}: {e:#}");
        }
        None
    }

    /// The message for the root manager of a job of another host about the end of the manager here. After the last report
    /// of the manager the root needs none.
    fn cause_for_root(&self, id: &JobId, end: Option<ManagerEnd>) -> Option<Demand> {
        let job = id.clone();
        end.filter(|_| self.has_branch(id)).map(|end| Demand::ManagerEnded { job, end })
    }

    /// Forgets a job whose manager is gone. Unless the job had ended, starts the removal of its leftovers.
    pub(super) fn forget(&mut self, id: &JobId) {
        let Some(job) = self.jobs.remove(id) else { return };
        if job.ended {
            self.records.remove(id);
            return;
        }
        log::warn!("job {id}: its manager died; removing what it left");
        // A manager of an earlier daemon that never registered may have died long ago.
        let just_died = job.manager.is_some();
        match start::sweeper(&job.file, self.records.path(id), just_died) {
            Ok(pid) => self.children.add_helper(pid),
            Err(e) => log::error!("job {id}: cannot remove what it left: {e:#}"),
        }
    }
}

/// How a manager ended. An exit with 0 explains nothing.
fn end_of(fate: Option<Fate>, is_victim: bool) -> Option<ManagerEnd> {
    match fate? {
        Fate::Killed { .. } if is_victim => Some(ManagerEnd::OutOfMemory),
        Fate::Killed { signal, core } => {
            Some(ManagerEnd::Signaled { signal: signal.try_into().ok()?, core })
        }
        Fate::Exited(0) | Fate::Stopped => None,
        Fate::Exited(code) => Some(ManagerEnd::Exited(code)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;

    use mpd_io::ring::rundir::RunDir;
    use mpd_leftovers::record::JobRecord;
    use mpd_wire::Instance;
    use mpd_wire::job::Cookie;

    use super::*;
    use crate::daemon::jobs::Waiting;

    const KILLED: ManagerEnd = ManagerEnd::Signaled { signal: 9, core: false };

    /// The jobs of h2, with managers of these jobs at these tree indices. The files are to live as long.
    fn jobs(rundir: &RunDir, known: &[(&JobId, u32)]) -> (Jobs, Vec<File>) {
        fs::create_dir(rundir.jobs()).unwrap();
        let file = |&(job, tree_index): &(&JobId, u32)| {
            let (job, cookie) = (job.clone(), Cookie::from_bytes([1; 16]));
            let mut file = File::create(rundir.record(&job)).unwrap();
            let record = JobRecord { job, cookie, tree_index, cgroup: None };
            file.write_all(&serde_json::to_vec(&record).unwrap()).unwrap();
            // Its manager lives.
            file.lock().unwrap();
            file
        };
        let files = known.iter().map(file).collect();
        let of = ("h2", Instance::from_bytes([2; 16]));
        let mut jobs = Jobs::new(of, "h2", Some(rundir.clone()), Waiting::new(0, Time::ZERO));
        jobs.adopt_records(Time::ZERO);
        (jobs, files)
    }

    fn job(text: &str, instance: u8) -> JobId {
        text.parse::<JobId>().unwrap().of(Instance::from_bytes([instance; 16]))
    }

    #[test]
    fn the_root_manager_on_another_host_gets_the_cause_unless_the_job_has_ended_here() {
        let directory = tempfile::tempdir().unwrap();
        let (running, over, own) = (job("7@h1", 1), job("8@h1", 1), job("9@h2", 2));
        let known = [(&running, 1), (&over, 1), (&own, 0)];
        let (mut jobs, _files) = jobs(&RunDir::at(directory.path().to_owned()), &known);
        jobs.ended(&over, 0);
        let cause = |id: &JobId, end| match jobs.cause_for_root(id, end) {
            Some(Demand::ManagerEnded { job, end }) => Some((job, end)),
            _ => None,
        };
        assert_eq!(cause(&running, Some(KILLED)), Some((running.clone(), KILLED)));
        assert_eq!(cause(&running, None), None, "nobody knows it");
        assert_eq!(cause(&over, Some(KILLED)), None);
        assert_eq!(cause(&own, Some(KILLED)), None, "its console detects the end");
        assert_eq!(cause(&job("7@h1", 3), Some(KILLED)), None, "another job of this name");
    }

    #[test]
    fn a_root_manager_is_found_by_the_whole_id_of_its_job() {
        let directory = tempfile::tempdir().unwrap();
        let (own, other, over) = (job("9@h2", 2), job("7@h1", 1), job("8@h2", 2));
        let known = [(&own, 0), (&other, 1), (&over, 0)];
        let (mut jobs, _files) = jobs(&RunDir::at(directory.path().to_owned()), &known);
        jobs.ended(&over, 0);
        assert!(jobs.root(&own).is_some());
        for id in [other, over, job("9@h2", 3), "9@h2".parse().unwrap()] {
            assert!(jobs.root(&id).is_none(), "{}", id.in_full());
        }
    }

    #[test]
    fn the_end_of_a_manager_is_its_signal_or_code_or_the_lack_of_memory() {
        let killed = |signal, core| Some(Fate::Killed { signal, core });
        assert_eq!(end_of(killed(9, false), false), Some(KILLED));
        assert_eq!(end_of(killed(9, false), true), Some(ManagerEnd::OutOfMemory));
        let signaled = ManagerEnd::Signaled { signal: 11, core: true };
        assert_eq!(end_of(killed(11, true), false), Some(signaled));
        assert_eq!(end_of(Some(Fate::Exited(101)), false), Some(ManagerEnd::Exited(101)));
        assert_eq!(end_of(Some(Fate::Exited(0)), false), None);
        assert_eq!(end_of(None, false), None);
    }
}
