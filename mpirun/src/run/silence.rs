//! A daemon or a manager that gives no sign: when to look at its process, when to name it, and when not to wait for it
//! any longer. Pure.
//!
//! A job may be silent for days while its ranks run. So silence alone means nothing once the job has started: the process
//! is looked at, and named if it is stopped. When the user no longer wants the job, the manager is asked for a sign, and
//! this process waits for the sign no longer than [`PATIENCE`].

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::job::exit;

use super::waits::{self, LOOK_AFTER, LOOK_AGAIN, PATIENCE};

/// The process on which this one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    pub pid: u32,
    pub is_stopped: bool,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Look at the process.
    Look,
    /// Ask the manager for a sign.
    Ask,
}

/// What follows from a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    /// A line for the user.
    Name(String),
    /// A line for the user, and the exit code: this process waits no longer.
    Leave(String, u8),
}

/// The state of the silence.
#[derive(Debug)]
pub(super) struct Silence {
    ranks: u32,
    /// The time limit of the job, and when it is over.
    limit: Option<Duration>,
    over: Option<Time>,
    /// The time of the last message, or of the submission.
    heard: Time,
    /// The time of the next look.
    look: Time,
    /// Whether the process was named in this silence.
    is_named: bool,
    /// The process of the manager, when it is known.
    manager: Option<u32>,
    has_started: bool,
    /// How often the user has requested the end.
    requests: u32,
    /// The exit code, when the user no longer wants the job.
    unwanted: Option<u8>,
    /// When the manager was asked for a sign that it has not given.
    asked: Option<Time>,
    /// When to ask again.
    ask: Option<Time>,
}

impl Silence {
    /// A job of so many ranks, which was submitted at time 0.
    pub(super) fn new(ranks: u32, limit: Option<Duration>) -> Self {
        Self {
            ranks,
            limit,
            over: limit.map(|limit| Time::ZERO + limit),
            heard: Time::ZERO,
            look: Time::ZERO + LOOK_AFTER,
            is_named: false,
            manager: None,
            has_started: false,
            requests: 0,
            unwanted: None,
            asked: None,
            ask: None,
        }
    }

    /// A message has arrived.
    pub(super) fn heard(&mut self, now: Time) {
        (self.heard, self.look, self.is_named) = (now, now + LOOK_AFTER, false);
        if self.asked.take().is_some() {
            self.ask = Some(now + PATIENCE);
        }
    }

    /// The job is submitted again.
    pub(super) fn restart(&mut self, now: Time) {
        self.heard(now);
        self.manager = None;
        self.over = self.limit.map(|limit| now + limit);
    }

    /// The manager has the job, which has not started.
    pub(super) const fn begun(&mut self, manager: u32) {
        self.manager = Some(manager);
    }

    /// The job has started.
    pub(super) fn started(&mut self, now: Time, manager: u32) {
        (self.manager, self.has_started) = (Some(manager), true);
        self.over = self.limit.map(|limit| now + limit);
    }

    /// The user requests the end of a job that has started. Whether to ask for a sign, since it is not the first request.
    pub(super) fn end_requested(&mut self, now: Time, code: u8) -> bool {
        self.requests += 1;
        self.requests > 1 && self.give_up(now, code)
    }

    /// The job is no longer wanted. Whether to ask for a sign.
    fn give_up(&mut self, now: Time, code: u8) -> bool {
        if self.unwanted.is_some() {
            return false;
        }
        (self.unwanted, self.asked) = (Some(code), Some(now));
        true
    }

    /// The process of the manager, if it is known.
    pub(super) const fn manager(&self) -> Option<u32> {
        self.manager
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let asked = self.asked.map(|at| at + PATIENCE);
        let look = (!self.is_named).then_some(self.look);
        [self.over, asked, self.ask, look].into_iter().flatten().min()
    }

    /// What is due now. A look is followed by [`Silence::looked`].
    pub(super) fn due(&mut self, now: Time) -> Option<Due> {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if self.has_started && self.over.take_if(|at| *at <= now).is_some() {
            return self.give_up(now, exit::TIMED_OUT).then_some(Due::Ask);
        }
        if self.ask.take_if(|at| *at <= now).is_some() {
            self.asked = Some(now);
            return Some(Due::Ask);
        }
        let looks =
            [self.over, self.asked.map(|at| at + PATIENCE), (!self.is_named).then_some(self.look)];
        looks.into_iter().any(is_due).then_some(Due::Look)
    }

    /// Judges the process at which this one has looked; `None`: it is gone, so its connection ends.
    pub(super) fn looked(
        &mut self,
        now: Time,
        sight: Option<Sight>,
        job: Option<&JobId>,
    ) -> Finding {
        self.look = now + LOOK_AFTER;
        let Some(sight) = sight else {
            self.asked = self.asked.map(|_| now);
            self.over = self.over.map(|at| at.max(now + LOOK_AGAIN));
            return Finding::Nothing;
        };
        match job {
            Some(job) => self.judge_manager(now, sight, job),
            None => self.judge_start(now, sight),
        }
    }

    fn judge_manager(
        &mut self,
        now: Time,
        Sight { pid, is_stopped }: Sight,
        job: &JobId,
    ) -> Finding {
        if let Some(code) = self.unwanted
            && self.asked.is_some_and(|at| at + PATIENCE <= now)
        {
            let (state, until) = match is_stopped {
                true => ("is stopped", format!("continues (kill -CONT {pid})")),
                false => ("does not answer", "answers again".to_owned()),
            };
            let ranks = match self.ranks {
                1 => "its rank may still run and ends".to_owned(),
                ranks => format!("its {ranks} ranks may still run and end"),
            };
            let text = format!(
                "the manager of job {job} (process {pid}) {state}: {ranks} when it {until} or dies (kill -KILL {pid})"
            );
            return Finding::Leave(text, code);
        }
        if !is_stopped || self.is_named {
            return Finding::Nothing;
        }
        self.is_named = true;
        Finding::Name(format!(
            "the manager of job {job} (process {pid}) is stopped, and the job waits for it; 'kill -CONT {pid}' lets it \
             continue"
        ))
    }

    /// Judges the daemon, or the manager of a job that has not started. That manager may be silent while it waits for other
    /// hosts.
    fn judge_start(&mut self, now: Time, Sight { pid, is_stopped }: Sight) -> Finding {
        let is_silent = self.manager.is_none() && now - self.heard >= LOOK_AFTER;
        let name =
            if self.manager.is_some() { "manager of the job" } else { "daemon of this host" };
        let process = (name, pid.cast_signed());
        if let (Some(limit), Some(over)) = (self.limit, self.over)
            && over <= now
        {
            if is_stopped || is_silent {
                let state = if is_stopped { "is stopped" } else { "has not started it" };
                return Finding::Leave(waits::not_begun(limit, process, state), exit::TIMED_OUT);
            }
            self.over = Some(now + LOOK_AGAIN);
        }
        if self.is_named || !(is_stopped || is_silent) {
            return Finding::Nothing;
        }
        self.is_named = true;
        Finding::Name(match is_stopped {
            true => waits::stopped_at_start(process),
            false => format!(
                "the job has not started for {} s: the daemon of this host (process {pid}), or the manager that it has \
                 started, gives no sign",
                LOOK_AFTER.as_secs()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    const fn sight(is_stopped: bool) -> Option<Sight> {
        Some(Sight { pid: 7, is_stopped })
    }

    fn job() -> JobId {
        JobId::new(1, "h1").unwrap()
    }

    fn leaves(finding: &Finding) -> Option<u8> {
        match finding {
            Finding::Leave(_, code) => Some(*code),
            Finding::Nothing | Finding::Name(_) => None,
        }
    }

    #[test]
    fn a_stopped_daemon_is_named_once_after_five_seconds_of_silence() {
        let mut silence = Silence::new(1, None);
        assert_eq!(silence.poll_timeout(), Some(at(5000)));
        assert_eq!(silence.due(at(4999)), None);
        assert_eq!(silence.due(at(5000)), Some(Due::Look));
        let Finding::Name(text) = silence.looked(at(5000), sight(true), None) else { panic!() };
        assert!(text.contains("the daemon of this host (process 7) is stopped"), "{text}");
        assert_eq!(silence.poll_timeout(), None);
        silence.heard(at(6000));
        assert_eq!(silence.poll_timeout(), Some(at(11_000)));
    }

    #[test]
    fn a_daemon_that_gives_no_sign_is_named_also_if_it_runs() {
        let mut silence = Silence::new(1, None);
        let Finding::Name(text) = silence.looked(at(5000), sight(false), None) else { panic!() };
        assert!(text.contains("has not started for 5 s"), "{text}");
    }

    #[test]
    fn a_manager_that_waits_for_other_hosts_before_the_start_is_not_named() {
        let mut silence = Silence::new(1, Some(Duration::from_secs(3)));
        silence.heard(at(500));
        silence.begun(9);
        assert_eq!(silence.manager(), Some(9));
        assert_eq!(silence.looked(at(9000), sight(false), None), Finding::Nothing);
        let finding = silence.looked(at(9500), sight(true), None);
        assert_eq!(leaves(&finding), Some(124));
        silence.restart(at(9500));
        assert_eq!(silence.manager(), None);
    }

    #[test]
    fn a_running_manager_may_be_silent_and_a_stopped_one_is_named() {
        let mut silence = Silence::new(1, None);
        silence.started(at(10), 7);
        silence.heard(at(10));
        assert_eq!(silence.due(at(5010)), Some(Due::Look));
        assert_eq!(silence.looked(at(5010), sight(false), Some(&job())), Finding::Nothing);
        assert_eq!(silence.poll_timeout(), Some(at(10_010)));
        let finding = silence.looked(at(10_010), sight(true), Some(&job()));
        let Finding::Name(text) = finding else { panic!() };
        assert!(text.contains("the manager of job 1@h1 (process 7) is stopped"), "{text}");
    }

    #[test]
    fn the_second_request_for_the_end_is_not_waited_for_without_a_sign_of_the_manager() {
        let mut silence = Silence::new(4, None);
        silence.started(at(0), 7);
        assert!(!silence.end_requested(at(1000), 130));
        assert!(silence.end_requested(at(2000), 130));
        assert!(!silence.end_requested(at(2100), 143), "it was asked already");
        assert_eq!(silence.poll_timeout(), Some(at(3500)));
        assert_eq!(silence.due(at(3499)), None);
        assert_eq!(silence.due(at(3500)), Some(Due::Look));
        let finding = silence.looked(at(3500), sight(true), Some(&job()));
        assert_eq!(leaves(&finding), Some(130));
        let Finding::Leave(text, _) = finding else { panic!() };
        assert!(text.contains("its 4 ranks may still run and end when it continues"), "{text}");
    }

    #[test]
    fn a_manager_that_gives_signs_is_waited_for_and_asked_again() {
        let mut silence = Silence::new(1, None);
        silence.started(at(0), 7);
        silence.end_requested(at(0), 130);
        assert!(silence.end_requested(at(0), 130));
        silence.heard(at(100));
        assert_eq!(silence.due(at(1599)), None);
        assert_eq!(silence.due(at(1600)), Some(Due::Ask));
        assert_eq!(silence.due(at(3100)), Some(Due::Look));
        assert_eq!(leaves(&silence.looked(at(3100), sight(false), Some(&job()))), Some(130));
    }

    #[test]
    fn after_the_time_limit_a_manager_is_asked_for_a_sign() {
        let mut silence = Silence::new(1, Some(Duration::from_secs(3)));
        silence.started(at(500), 7);
        assert_eq!(silence.poll_timeout(), Some(at(3500)));
        assert_eq!(silence.due(at(3500)), Some(Due::Ask));
        assert_eq!(silence.due(at(5000)), Some(Due::Look));
        assert_eq!(leaves(&silence.looked(at(5000), sight(true), Some(&job()))), Some(124));
    }

    #[test]
    fn after_the_time_limit_a_stopped_daemon_is_left_at_once_and_a_slow_one_when_it_is_silent() {
        let limit = Some(Duration::from_secs(3));
        let mut silence = Silence::new(1, limit);
        assert_eq!(silence.due(at(3000)), Some(Due::Look));
        assert_eq!(leaves(&silence.looked(at(3000), sight(true), None)), Some(124));
        let mut silence = Silence::new(1, limit);
        assert_eq!(silence.looked(at(3000), sight(false), None), Finding::Nothing);
        assert_eq!(silence.due(at(3500)), Some(Due::Look));
        assert_eq!(leaves(&silence.looked(at(5000), sight(false), None)), Some(124));
    }

    #[test]
    fn a_process_that_is_gone_is_left_to_the_end_of_its_connection() {
        let mut silence = Silence::new(1, None);
        silence.started(at(0), 7);
        silence.end_requested(at(0), 130);
        silence.end_requested(at(0), 130);
        assert_eq!(silence.looked(at(1500), None, Some(&job())), Finding::Nothing);
        assert_eq!(silence.due(at(1500)), None);
    }
}
