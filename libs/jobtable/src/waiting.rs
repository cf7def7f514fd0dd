//! Managers in waiting: processes that have begun, and have no job yet. A job that comes gets one of them and so starts
//! faster. A manager serves one job only; the next one is made when a job of this host has ended, or the job has run for
//! some time. They are copies of the fork server, which is started with the first of them. The daemon of a private ring of
//! one starts the manager of its job at once, and both get ready at the same time.
//!
//! In a ring that ends when it is idle, they end some time before: after a while without jobs on this host. The next job
//! starts without them, and they are there again for the job after it.

use std::collections::VecDeque;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::Pid;

use crate::line::Line;

/// The time after the start of the daemon at which the first manager is started.
const AT_FIRST: Duration = Duration::from_millis(100);

/// The time after the start of a job at which its manager is replaced, unless the job ends earlier. The job has the CPU
/// first, on all its hosts.
const AFTER_A_JOB: Duration = Duration::from_millis(250);

/// The time after a manager has died in waiting or could not be started. It is doubled up to the longest one.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// When to start how many. Pure.
#[derive(Debug)]
struct Plan {
    wanted: usize,
    /// The time of the next start, if not all wait.
    next: Option<Time>,
    /// The time after the next failure.
    pause: Duration,
}

impl Plan {
    fn new(wanted: usize, now: Time) -> Self {
        let next = (wanted > 0).then(|| now + AT_FIRST);
        Self { wanted, next, pause: AFTER_A_FAILURE }
    }

    /// Whether it is time to request one while `waiting` wait, or will soon.
    fn is_due(&mut self, waiting: usize, now: Time) -> bool {
        if waiting >= self.wanted {
            self.next = None;
        }
        self.next.is_some_and(|at| at <= now)
    }

    /// A manager was requested; `waiting` wait, or will soon.
    fn started(&mut self, waiting: usize, now: Time) {
        self.next = (waiting < self.wanted).then_some(now);
    }

    /// One of them has a job.
    fn taken(&mut self, now: Time) {
        self.pause = AFTER_A_FAILURE;
        self.next = (self.wanted > 0).then(|| now + AFTER_A_JOB);
    }

    /// A job has ended here.
    fn job_has_ended(&mut self, waiting: usize, now: Time) {
        if waiting < self.wanted && self.pause == AFTER_A_FAILURE {
            self.next = Some(now);
        }
    }

    /// One has died in waiting or could not be made, or the fork server has died.
    fn failed(&mut self, now: Time) {
        self.next = (self.wanted > 0).then(|| now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

/// The managers in waiting.
#[derive(Debug)]
pub(crate) struct WaitingManagers {
    plan: Plan,
    /// How long they wait while no job is here; `None`: for ever.
    patience: Option<Duration>,
    /// When a job was here last.
    used: Time,
    fork_server: Option<Pid>,
    /// The number of copies that were requested, and for which the fork server has not answered.
    requested: usize,
    managers: VecDeque<Pid>,
}

impl WaitingManagers {
    /// None yet. `wanted` of them are kept, and end when no job was here for `patience`.
    pub(crate) fn new(wanted: u8, patience: Option<Duration>, now: Time) -> Self {
        let plan = Plan::new(wanted.into(), now);
        let managers = VecDeque::new();
        Self { plan, patience, used: now, fork_server: None, requested: 0, managers }
    }

    /// One for the only job of a private ring. No other one follows.
    pub(crate) fn of_one_job(manager: Pid) -> Self {
        Self { managers: [manager].into(), ..Self::new(0, None, Time::ZERO) }
    }

    /// Starts no further one.
    pub(crate) fn stop(&mut self) {
        self.plan = Plan::new(0, Time::ZERO);
    }

    /// Takes one of them for a job, the oldest first.
    pub(crate) fn take(&mut self, now: Time) -> Option<Pid> {
        let manager = self.managers.pop_front();
        if manager.is_some() || self.is_at_rest() {
            self.plan.taken(now);
        }
        self.used = now;
        manager
    }

    /// Whether neither a manager nor the fork server is there, and none is planned.
    fn is_at_rest(&self) -> bool {
        self.count() == 0 && self.fork_server.is_none() && self.plan.next.is_none()
    }

    /// Gives up all managers in waiting if no job was here for long. Returns their processes, with the fork server as the last one.
    pub(crate) fn rest(&mut self, now: Time, has_jobs: bool) -> Vec<Pid> {
        let Some(patience) = self.patience else { return Vec::new() };
        if has_jobs {
            self.used = now;
        }
        if now.since(self.used) < patience || self.is_at_rest() {
            return Vec::new();
        }
        // A copy that was requested has no process yet, as far as is known.
        if self.is_copying() {
            self.used = now;
            return Vec::new();
        }
        self.plan.next = None;
        let server = self.fork_server.take();
        std::mem::take(&mut self.managers).into_iter().chain(server).collect()
    }

    /// Whether it is time to request the next one. The daemon is not woken by the answer to a request: nothing is to be
    /// done before the next turn.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.plan.is_due(self.count(), now)
    }

    pub(crate) const fn has_fork_server(&self) -> bool {
        self.fork_server.is_some()
    }

    pub(crate) const fn set_fork_server(&mut self, pid: Pid) {
        self.fork_server = Some(pid);
    }

    /// One was requested.
    pub(crate) fn requested(&mut self, now: Time) {
        self.requested += 1;
        self.plan.started(self.count(), now);
    }

    /// The fork server has answered a request with this manager, or with none.
    pub(crate) fn copied(&mut self, manager: Option<Pid>) {
        self.requested = self.requested.saturating_sub(1);
        self.managers.extend(manager);
    }

    /// None could be made. Returns a line about it.
    pub(crate) fn fail(&mut self, problem: &str, now: Time) -> Line {
        self.plan.failed(now);
        Line::info(format!("no manager waits for the next job: {problem}"))
    }

    /// Whether the fork server was asked for a copy and has not reported the process of that copy.
    pub(crate) const fn is_copying(&self) -> bool {
        self.requested > 0
    }

    /// The number of managers in waiting, including copies that the fork server still has to make.
    fn count(&self) -> usize {
        self.managers.len() + self.requested
    }

    /// A job has ended here, so there is time for the next start.
    pub(crate) fn job_has_ended(&mut self, now: Time) {
        self.used = now;
        self.plan.job_has_ended(self.count(), now);
    }

    pub(crate) fn is_fork_server(&self, pid: Pid) -> bool {
        self.fork_server == Some(pid)
    }

    /// The fork server has died, with all copies that it still had to make.
    pub(crate) fn lose_fork_server(&mut self, now: Time) {
        self.fork_server = None;
        self.requested = 0;
        self.plan.failed(now);
    }

    /// A child has died. Whether it was one of these.
    pub(crate) fn lose(&mut self, pid: Pid, now: Time) -> bool {
        let before = self.managers.len();
        self.managers.retain(|manager| *manager != pid);
        let is_one = self.managers.len() < before;
        if is_one {
            self.plan.failed(now);
        }
        is_one
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let rest = self.patience.filter(|_| !self.is_at_rest());
        rest.map(|patience| self.used + patience).into_iter().chain(self.plan.next).min()
    }

    /// The processes of all of them, and of the fork server.
    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.managers.iter().copied().chain(self.fork_server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn as_many_are_started_as_are_wanted() {
        let mut plan = Plan::new(2, at(0));
        assert!(!plan.is_due(0, at(99)) && plan.is_due(0, at(100)));
        plan.started(1, at(1000));
        assert!(plan.is_due(1, at(1000)), "the second one");
        plan.started(2, at(1000));
        assert_eq!(plan.next, None);
        assert_eq!(Plan::new(0, at(0)).next, None);
    }

    #[test]
    fn a_manager_is_replaced_soon_after_the_start_of_its_job_or_when_that_has_ended() {
        let mut plan = Plan::new(1, at(0));
        plan.started(1, at(1000));
        plan.taken(at(2000));
        assert!(!plan.is_due(0, at(2249)) && plan.is_due(0, at(2250)));
        plan.job_has_ended(0, at(2003));
        assert!(plan.is_due(0, at(2003)));
        plan.started(1, at(2003));
        plan.job_has_ended(1, at(2005));
        assert_eq!(plan.next, None);
    }

    #[test]
    fn none_is_requested_while_enough_wait() {
        let mut plan = Plan::new(1, at(0));
        plan.started(1, at(100));
        // The fork server has died.
        plan.failed(at(200));
        assert!(!plan.is_due(1, at(5000)));
        assert_eq!(plan.next, None);
        plan.taken(at(6000));
        assert!(plan.is_due(0, at(6250)));
    }

    #[test]
    fn none_is_replaced_where_none_are_wanted() {
        let mut plan = Plan::new(0, at(0));
        plan.taken(at(1000));
        plan.job_has_ended(0, at(1000));
        assert_eq!(plan.next, None);
        plan.failed(at(1000));
        assert_eq!(plan.next, None);
    }

    #[test]
    fn they_end_after_a_while_without_jobs_and_are_there_again_after_the_next_job() {
        let mut waiting = WaitingManagers::new(1, Some(Duration::from_secs(10)), at(0));
        let begin = |waiting: &mut WaitingManagers, now| {
            assert!(waiting.is_due(at(now)));
            waiting.set_fork_server(Pid(50));
            waiting.requested(at(now));
            waiting.copied(Some(Pid(60)));
        };
        begin(&mut waiting, 100);
        assert!(waiting.rest(at(9_000), true).is_empty());
        assert_eq!(waiting.next_deadline(), Some(at(19_000)));
        assert!(waiting.rest(at(18_999), false).is_empty());
        assert_eq!(waiting.rest(at(19_000), false), [Pid(60), Pid(50)]);
        assert!(!waiting.has_fork_server());
        assert_eq!(waiting.next_deadline(), None);
        assert!(waiting.rest(at(40_000), false).is_empty());
        assert_eq!(waiting.take(at(50_000)), None);
        begin(&mut waiting, 50_250);
        assert!(waiting.rest(at(59_999), false).is_empty());
        assert_eq!(waiting.take(at(60_000)), Some(Pid(60)));
        assert!(waiting.rest(at(69_999), false).is_empty());
    }

    #[test]
    fn one_that_is_being_made_is_awaited_before_all_end() {
        let mut waiting = WaitingManagers::new(1, Some(Duration::from_secs(10)), at(0));
        waiting.set_fork_server(Pid(50));
        waiting.requested(at(100));
        assert!(waiting.rest(at(10_000), false).is_empty());
        waiting.copied(Some(Pid(60)));
        assert_eq!(waiting.next_deadline(), Some(at(20_000)));
        assert_eq!(waiting.rest(at(20_000), false).len(), 2);
    }

    #[test]
    fn without_a_patience_they_wait_for_ever() {
        let mut waiting = WaitingManagers::new(1, None, at(0));
        waiting.copied(Some(Pid(60)));
        assert!(waiting.rest(at(1_000_000), false).is_empty());
        assert!(!waiting.is_due(at(1_000_000)));
        assert_eq!(waiting.next_deadline(), None);
    }

    #[test]
    fn one_that_dies_again_and_again_is_replaced_ever_later_also_when_jobs_end() {
        let mut plan = Plan::new(1, at(0));
        plan.started(1, at(1000));
        plan.failed(at(2000));
        assert!(!plan.is_due(0, at(2999)) && plan.is_due(0, at(3000)));
        plan.started(1, at(3000));
        plan.failed(at(3000));
        plan.job_has_ended(0, at(3500));
        assert!(!plan.is_due(0, at(4999)) && plan.is_due(0, at(5000)));
        for _ in 0..10 {
            plan.failed(at(5000));
        }
        assert_eq!(plan.next, Some(at(65_000)));
        plan.started(1, at(65_000));
        plan.taken(at(70_000));
        plan.failed(at(70_000));
        assert_eq!(plan.next, Some(at(71_000)));
    }
}
