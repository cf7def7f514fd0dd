//! Jobs of one user that speak to each other: their root managers find each other and pass bytes through the daemons.
//!
//! Both daemons check the user. A daemon keeps no state of a conversation, so a new daemon continues it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_jobtable::{JobTable, ManagerMessage, Marked, is_unregistered};
use mpd_ring::{Input, RequestId, Ring};
use mpd_wire::message::{
    Answer, MAX_PASSED, ManagerOrder, MeetingAnswer, MeetingOperation, OrderAnswer, Payload,
    RingOrder,
};
use mpd_wire::{DaemonName, JobId};

use crate::effect::Effect;
use crate::request::{Gathered, Numbers, Requester, payload_of, read_payload};

/// Most requests under way, so that consoles and names have room in the ring.
const MAX_UNDER_WAY: usize = 24;
/// How long the jobs of a daemon that died are expected back, with its successor. Managers look for a job as long.
const AWAY: Duration = Duration::from_secs(20);
/// Most requests that wait.
const MAX_WAITING: usize = 1024;

/// A request of a root manager of this host.
#[derive(Debug)]
pub(crate) struct MeetingRequest {
    /// The manager's job.
    pub(crate) job: JobId,
    /// The number that the manager gave the request.
    pub(crate) request: u32,
    /// The request.
    pub(crate) operation: MeetingOperation,
}

impl MeetingRequest {
    pub(crate) fn answered(self, answer: MeetingAnswer) -> ManagerMessage {
        ManagerMessage::new(self.job, ManagerOrder::Met { request: self.request, answer })
    }
}

/// The requests of root managers here.
#[derive(Debug)]
pub(crate) struct Meetings {
    /// The user of this daemon.
    uid: u32,
    numbers: Numbers,
    waiting: VecDeque<MeetingRequest>,
    under_way: BTreeMap<RequestId, MeetingRequest>,
}

impl Meetings {
    pub(crate) const fn new(uid: u32) -> Self {
        Self {
            uid,
            numbers: Numbers::new(Requester::Meetings),
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Queues a request, for [`Meetings::serve`].
    pub(crate) fn request(&mut self, request: MeetingRequest) -> Option<Effect> {
        if self.waiting.len() >= MAX_WAITING {
            let answer = later("too many requests about other jobs are under way here");
            return Some(Effect::Report(request.answered(answer)));
        }
        self.waiting.push_back(request);
        None
    }

    /// Serves queued requests, if this daemon has `entered` the ring.
    pub(crate) fn serve(&mut self, ring: &Ring, entered: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.under_way.len() < MAX_UNDER_WAY
            && let Some(request) = self.waiting.pop_front()
        {
            effects.push(if entered {
                self.begin(ring.name(), request)
            } else {
                Effect::Report(request.answered(later("the daemon is not in its ring yet")))
            });
        }
        effects
    }

    fn begin(&mut self, me: &DaemonName, request: MeetingRequest) -> Effect {
        let uid = self.uid;
        let input: Box<dyn FnOnce(RequestId) -> Input> = match &request.operation {
            MeetingOperation::Find { mark } => {
                let order = payload_of(&RingOrder::FindJob { mark: mark.clone(), uid });
                Box::new(|id| Input::Scatter(id, order))
            }
            MeetingOperation::Pass { to, payload } => {
                let is_ours = request.job.daemon() == me.as_str();
                let member = DaemonName::new(to.daemon()).ok().filter(|_| is_ours);
                let (Some(member), true) = (member, fits(payload)) else {
                    return Effect::Report(request.answered(MeetingAnswer::Gone));
                };
                let (from, to, payload) = (request.job.clone(), to.clone(), payload.clone());
                let order = payload_of(&RingOrder::PassToJob { from, to, uid, payload });
                Box::new(|id| Input::Send(id, member, order))
            }
        };
        let id = self.numbers.next();
        self.under_way.insert(id, request);
        Effect::Post(input(id))
    }

    /// Handles the answers to a request.
    pub(crate) fn gathered(&mut self, ring: &Ring, gathered: &Gathered) -> Option<Effect> {
        let request = self.under_way.remove(&gathered.request)?;
        let answer = match request.operation {
            MeetingOperation::Find { .. } => found(gathered, ring.lately_dead(AWAY)),
            MeetingOperation::Pass { .. } => passed(gathered),
        };
        Some(Effect::Report(request.answered(answer)))
    }

    /// Carries out an order of another daemon about a job here. Returns the answer, and a message for the root manager.
    ///
    /// # Errors
    /// Why the order is refused, for the log.
    pub(crate) fn carry_out(
        &self,
        jobs: &JobTable,
        origin: &DaemonName,
        order: RingOrder,
    ) -> Result<(OrderAnswer, Option<ManagerMessage>), String> {
        let is_of_user = |uid: u32| match uid == self.uid {
            true => Ok(()),
            false => Err(format!("{origin} asks for jobs of user {uid}")),
        };
        match order {
            RingOrder::FindJob { mark, uid } => {
                is_of_user(uid)?;
                let answer = match jobs.find_by_mark(&mark) {
                    Marked::Job(job) => OrderAnswer::Found { job },
                    Marked::Unregistered(job) => {
                        OrderAnswer::Failed { problem: is_unregistered(&job) }
                    }
                    Marked::None => OrderAnswer::NoSuchJob,
                };
                Ok((answer, None))
            }
            RingOrder::PassToJob { from, to, uid, payload } => {
                is_of_user(uid)?;
                if from.daemon() != origin.as_str() || !fits(&payload) {
                    return Err(format!("{origin} passes bytes in the name of job {from}"));
                }
                Ok(pass(jobs, from, to, payload))
            }
            _ => Ok((OrderAnswer::Unknown, None)),
        }
    }

    /// The ring refuses a request.
    pub(crate) fn refused(&mut self, request: RequestId, problem: &str) -> Option<Effect> {
        let request = self.under_way.remove(&request)?;
        Some(Effect::Report(request.answered(later(problem))))
    }
}

fn later(problem: &str) -> MeetingAnswer {
    MeetingAnswer::Later(problem.to_owned())
}

fn fits(payload: &Payload) -> bool {
    payload.as_bytes().len() <= MAX_PASSED
}

fn decoded(answer: &Answer) -> Option<OrderAnswer> {
    read_payload(&answer.answer).ok()
}

/// The job that was looked for. A daemon that does not know it yet, or is `away`, may have it.
fn found(gathered: &Gathered, away: Option<&DaemonName>) -> MeetingAnswer {
    let mut unsure = None;
    for answer in &gathered.answers {
        match decoded(answer) {
            Some(OrderAnswer::Found { job }) if job.daemon() == answer.name.as_str() => {
                return MeetingAnswer::Found(job);
            }
            Some(OrderAnswer::NoSuchJob | OrderAnswer::Found { .. }) => {}
            Some(OrderAnswer::Failed { problem }) => unsure = Some(problem),
            _ => unsure = Some(format!("{} does not know the order", answer.name)),
        }
    }
    match (gathered.missing.first(), unsure, away) {
        (Some(silent), ..) => later(&format!("no answer from {silent}")),
        (None, Some(problem), _) => later(&problem),
        (None, None, Some(away)) => later(&format!("the daemon of {away} has just died")),
        (None, None, None) => MeetingAnswer::Gone,
    }
}

fn passed(gathered: &Gathered) -> MeetingAnswer {
    match gathered.answers.first().and_then(decoded) {
        Some(OrderAnswer::Done) => MeetingAnswer::Passed,
        Some(OrderAnswer::NoSuchJob) => MeetingAnswer::Gone,
        Some(OrderAnswer::Failed { problem }) => MeetingAnswer::Later(problem),
        Some(_) => later("the daemon of the other job does not know the order"),
        None => later("the daemon of the other job does not answer"),
    }
}

fn pass(
    jobs: &JobTable,
    from: JobId,
    to: JobId,
    payload: Payload,
) -> (OrderAnswer, Option<ManagerMessage>) {
    match jobs.root(&to) {
        Some(true) => {
            let order = ManagerOrder::Passed { from, payload };
            (OrderAnswer::Done, Some(ManagerMessage::new(to, order)))
        }
        Some(false) => {
            let problem = format!("job {to}: its manager is not connected to a daemon now");
            (OrderAnswer::Failed { problem }, None)
        }
        None => (OrderAnswer::NoSuchJob, None),
    }
}

#[cfg(test)]
mod tests {
    use mpd_ring::RequestId;
    use mpd_wire::job::{JobKey, namespace_mark};

    use super::*;
    use crate::tests::SomeJobs;

    const UID: u32 = 7;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn gathered(answers: &[(&str, OrderAnswer)], missing: &[&str]) -> Gathered {
        let answer = |(of, answer): &(&str, OrderAnswer)| Answer {
            name: name(of),
            answer: payload_of(answer),
        };
        Gathered {
            request: RequestId(1),
            answers: answers.iter().map(answer).collect(),
            missing: missing.iter().map(|of| name(of)).collect(),
            depth: 1,
        }
    }

    #[test]
    fn a_job_is_found_by_the_answer_of_its_own_daemon_only() {
        let job: JobId = "7@h2".parse().unwrap();
        let yes = |of| (of, OrderAnswer::Found { job: job.clone() });
        let no = |of| (of, OrderAnswer::NoSuchJob);
        assert_eq!(
            found(&gathered(&[no("h1"), yes("h2")], &["h3"]), None),
            MeetingAnswer::Found(job.clone())
        );
        assert_eq!(found(&gathered(&[yes("h1"), no("h2")], &[]), None), MeetingAnswer::Gone);
    }

    #[test]
    fn a_job_may_be_at_a_daemon_that_is_silent_or_away_or_does_not_know_its_jobs_yet() {
        let no = |of| (of, OrderAnswer::NoSuchJob);
        let unsure = OrderAnswer::Failed { problem: "not yet".to_owned() };
        let is_later = |answer| matches!(answer, MeetingAnswer::Later(_));
        assert!(is_later(found(&gathered(&[no("h1")], &["h2"]), None)));
        assert!(is_later(found(&gathered(&[no("h1"), ("h2", unsure)], &[]), None)));
        assert!(is_later(found(&gathered(&[no("h1")], &[]), Some(&name("h2")))));
        assert_eq!(found(&gathered(&[no("h1"), no("h2")], &[]), None), MeetingAnswer::Gone);
    }

    #[test]
    fn bytes_are_passed_or_the_job_is_gone_or_its_daemon_is_silent() {
        assert_eq!(passed(&gathered(&[("h2", OrderAnswer::Done)], &[])), MeetingAnswer::Passed);
        assert_eq!(passed(&gathered(&[("h2", OrderAnswer::NoSuchJob)], &[])), MeetingAnswer::Gone);
        assert!(matches!(passed(&gathered(&[], &["h2"])), MeetingAnswer::Later(_)));
        assert!(matches!(passed(&gathered(&[], &[])), MeetingAnswer::Later(_)));
    }

    #[test]
    fn a_job_whose_manager_has_not_registered_yet_may_be_the_one_that_is_looked_for() {
        let job: JobId = "7@h1".parse().unwrap();
        let key = [3; 32];
        let find = |jobs: &SomeJobs| {
            let mark = namespace_mark(&JobKey::from_bytes(key).pmix_secret());
            let order = RingOrder::FindJob { mark, uid: UID };
            Meetings::new(UID).carry_out(&jobs.table, &name("h2"), order).unwrap().0
        };
        let mut jobs = SomeJobs::default();
        assert_eq!(find(&jobs), OrderAnswer::NoSuchJob);
        jobs.find(&job);
        assert!(matches!(find(&jobs), OrderAnswer::Failed { .. }));
        let other: JobId = "8@h1".parse().unwrap();
        jobs.start_root(&other, key);
        assert_eq!(find(&jobs), OrderAnswer::Found { job: other });
    }

    #[test]
    fn orders_of_another_user_or_in_the_name_of_a_foreign_job_are_refused() {
        let jobs = SomeJobs::default();
        let (me, uid) = (name("h2"), UID);
        let pass = |from: &str, uid| RingOrder::PassToJob {
            from: from.parse().unwrap(),
            to: "1@h1".parse().unwrap(),
            uid,
            payload: Payload::from(&b"x"[..]),
        };
        let find = |uid| RingOrder::FindJob { mark: "1f".into(), uid };
        let carry_out = |order| Meetings::new(UID).carry_out(&jobs.table, &me, order);
        let nothing = |order| matches!(carry_out(order), Ok((OrderAnswer::NoSuchJob, None)));
        assert!(nothing(find(uid)) && nothing(pass("3@h2", uid)));
        for refused in [find(uid + 1), pass("3@h2", uid + 1), pass("3@h3", uid)] {
            assert!(carry_out(refused).is_err());
        }
        let large = RingOrder::PassToJob {
            from: "3@h2".parse().unwrap(),
            to: "1@h1".parse().unwrap(),
            uid,
            payload: Payload::from(&vec![0; MAX_PASSED + 1][..]),
        };
        assert!(carry_out(large).is_err());
    }
}
