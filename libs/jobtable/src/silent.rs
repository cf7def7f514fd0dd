//! Managers that have got a job and have given no sign yet. One that was stopped while it waited for a job would let the
//! job wait for ever.
//!
//! A manager reports its ranks soon, or says that it has begun. After [`LOOK_AFTER`] without a report its process is looked
//! at once. If it is stopped, or still silent after [`PATIENCE`], it is killed. The console of a dead root manager submits
//! its job again. The job of another manager goes to a new one here, if the dead one has not read it.

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::message::Launch;
use mpd_wire::{JobId, Pid};

/// The silence after which the process of a manager is looked at.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The silence after which a manager is killed.
const PATIENCE: Duration = Duration::from_secs(8);

/// A manager without a sign.
#[derive(Debug)]
struct Silent {
    job: JobId,
    pid: Pid,
    since: Time,
    state: State,
    /// What a new manager of the same host slice needs; `None` for the root.
    launch: Option<(Box<Launch>, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not looked at.
    New,
    /// It was not stopped.
    Runs,
    Killed,
}

impl Silent {
    fn due(&self) -> Option<Time> {
        match self.state {
            State::New => Some(self.since + LOOK_AFTER),
            State::Runs => Some(self.since + PATIENCE),
            State::Killed => None,
        }
    }
}

/// All of them, in the order of their jobs' starts.
#[derive(Debug, Default)]
pub(crate) struct SilentManagers(Vec<Silent>);

impl SilentManagers {
    /// A manager has got its job.
    pub(crate) fn add(&mut self, job: JobId, pid: Pid, now: Time) {
        self.0.push(Silent { job, pid, since: now, state: State::New, launch: None });
    }

    /// What a new manager would need in its place.
    pub(crate) fn set_launch(&mut self, launch: Box<Launch>, tree_index: usize) {
        if let Some(silent) = self.0.iter_mut().find(|silent| silent.job == launch.job) {
            silent.launch = Some((launch, tree_index));
        }
    }

    /// The manager of the job has given a sign.
    pub(crate) fn heard(&mut self, job: &JobId) {
        self.0.retain(|silent| silent.job != *job);
    }

    /// The manager of the job is dead. What a new one needs, if it was killed for its silence and is not the root.
    pub(crate) fn died(&mut self, job: &JobId) -> Option<(Box<Launch>, usize)> {
        let at = self.0.iter().position(|silent| silent.job == *job)?;
        let silent = self.0.remove(at);
        silent.launch.filter(|_| silent.state == State::Killed)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.iter().filter_map(Silent::due).min()
    }

    /// The jobs whose managers are to be looked at now, or to be killed. What they have sent must be read before
    /// [`Self::judge`].
    pub(crate) fn due(&self, now: Time) -> Vec<JobId> {
        let is_due = |silent: &&Silent| silent.due().is_some_and(|at| at <= now);
        self.0.iter().filter(is_due).map(|silent| silent.job.clone()).collect()
    }

    /// The first one that is due, and whether it is to be looked at before it is judged.
    pub(crate) fn first_due(&self, now: Time) -> Option<(JobId, Pid, bool)> {
        let due = self.0.iter().find(|silent| silent.due().is_some_and(|at| at <= now))?;
        Some((due.job.clone(), due.pid, due.state == State::New))
    }

    /// Judges one that is due. Returns its process, if it is to be killed.
    pub(crate) fn judge(&mut self, now: Time, job: &JobId, is_stopped: bool) -> Option<Pid> {
        let silent = self.0.iter_mut().find(|silent| silent.job == *job)?;
        let is_over = now.since(silent.since) >= PATIENCE;
        silent.state = if is_stopped || is_over { State::Killed } else { State::Runs };
        (silent.state == State::Killed).then_some(silent.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    fn job(number: u64) -> JobId {
        JobId::new(number, "h1").unwrap()
    }

    /// One of job 1 that has its job since 0.
    fn one() -> SilentManagers {
        let mut silent = SilentManagers::default();
        silent.add(job(1), Pid(7), at(0));
        silent
    }

    /// Those that are killed at a time.
    fn killed(silent: &mut SilentManagers, now: Time, is_stopped: bool) -> Vec<i32> {
        let mut killed = Vec::new();
        while let Some((job, _, is_new)) = silent.first_due(now) {
            killed.extend(silent.judge(now, &job, is_new && is_stopped).map(|Pid(pid)| pid));
        }
        killed
    }

    #[test]
    fn a_manager_that_has_given_a_sign_is_not_looked_at() {
        let mut silent = one();
        assert_eq!(silent.next_deadline(), Some(at(1000)));
        silent.heard(&job(1));
        assert_eq!((silent.next_deadline(), silent.due(at(9000)).len()), (None, 0));
    }

    #[test]
    fn a_stopped_manager_is_killed_after_a_second() {
        let mut silent = one();
        assert_eq!(killed(&mut silent, at(999), true), [0; 0]);
        assert_eq!(silent.due(at(1000)), [job(1)]);
        assert_eq!(killed(&mut silent, at(1000), true), [7]);
        assert_eq!(silent.next_deadline(), None);
        assert_eq!(killed(&mut silent, at(20_000), true), [0; 0], "once");
        assert!(silent.died(&job(1)).is_none(), "the console of the root submits its job again");
        assert!(silent.0.is_empty());
    }

    #[test]
    fn a_manager_that_is_not_stopped_has_eight_seconds() {
        let mut silent = one();
        assert_eq!(killed(&mut silent, at(1000), false), [0; 0]);
        assert_eq!(silent.next_deadline(), Some(at(8000)));
        assert_eq!(killed(&mut silent, at(7999), true), [0; 0], "it is looked at once");
        assert_eq!(killed(&mut silent, at(8000), false), [7]);
    }
}
